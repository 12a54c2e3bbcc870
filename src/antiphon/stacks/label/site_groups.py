"""Who is in which group, and at which site: the same at all sites of one site view (isis-1987, 4.2).

Promise: all sites have the same table in the same view of the sites, so they tell their processes the same views of the
groups, with the same ids.

Rule. A table changes between two site views, and then only: by the records of the GBCASTs that ended the first, in
their order, and by the sites that are not in the second. A view of a group bears the id of the site view that it begins
with. A process fails with its site, or by a record of its site. Of a name one life is in the groups at a time: if a
later one enters, the earlier has failed. A life that has failed, and all before it, enter nowhere any more.

Safe: records and site views come in one order at all sites, and what follows from them is decided by the table alone.
A site that joins is given the table as it was at the beginning of a view in which it is (site.py).

Limits: of the DEAD_MAX names that failed last it is known which lives have; a process of an earlier name that comes
back with a life that has failed is taken for a new one. Incarnations from the clock do not come back.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View
from antiphon.stacks.label.guests import encode_identity
from antiphon.stacks.label.site_frames import (
    ENTERS,
    FAILS,
    GBCAST,
    LEAVES,
    LOSES,
    RENEWS,
    GroupChange,
    SiteReader,
    SiteRecord,
    encode_frame,
)

DEAD_MAX: Final = 1000


@final
class HostedGroup:
    """One group: its members by age, each with its site, and the id of its view."""

    __slots__ = ("members", "view_id")

    def __init__(self, view_id: int, members: dict[ProcessId, ProcessId]) -> None:
        self.view_id = view_id
        self.members = members

    def view(self) -> View:
        return View(self.view_id, tuple(self.members))


@final
class Departure:
    """A process is out of a group; `view` is what it leaves behind."""

    __slots__ = ("group", "is_dead", "process", "view")

    def __init__(self, group: int, process: ProcessId, is_dead: bool, view: View) -> None:
        self.group = group
        self.process = process
        self.is_dead = is_dead
        self.view = view


@final
class GroupTable:
    """The groups of all sites."""

    __slots__ = ("_dead", "groups")

    def __init__(self) -> None:
        self.groups: dict[int, HostedGroup] = {}
        self._dead: dict[str, int] = {}
        """By name, the last life that is known to have failed; the last to fail come last."""

    def is_dead(self, process: ProcessId) -> bool:
        """Whether this life of a process has failed."""
        return self._dead.get(process.name, 0) >= process.incarnation

    def is_member(self, group: int, process: ProcessId, site: ProcessId) -> bool:
        """Whether a process is in a group, and at this site."""
        hosted = self.groups.get(group)
        return hosted is not None and hosted.members.get(process) == site

    # ---- from one site view to the next ----------------------------------------------------------------------------

    def change(
        self, view: View, records: list[tuple[ProcessId, SiteRecord]], left: tuple[ProcessId, ...]
    ) -> tuple[list[GroupChange], list[Departure]]:
        """Go over to this site view, by these records, each with the site that it came from; `left`: sites that have
        left in good order. What the processes are to be told."""
        return self._change(view.id, records, view, left)

    def change_across(
        self, view_id: int, records: list[tuple[ProcessId, SiteRecord]]
    ) -> tuple[list[GroupChange], list[Departure]]:
        """Have these records take effect over all clusters (clusters.py): sites fail by records, too."""
        return self._change(view_id, records, None, ())

    def _change(
        self,
        view_id: int,
        records: list[tuple[ProcessId, SiteRecord]],
        view: View | None,
        left: tuple[ProcessId, ...],
    ) -> tuple[list[GroupChange], list[Departure]]:
        before = {group: dict(hosted.members) for group, hosted in self.groups.items()}
        renewed: set[int] = set()
        parted: list[tuple[int, ProcessId, bool]] = []
        failed: set[ProcessId] = set()
        for site, record in records:
            if record.kind == ENTERS:
                self._enter(record, site, parted, failed)
            elif record.kind == LEAVES and self.is_member(record.group, record.process, site):
                del self.groups[record.group].members[record.process]
                parted.append((record.group, record.process, False))
            elif record.kind == FAILS:
                self._fail(record.process, site, failed)
            elif record.kind == GBCAST:
                renewed.add(record.group)
            elif record.kind == RENEWS:
                renewed.update(self.groups)
            elif record.kind == LOSES and view is None:
                for process in self._processes_at(record.process):
                    self._fail(process, record.process, failed)
        if view is not None:
            self._lose_sites(view, left, parted, failed)
        parted += [(group, process, True) for group in before for process in before[group] if process in failed]
        changes = self._compare(view_id, before, renewed, parted)
        return changes, [Departure(group, who, is_dead, self._left_to(group)) for group, who, is_dead in parted]

    def _processes_at(self, site: ProcessId) -> list[ProcessId]:
        found = [who for hosted in self.groups.values() for who, at in hosted.members.items() if at == site]
        return list(dict.fromkeys(found))

    def _enter(
        self, record: SiteRecord, site: ProcessId, parted: list[tuple[int, ProcessId, bool]], failed: set[ProcessId]
    ) -> None:
        process = record.process
        hosted = self.groups.get(record.group)
        if self.is_dead(process) or (hosted is not None and process in hosted.members):
            parted.append((record.group, process, True))
            return
        former = {
            each: at
            for other in self.groups.values()
            for each, at in other.members.items()
            if each.name == process.name and each.incarnation != process.incarnation
        }
        for each, at in former.items():
            if each.incarnation > process.incarnation:
                parted.append((record.group, process, True))
                return
            self._fail(each, at, failed)
        self.groups.setdefault(record.group, HostedGroup(0, {})).members[process] = site

    def _fail(self, process: ProcessId, site: ProcessId, failed: set[ProcessId]) -> None:
        """A process at this site has failed: it is in no group any more."""
        for hosted in self.groups.values():
            if hosted.members.get(process) == site:
                del hosted.members[process]
                failed.add(process)
        self._bury(process)

    def _bury(self, process: ProcessId) -> None:
        last = max(process.incarnation, self._dead.pop(process.name, 0))
        self._dead[process.name] = last
        while len(self._dead) > DEAD_MAX:
            del self._dead[next(iter(self._dead))]

    def _lose_sites(
        self,
        view: View,
        left: tuple[ProcessId, ...],
        parted: list[tuple[int, ProcessId, bool]],
        failed: set[ProcessId],
    ) -> None:
        present = set(view.members)
        for group, hosted in self.groups.items():
            for process, site in list(hosted.members.items()):
                if site in present:
                    continue
                del hosted.members[process]
                if site in left:
                    parted.append((group, process, False))
                else:
                    failed.add(process)
                    self._bury(process)

    def _compare(
        self,
        view_id: int,
        before: dict[int, dict[ProcessId, ProcessId]],
        renewed: set[int],
        parted: list[tuple[int, ProcessId, bool]],
    ) -> list[GroupChange]:
        """The next views of those groups whose members, or properties, have changed."""
        changes: list[GroupChange] = []
        for group, hosted in list(self.groups.items()):
            former = before.get(group, {})
            if not hosted.members:
                del self.groups[group]
            if former == hosted.members and (group not in renewed or not former):
                continue
            gone = [who for who in former if who not in hosted.members]
            out = [who for at, who, is_dead in parted if at == group and not is_dead]
            joined = tuple([who for who in hosted.members if who not in former])
            parent, hosted.view_id = hosted.view_id, view_id
            left = tuple([who for who in gone if who in out])
            failed = tuple([who for who in gone if who not in out])
            changes.append(GroupChange(group, hosted.view(), parent, not parent, joined, left, failed))
        return changes

    def _left_to(self, group: int) -> View:
        hosted = self.groups.get(group)
        return View(0, ()) if hosted is None else hosted.view()

    # ---- for sites that join ---------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        parts = [len(self.groups).to_bytes(4, "little")]
        for group, hosted in self.groups.items():
            parts += [encode_frame(0, group, hosted.view_id), len(hosted.members).to_bytes(4, "little")]
            for process, site in hosted.members.items():
                parts += [encode_identity(process), encode_identity(site)]
        parts.append(len(self._dead).to_bytes(4, "little"))
        parts += [encode_identity(ProcessId(name, last)) for name, last in self._dead.items()]
        return b"".join(parts)


def read_table(reader: SiteReader) -> GroupTable:
    """Raises MalformedError."""
    table = GroupTable()
    for _ in range(reader.u32()):
        reader.u8()
        group, view_id = reader.u64(), reader.number()
        hosted = table.groups[group] = HostedGroup(view_id, {})
        for _ in range(reader.u32()):
            process = reader.process()
            hosted.members[process] = reader.process()
    for _ in range(reader.u32()):
        process = reader.process()
        table._dead[process.name] = process.incarnation
    reader.end()
    return table
