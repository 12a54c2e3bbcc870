"""What is asked of the next view: who wants in, who wants out, and who was given up and may not come back.

A process that was let in, and given up before it knew, goes on asking. It must not be let in as if nothing had been:
whoever saw that view took it for a member. Its members remember that, and hand it on to those that come after them,
with the view (`unheard`); everybody else who is given up knows the view that it was in, and so cannot ask like a
newcomer.
"""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.messages import Life, Proposal

_JOINERS_MAX: Final = 200
_GONE_MAX: Final = 1000
_BARRED_MAX: Final = 100
_UNHEARD_MAX: Final = 100
"""Beyond that the first are forgotten."""


@final
class MembershipRequests:
    """The wishes that one member knows of."""

    __slots__ = ("_barred", "_left", "_unheard", "gone", "joiners", "leavers")

    def __init__(self) -> None:
        self.joiners: dict[ProcessId, str] = {}
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
        """Whether this life of a process has been a member and is none any more."""
        return self.gone.get(process.name, 0) >= process.incarnation

    def bar(self, name: str) -> None:
        """A process of this name was left out because of its links: it has to show that they are sound."""
        self._barred[name] = None
        while len(self._barred) > _BARRED_MAX:
            del self._barred[next(iter(self._barred))]

    def is_barred(self, name: str) -> bool:
        return name in self._barred

    def returns(self, process: ProcessId, last_view: int) -> bool:
        """Whether a process that is gone left in good order and asks anew, knowing the view from which it left. A late
        copy of what it asked before that knows an earlier view, or none."""
        return self._left.get(process, last_view + 1) <= last_view

    def let_in(self, process: ProcessId, address: str, room: int) -> bool:
        """Note that a process wants in; false if there is no room, and it must ask again. An earlier life of it that
        asked is over."""
        for other in [other for other in self.joiners if other.name == process.name]:
            if other.incarnation > process.incarnation:
                return False
            del self.joiners[other]
        if process not in self.joiners and len(self.joiners) >= min(_JOINERS_MAX, room):
            return False
        self.joiners[process] = address
        return True

    def installed(self, view: View) -> None:
        """What the view fulfils is no wish any more."""
        for member in view.members:
            self._barred.pop(member.name, None)
        self.joiners = {process: at for process, at in self.joiners.items() if view.rank(process) < 0}
        self.leavers = {process for process in self.leavers if view.rank(process) >= 0}

    def decided(self, view: View, proposal: Proposal) -> None:
        """After `view` comes the proposal: remember who is gone by it."""
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
        """Those that the next members have to remember, with these."""
        lives = dict.fromkeys(self._unheard)
        for process in processes:
            lives[process.name, process.incarnation] = None
        return list(lives)[-_UNHEARD_MAX:]

    def remember(self, proposal: Proposal) -> None:
        """What the view that comes hands on."""
        self._unheard = proposal.unheard[-_UNHEARD_MAX:]
        for name, incarnation in self._unheard:
            self._give_up(name, incarnation)

    def _give_up(self, name: str, incarnation: int) -> None:
        self.gone[name] = max(incarnation, self.gone.get(name, 0))
        while len(self.gone) > _GONE_MAX:
            del self.gone[next(iter(self.gone))]
