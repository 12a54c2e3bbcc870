"""Acks that are late on purpose: in an idle group a message then waits for a timer, or takes a flight more."""

from collections.abc import Callable

from antiphon.kernel.levels import AGREED, SAFE
from antiphon.parts.ack_budget import AckBudget
from antiphon.parts.exchange import Exchange
from antiphon.stacks.domain.safe_votes import SafeVotes
from tests.contracts.test_latency import (
    most_flights,
    test_no_message_waits_for_a_timer_whatever_arrives_first,
    test_one_message_after_the_other_takes_no_longer,
)
from tests.mutants.mutants import QUIET, Mutant


def _spend_all(self: AckBudget, now_ns: int) -> None:
    self.next_ns = now_ns + 4 * self._gap_ns


LATENCY_MUTANTS = (
    Mutant("acks of safe messages in their own time", (QUIET,), ((Exchange, "hurry_acks", lambda self: None),)),
    Mutant("one ack at once and then a rest", (QUIET,), ((AckBudget, "spend", _spend_all),)),
    Mutant("first votes are not followed", (QUIET,), ((SafeVotes, "lacks_ack", lambda *_: False),)),
)


def _late(stack: str) -> Callable[[], str | None]:
    """A scene: what a contract of latency says of safe messages on this stack."""

    def problem() -> str | None:
        try:
            for seed in range(6):
                test_no_message_waits_for_a_timer_whatever_arrives_first(stack, SAFE, seed)
            test_one_message_after_the_other_takes_no_longer(stack, SAFE)
            flights, agreed = most_flights(stack, 3, SAFE), most_flights(stack, 3, AGREED)
        except AssertionError as error:
            return str(error)
        return None if flights <= agreed + 1 else f"{flights} flights"

    return problem


LATENCY_STAGED: dict[str, Callable[[], str | None]] = {
    mutant.name: _late(stack) for mutant, stack in zip(LATENCY_MUTANTS, ("vector", "vector", "domain"), strict=True)
}
