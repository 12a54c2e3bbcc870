"""The rounds of a change of view, as their coordinator keeps them; see membership.py for the protocol."""

from typing import Final, final

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.messages import BarrierBody, MembershipMessage, Proposal
from antiphon.parts.membership.requests import MembershipRequests
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.ranges import Ranges

_STEP: Final = 1 << 16
ROUNDS_AHEAD_MAX: Final = _STEP << 20
"""How far a round may be ahead of all that a member knows of."""


def round_after(highest: int, rank: int) -> int:
    """The least round of the member with this rank that is greater than `highest`; no two members share a round."""
    return (highest // _STEP + 1) * _STEP + rank


@final
class Round:
    """A round that this member coordinates: who has answered what."""

    __slots__ = ("done", "next_view_id", "number", "overdue_at_ns", "proposal", "retry_at_ns", "states")

    def __init__(self, number: int, overdue_at_ns: int, next_view_id: int) -> None:
        self.number = number
        self.next_view_id = next_view_id
        """The id of the view that this round makes, if it makes one of its own."""
        self.overdue_at_ns = overdue_at_ns
        """By then it should be over; else those it counts on are gone, and others, which it left out, may be back."""
        self.states: dict[int, MembershipMessage] = {}
        self.proposal: Proposal | None = None
        self.done: dict[int, bytes] = {}
        """Who has accepted the proposal, each with its proof of that (kernel/credentials.py)."""
        self.retry_at_ns = 0

    def accepted(self) -> Proposal | None:
        """The proposal that may already have been installed: the accepted one with the greatest round."""
        best = 0
        proposal: Proposal | None = None
        for state in self.states.values():
            if state.accepted is not None and state.accepted_round > best:
                best = state.accepted_round
                proposal = state.accepted
        if proposal is None:
            return None
        # Of those that held the cut when it was proposed some may be gone; whoever accepted it has all of it.
        return Proposal(
            proposal.view, proposal.left, proposal.failed, proposal.cut, sorted(self.states), proposal.barriers,
            proposal.annex, proposal.unheard,
        )  # fmt: skip

    def make_proposal(self, view: View, end: ViewEnd, requests: MembershipRequests, heard: set[int]) -> Proposal:
        """Those that answered, without those that leave, then those that join; and all that anybody holds."""
        cut = [Ranges([]) for _ in view.members]
        barriers: list[BarrierBody] = []
        annexes: list[bytes] = []
        for sender in sorted(self.states):
            state = self.states[sender]
            barriers.extend((sender, number, payload) for _, number, payload in state.barriers[:1])
            annexes.append(state.annex)
            for rank, held in enumerate(state.holdings):
                cut[rank] = cut[rank].union(held)
        members: list[ProcessId] = []
        addresses: list[str] = []
        left: list[int] = []
        failed: list[int] = []
        for rank, member in enumerate(view.members):
            if rank not in self.states:
                failed.append(rank)  # also one that wanted to leave: what it holds is not in the cut
            elif member in requests.leavers:
                left.append(rank)
            else:
                members.append(member)
                addresses.append(self.states[rank].address)
        lives = {member.name for member in members}
        for process, address in requests.joiners.items():
            # Of two lives of one process the later has to wait: the earlier is as good as gone, but it has answered.
            if view.rank(process) < 0 and process.name not in lives:
                members.append(process)
                addresses.append(address)
        after = View(self.next_view_id, tuple(members), tuple(addresses))
        unheard = [view.members[rank] for rank in failed if rank not in heard]
        return Proposal(
            after, left, failed, cut, sorted(self.states), barriers, end.merge_annexes(annexes),
            requests.unheard_with(unheard),
        )  # fmt: skip
