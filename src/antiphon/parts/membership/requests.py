"""What is asked of the next view: who wants in, who wants out, and who was given up and may not come back.

A process that was let in, and given up before it knew, goes on asking. It must not be let in as if nothing had been:
whoever saw that view took it for a member. Its members remember that, and hand it on to those that come after them,
with the view (`unheard`); everybody else who is given up knows the view that it was in, and so cannot ask like a
newcomer.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.wire_versions import VERSION_MIN
from antiphon.parts.membership.messages import Life, Proposal

_JOINERS_MAX: Final = 200
_GONE_MAX: Final = 1000
_BARRED_MAX: Final = 100
_UNHEARD_MAX: Final = 100
"""Beyond that the first are forgotten."""


@final
class MembershipRequests:
    """The requests to join, leave and flush that one member knows of, and the processes that are no longer members."""

    __slots__ = ("_barred", "_left", "_unheard", "_versions", "gone", "joiners", "leavers")

    def __init__(self) -> None:
        self.joiners: dict[ProcessId, str] = {}
        self._versions: dict[ProcessId, int] = {}
        """The highest version of packets that each of them reads."""
        self.leavers: set[ProcessId] = set()
        self.gone: dict[str, int] = {}
        """The last incarnation of each name that left or was given up."""
        self._left: dict[ProcessId, int] = {}
        """The view from which each process left in good order; it may come back in the same life."""
        self._unheard: list[Life] = []
        self._barred: dict[str, None] = {}

    def are_open(self) -> bool:
        return bool(self.joiners or self.leavers)

    def is_gone(self, process: ProcessId) -> bool:
        """Return whether this incarnation was a member and no longer is."""
        return self.gone.get(process.name, 0) >= process.incarnation

    def bar(self, name: str) -> None:
        """Let a process of this name join again only if its links work: it was left out because of them."""
        self._barred[name] = None
        while len(self._barred) > _BARRED_MAX:
            del self._barred[next(iter(self._barred))]

    def is_barred(self, name: str) -> bool:
        return name in self._barred

    def returns(self, process: ProcessId, last_view: int) -> bool:
        """Return whether a process that has left asks to join again, and not a late copy of an earlier request: it
        names the view from which it left."""
        return self._left.get(process, last_view + 1) <= last_view

    def let_in(self, process: ProcessId, address: str, room: int, version: int = VERSION_MIN) -> bool:
        """Note a request to join; false if there is no room, and the process must ask again. A request of an earlier
        incarnation is dropped."""
        for other in [other for other in self.joiners if other.name == process.name]:
            if other.incarnation > process.incarnation:
                return False
            del self.joiners[other]
            self._versions.pop(other, None)
        if process not in self.joiners and len(self.joiners) >= min(_JOINERS_MAX, room):
            return False
        self.joiners[process] = address
        self._versions[process] = version
        return True

    def version(self, process: ProcessId) -> int:
        """The highest version of packets that a process which wants in reads."""
        return self._versions.get(process, VERSION_MIN)

    def installed(self, view: View) -> None:
        """Drop the requests that this view has fulfilled."""
        for member in view.members:
            self._barred.pop(member.name, None)
        self.joiners = {process: at for process, at in self.joiners.items() if view.rank(process) < 0}
        self._versions = {process: self.version(process) for process in self.joiners}
        self.leavers = {process for process in self.leavers if view.rank(process) >= 0}

    def decided(self, view: View, proposal: Proposal) -> None:
        """Note which members of `view` the proposal for the next view removes."""
        for rank in (*proposal.left, *proposal.failed):
            member = view.members[rank]
            self._give_up(member.name, member.incarnation)
            self._left.pop(member, None)
        for rank in proposal.left:
            self._left[view.members[rank]] = view.id
        while len(self._left) > _GONE_MAX:
            del self._left[next(iter(self._left))]
        self.remember(proposal)

    def unheard_with(self, processes: list[ProcessId]) -> list[Life]:
        """Return the removed processes that members of the next view must remember, together with these."""
        lives = dict.fromkeys(self._unheard)
        for process in processes:
            lives[process.name, process.incarnation] = None
        return list(lives)[-_UNHEARD_MAX:]

    def remember(self, proposal: Proposal) -> None:
        """Take over which processes were removed, from the proposal that made this view."""
        self._unheard = proposal.unheard[-_UNHEARD_MAX:]
        for name, incarnation in self._unheard:
            self._give_up(name, incarnation)

    def _give_up(self, name: str, incarnation: int) -> None:
        self.gone[name] = max(incarnation, self.gone.get(name, 0))
        while len(self.gone) > _GONE_MAX:
            del self.gone[next(iter(self.gone))]
