"""How a site that joins learns who is in which group (rule 7 of site.py): who has the table, and who is to tell it."""

from typing import final

from antiphon.kernel.effects import Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.stacks.label.site_frames import TABLE, WANT, SiteReader, encode_frame
from antiphon.stacks.label.site_groups import GroupTable, read_table


@final
class TableTransfer:
    """The table of one site, and what it knows of others that have none."""

    __slots__ = ("_came", "_lacking", "_site", "_view", "_wanting", "_word", "has_table", "owes_word", "table")

    def __init__(self, site: ProcessId) -> None:
        self._site = site
        self._view = View(0, ())
        self.table = GroupTable()
        self.has_table = False
        self._came = False
        """Whether a TABLE was delivered in this site view, or all sites of it have found that there is none."""
        self._lacking: set[ProcessId] = set()
        """The sites of this view that began it without the table, as those know that have it…"""
        self._wanting: set[ProcessId] = set()
        """…and those that have said so."""
        self.owes_word = False
        """Whether this site has to tell the table, or that it lacks it."""
        self._word = b""
        """The table as it was at the beginning of this view, if this site has to tell it."""

    def install(self, event: Installed) -> None:
        """A site view begins."""
        self._view = event.view
        self.has_table = self.has_table or event.founded
        joined = set() if event.founded else set(event.joined)
        before = set() if self._came else self._lacking
        self._lacking = (before | joined) & set(event.view.members)
        self._wanting = set()
        self._came = False
        with_table = [site for site in event.view.members if site not in self._lacking]
        is_to_tell = bool(self._lacking) and with_table[:1] == [self._site]
        self.owes_word = is_to_tell or not self.has_table

    def keep_word(self, state: bytes) -> None:
        """Keep what is to be told: the table, and the state of the cluster, as they are now."""
        if self.owes_word:
            table = self.table.encode()
            size = len(table).to_bytes(4, "little")
            self._word = b"".join([encode_frame(TABLE, self._view.id), size, table, state])

    def word(self) -> bytes:
        """What this site has to tell the others."""
        return self._word if self.has_table else encode_frame(WANT, self._view.id)

    def take_table(self, reader: SiteReader) -> SiteReader | None:
        """A TABLE has come; what follows it, if this site lacked it. Raises MalformedError."""
        if reader.number() != self._view.id:
            return None  # it was to leave in an earlier view; another follows
        self._came = True
        if self.has_table:
            return None
        self.table = read_table(SiteReader(reader.blob(reader.u32())))
        self.has_table = True
        return reader

    def take_want(self, reader: SiteReader, site: ProcessId) -> bool:
        """A site says that it lacks the table; whether it is known now that nobody has it. Raises MalformedError."""
        if reader.number() != self._view.id:
            return False
        self._wanting.add(site)
        if self._came or not self._wanting.issuperset(self._view.members):
            return False
        self._came = True
        self.has_table = True
        return True
