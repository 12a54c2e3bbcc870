"""What a process puts into a suggestion: the processes that it knows of, where each comes from, and who of them hear
each other (transis-1992, 5.2: suggestions are combined by taking all live processes of all of them).

A process that is said to be in two configurations has moved from one to the other: it counts where it is now, which is
the one with the higher id, since ids rise. While it is heard its own word about that counts more than what others say,
who may take it to be in a configuration that it never installed. When it is not, all must say the same of it, or their
suggestions would never be alike: so the highest id that anybody says counts. Of several incarnations of a process the
last one counts.

The cut links of a suggestion are those of the last row that its proposer knows of each process (surroundings.py).
"""

from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.reachability import component
from antiphon.stacks.domain.component_messages import CutRow, CutRows, Suggestion
from antiphon.stacks.domain.surroundings import Surroundings


@final
class SuggestionDraft:
    """A suggestion in the making."""

    __slots__ = ("_around", "_away", "_cuts", "_now_ns", "_process", "_view", "addresses", "origins", "rows")

    def __init__(self, process: ProcessId, view: View, around: Surroundings, own: CutRow, now_ns: int) -> None:
        self._now_ns = now_ns
        self._process = process
        self._view = view
        self._around = around
        self.addresses: dict[ProcessId, str] = {}
        self.origins: dict[ProcessId, int] = {}
        self.rows: CutRows = {**around.rows, process: own}
        self._cuts: set[tuple[ProcessId, ProcessId]] = set()
        self._away: set[ProcessId] = set()
        self.add_view(view)

    def add_view(self, view: View) -> None:
        """All of another configuration."""
        for process, address in zip(view.members, view.addresses, strict=True):
            self._add(process, address, view.id)

    def add_suggestion(self, other: Suggestion) -> None:
        """All of another suggestion."""
        for process, address in zip(other.view.members, other.view.addresses, strict=True):
            self._add(process, address, other.origins[process])

    def _add(self, process: ProcessId, address: str, origin: int) -> None:
        stated = self._around.stated(process)
        if process == self._process:
            origin = self._view.id
        elif self._view.rank(process) >= 0:
            origin = max(self._view.id, stated)
        elif stated and self._around.hears(process, self._now_ns):
            origin = stated
        if origin >= self.origins.get(process, 0):
            self.addresses.setdefault(process, address)
            self.origins[process] = origin

    def members(self, silent: set[ProcessId]) -> list[ProcessId]:
        """The largest set of these without a cut link between two of them that the proposer is in; `silent`, whom the
        proposer does not hear lately, are left out if anybody else says that the link to them is cut."""
        newest: dict[str, int] = {}
        for process in self.addresses:
            newest[process.name] = max(process.incarnation, newest.get(process.name, 0))
        self.rows = {process: row for process, row in self.rows.items() if process in self.addresses}
        self._cuts = cuts = {(one, other) for one, row in self.rows.items() for other in row.others}
        self._away = {one for one, other in cuts if other == self._process} | self.rows[self._process].others
        self._away |= {other for _, other in cuts if other in silent}
        self._away |= {process for process in self.addresses if process.incarnation < newest[process.name]}
        self._away.discard(self._process)
        left = [process for process in self.addresses if process not in self._away]
        place = {process: index for index, process in enumerate(left)}
        pairs = {(place[one], place[other]) for one, other in cuts if one in place and other in place}
        kept = component(set(range(len(left))), pairs)
        return [process for index, process in enumerate(left) if index in kept]

    def is_as_good(self, other: Suggestion, members: list[ProcessId]) -> bool:
        """Whether a suggestion has as many members as these, from where they come, without a cut link between two, and
        the same of the proposer's own configuration. Call `members` first."""
        origins = other.origins
        if len(origins) != len(members) or self._process not in origins or not self._away.isdisjoint(origins):
            return False
        if any(self.origins.get(process) != origin for process, origin in origins.items()):
            return False
        if any(one in origins and two in origins for one, two in self._cuts):
            return False
        mates = {process for process in members if self._view.rank(process) >= 0}
        return mates == {process for process in origins if self._view.rank(process) >= 0}
