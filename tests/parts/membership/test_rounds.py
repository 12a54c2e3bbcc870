"""Rounds: no two members share one, and what a round proposes."""

from antiphon.kernel.identity import ProcessId, View
from antiphon.parts.membership.messages import STATE, MembershipMessage, Proposal
from antiphon.parts.membership.requests import MembershipRequests
from antiphon.parts.membership.rounds import Round, round_after
from antiphon.parts.membership.session import ViewEnd
from antiphon.parts.ranges import Ranges

VIEW = View(4, tuple(ProcessId(name) for name in "abcd"), tuple("ABCD"))


def test_rounds_rise_and_name_their_coordinator() -> None:
    first = round_after(0, 3)
    assert first < round_after(first, 0) < round_after(round_after(first, 0), 3)
    assert round_after(7, 1) != round_after(7, 2)


def state(
    rank: int, held: list[list[tuple[int, int]]], accepted: Proposal | None = None, round: int = 0
) -> MembershipMessage:
    holdings = [Ranges(pairs) for pairs in held]
    member, address = VIEW.members[rank], VIEW.addresses[rank]
    return MembershipMessage(STATE, member, address, 4, accepted=accepted, accepted_round=round, holdings=holdings)


def test_a_proposal_holds_all_that_anybody_holds() -> None:
    current = Round(1, 0, 5)
    current.states = {
        0: state(0, [[(1, 3)], [], [(1, 2)], []]),
        2: state(2, [[(1, 1)], [(1, 1), (4, 4)], [(1, 9)], []]),
        3: state(3, [[], [(1, 2)], [], [(1, 1)]]),
    }
    wishes = MembershipRequests()
    wishes.leavers = {ProcessId("d")}
    wishes.joiners = {ProcessId("e"): "E", ProcessId("a"): "A"}
    proposal = current.make_proposal(VIEW, ViewEnd(), wishes, {0, 2, 3})
    assert [part.pairs for part in proposal.cut] == [[(1, 3)], [(1, 2), (4, 4)], [(1, 9)], [(1, 1)]]
    assert proposal.view.id == 5
    assert proposal.view.members == (ProcessId("a"), ProcessId("c"), ProcessId("e"))
    assert proposal.view.addresses == ("A", "C", "E")
    assert (proposal.left, proposal.failed, proposal.sources) == ([3], [1], [0, 2, 3])
    assert proposal.unheard == [("b", 1)]
    assert current.make_proposal(VIEW, ViewEnd(), wishes, {1}).unheard == []


def test_the_accepted_proposal_of_the_greatest_round_is_taken_over() -> None:
    older, newer = (Proposal(View(5, VIEW.members), [], [], [], [4], [], b"") for _ in range(2))
    current = Round(9, 0, 5)
    current.states = {0: state(0, []), 1: state(1, [], newer, 7), 2: state(2, [], older, 3)}
    taken = current.accepted()
    assert taken is not None
    assert taken.view is newer.view
    assert taken.sources == [0, 1, 2], "who held the cut at first may be gone; who accepted it has it"
    current.states = {0: state(0, [])}
    assert current.accepted() is None
