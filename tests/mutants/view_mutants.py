"""Changes of view broken on purpose; hunted in the adversarial seeds of tests/simulation, or on a staged scene."""

from collections.abc import Callable
from typing import Any

from antiphon.kernel.effects import Effects
from antiphon.parts.former_life import FormerLife
from antiphon.parts.incoming import IncomingStream
from antiphon.parts.membership.membership import Membership
from antiphon.parts.membership.messages import Proposal
from antiphon.parts.membership.packet_view_end import PacketViewEnd
from antiphon.parts.membership.policies import PrimaryPolicy
from antiphon.parts.membership.requests import MembershipRequests
from antiphon.parts.membership.rounds import Round
from antiphon.parts.ranges import Ranges
from antiphon.parts.suspicion import Suspicion
from antiphon.pipeline.campaign.judge import REST
from antiphon.stacks.vector.session import ViewSession
from tests.mutants.mutants import Mutant
from tests.parts.membership.wire import SECONDS, begins_again, founded
from tests.simulation.test_links import felled_by_one_that_was_deaf

FORMER_LIFE = "a former life that nobody believes in"
FIRST_MAJORITY = "a member that is back goes on with whoever answers first"
ANY_STATUS = "a former life denied by whoever knew nothing of it"


def _cut_of_the_coordinator(self: Round, view: Any, end: Any, wishes: Any, heard: Any) -> Proposal:
    proposal = _make_proposal(self, view, end, wishes, heard)
    first = self.states[min(self.states)]
    proposal.cut = [Ranges(list(held.pairs)) for held in first.holdings]
    return proposal


_make_proposal = Round.make_proposal


def _never_closed(self: IncomingStream, cut: Ranges, now_ns: int) -> None:
    """Asks for nothing that the cut names and that it does not know of."""
    self._cut = Ranges([(1, self.received)] if self.received else [])
    self.known = self.received


def _holdings_up_to_the_first_gap(self: PacketViewEnd) -> list[Ranges]:
    return [Ranges(held.pairs[:1] if held.pairs and held.pairs[0][0] == 1 else []) for held in _holdings(self)]


_holdings = PacketViewEnd.holdings


def _finish_without_the_rest(self: ViewSession, barriers: Any, effects: Effects, now_ns: int) -> bool:
    """What a paused application has not yet been given is dropped."""
    return True


def _part_at_once(self: Membership, proposal: Proposal, effects: Effects, now_ns: int) -> None:
    self._end(self._me not in proposal.left, effects)


def _fits_for_all(self: FormerLife, rank: int) -> None:
    self._contradictions = [0] * len(self._contradictions)


VIEW_MUTANTS = (
    Mutant(
        "cut not waited for", ("view_synchrony",), ((PacketViewEnd, "is_complete", lambda self: self._cut is not None),)
    ),
    Mutant("members go on during the flush", ("view_synchrony",), ((PacketViewEnd, "freeze", lambda self: None),)),
    Mutant("cut of the coordinator alone", ("view_synchrony",), ((Round, "make_proposal", _cut_of_the_coordinator),)),
    Mutant("cut not fetched", ("view_synchrony",), ((IncomingStream, "close_at", _never_closed),)),
    Mutant(
        "any number is a majority", ("primary",), ((PrimaryPolicy, "may_go_on", lambda self, ranks, members: True),)
    ),
    Mutant(
        "early packets not reported", ("view_synchrony",), ((PacketViewEnd, "holdings", _holdings_up_to_the_first_gap),)
    ),
    Mutant(
        "rest of the cut not delivered", ("view_synchrony",), ((ViewSession, "finish_cut", _finish_without_the_rest),)
    ),
    Mutant(
        "accepted proposal forgotten",
        ("view_agreement", "primary", "view_synchrony"),
        ((Round, "accepted", lambda self: None),),
    ),
    Mutant(
        "an excluded life let in again",
        ("fifo", "causal", "settled"),
        ((MembershipRequests, "is_gone", lambda *_: False),),
    ),
    Mutant("leaver does not wait", (REST,), ((Membership, "_part", _part_at_once),)),
    Mutant(FORMER_LIFE, (), ((FormerLife, "is_certain", lambda *_: False),)),
    Mutant(FIRST_MAJORITY, (), ((Suspicion, "are_returning", lambda *_: False),)),
    Mutant(ANY_STATUS, (), ((FormerLife, "fits", _fits_for_all),)),
)


def former_life_problem() -> str | None:
    """What becomes of a group whose oldest founder, which had sent nothing, begins again."""
    wire, view = founded("vector", talker="a2")
    begins_again(wire, view, "a1")
    delivered = wire.delivered["a3"].count(b"again")
    if set(wire.ended) == {"a1"} and delivered >= SECONDS - 1:
        return None
    return f"ended: {sorted(wire.ended)}; p3 delivered {delivered} of {SECONDS} messages"


def first_majority_problem() -> str | None:
    """Who is excluded when a member hears the others again."""
    felled = felled_by_one_that_was_deaf("p3", 1500, "vector")
    return f"excluded: {felled}" if felled else None


VIEW_STAGED: dict[str, Callable[[], str | None]] = {
    FORMER_LIFE: former_life_problem,
    FIRST_MAJORITY: first_majority_problem,
    ANY_STATUS: former_life_problem,
}
