"""How a site that joins learns who is in which group (rule 7 of site.py): who has the table, and who is to tell it."""

from typing import final

from antiphon.kernel.effects import Installed
from antiphon.kernel.identity import ProcessId, View
from antiphon.stacks.label.site_frames import TABLE, WANT, SiteReader, encode_frame
from antiphon.stacks.label.site_groups import GroupTable, read_table


@final
class TableTransfer:
    """The table of one site, and what it knows of others that have none."""

    __slots__ = ("_came", "_lacking", "_site", "_view", "_wanting", "has_table", "owes_word", "table")

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

    def word(self) -> bytes:
        """What this site has to tell the others."""
        if not self.has_table:
            return encode_frame(WANT, self._view.id)
        return b"".join([encode_frame(TABLE, self._view.id), self.table.encode()])

    def take_table(self, reader: SiteReader) -> None:
        """A TABLE has come. Raises MalformedError."""
        if reader.number() != self._view.id:
            return  # it was to leave in an earlier view; another follows
        self._came = True
        if not self.has_table:
            self.table = read_table(reader)
            self.has_table = True

    def take_want(self, reader: SiteReader, site: ProcessId) -> None:
        """A site says that it lacks the table. Raises MalformedError."""
        if reader.number() == self._view.id:
            self._wanting.add(site)
            if self._wanting.issuperset(self._view.members):
                self._came = True
                self.has_table = True
