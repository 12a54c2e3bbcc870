"""What a process puts into a suggestion: the processes that it knows of, where each comes from, and who of them hear
each other (transis-1992, 5.2: suggestions are combined by taking all live processes of all of them).

A process that is said to be in two configurations has moved from one to the other: it counts where it is now, which is
the one with the higher id, since ids rise. While it is heard its own word about that counts more than what others say,
who may take it to be in a configuration that it never installed. When it is not, all must say the same of it, or their
suggestions would never be alike: so the highest id that anybody says counts. Of several incarnations of a process the
last one counts.

A cut link that others name counts until the process at its first end, which is the one that did not hear or had given
up the other, takes it back: by a later suggestion of its own that has both and does not name it, or by its word to the
other end. That process makes such a suggestion when it hears the other again (surroundings.py). Otherwise a cut would
go round for good among processes that withdraw at different times and hear of it again from each other, long after the
link works.
"""

from typing import final

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.reachability import component
from antiphon.stacks.domain.component_messages import Suggestion
from antiphon.stacks.domain.surroundings import Surroundings

Cuts = set[tuple[ProcessId, ProcessId]]
"""Links that are taken to be cut: one end does not hear, or has given up, the other."""


@final
class SuggestionDraft:
    """A suggestion in the making."""

    __slots__ = ("_around", "_now_ns", "_process", "_view", "addresses", "cuts", "origins")

    def __init__(self, process: ProcessId, view: View, around: Surroundings, cuts: Cuts, now_ns: int) -> None:
        self._now_ns = now_ns
        self._process = process
        self._view = view
        self._around = around
        self.addresses: dict[ProcessId, str] = {}
        self.origins: dict[ProcessId, int] = {}
        self.cuts = set(cuts)
        self.add_view(view)

    def add_view(self, view: View) -> None:
        """All of another configuration."""
        for process, address in zip(view.members, view.addresses, strict=True):
            self._add(process, address, view.id)

    def add_suggestions(self, others: list[Suggestion]) -> None:
        """All of other suggestions, and the cut links that they name."""
        for other in others:
            self.cuts |= {cut for cut in other.cuts if not self._is_taken_back(cut, other, others)}
            self._add_members(other)

    def _is_taken_back(self, cut: tuple[ProcessId, ProcessId], by: Suggestion, others: list[Suggestion]) -> bool:
        """Whether a cut that a suggestion names counts no longer."""
        first, second = cut
        if first == self._process:
            return self._around.takes_back(second, self._now_ns)
        if second == self._process and self._around.is_heard_by(first, self._now_ns):
            return True
        return any(
            other.proposer == first and other.number > by.number and other.has(second) and cut not in other.cuts
            for other in others
        )

    def _add_members(self, other: Suggestion) -> None:
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

    def members(self) -> list[ProcessId]:
        """The largest set of these without a cut link between two of them that the proposer is in."""
        newest: dict[str, int] = {}
        for process in self.addresses:
            newest[process.name] = max(process.incarnation, newest.get(process.name, 0))
        away = {one for one, other in self.cuts if other == self._process}
        away |= {other for one, other in self.cuts if one == self._process}
        left = [p for p in self.addresses if p not in away and p.incarnation == newest[p.name]]
        if self._process not in left:
            left.insert(0, self._process)
        place = {process: index for index, process in enumerate(left)}
        pairs = {(place[one], place[other]) for one, other in self.cuts if one in place and other in place}
        kept = component(set(range(len(left))), pairs)
        return [process for index, process in enumerate(left) if index in kept]

    def is_same(self, other: Suggestion, members: list[ProcessId]) -> bool:
        """Whether a suggestion has just these members, from where they come."""
        return set(other.view.members) == set(members) and all(other.origins[p] == self.origins[p] for p in members)
