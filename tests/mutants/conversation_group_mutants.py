"""Groups on the stack `conversation` broken on purpose; hunted in adversarial seeds on that stack."""

from collections.abc import Callable
from typing import Any

from antiphon.kernel.effects import Effects
from antiphon.parts.membership.graph_view_end import GraphViewEnd
from antiphon.parts.message_graph import GraphError, MessageGraph
from antiphon.parts.ranges import Ranges
from antiphon.pipeline.campaign.judge import REST
from antiphon.stacks.conversation.group import ordering, session
from antiphon.stacks.conversation.group.ordering import Ordering
from antiphon.stacks.conversation.group.session import ConversationSession
from antiphon.stacks.conversation.offers import OFFERS as CONVERSATION
from tests.mutants.mutants import Mutant


def _drain_waves_that_have_begun(self: Ordering, effects: Effects) -> None:
    """Takes a wave for whole as soon as the wave before it is."""
    self._graph.stable_wave += 1
    try:
        _drain(self, effects)
    finally:
        self._graph.stable_wave -= 1


_drain = Ordering.drain


def _settle_without_one(self: MessageGraph, rank: int) -> None:
    """Takes a message for stable though one participant has not answered."""
    absent = self.participants - 1
    working = self.working
    if absent != rank and working.bit_count() > 2:
        self.working &= ~(1 << absent)
    try:
        _settle(self, rank)
    finally:
        self.working = working


_settle = MessageGraph._settle


def _finish_without_the_rest(self: ConversationSession, barriers: Any, effects: Effects, now_ns: int) -> bool:
    return True


def _holdings_but_for_the_last(self: GraphViewEnd) -> list[Ranges]:
    return [Ranges([(1, last - 1)] if last > 1 else []) for last in self._graph.last]


def _close_without_asking(self: GraphViewEnd, cut: list[Ranges], sources: list[int], now_ns: int) -> None:
    """What is missing of the cut is left out."""
    self.frozen = True
    self._cut = list(self._graph.last)


def _acknowledge_too_early(self: ConversationSession) -> None:
    """What a member tells counts before all that it had sent is here."""
    for rank, counts in list(self._early_acks.items()):
        last = self._graph.last[rank]
        self._graph.last[rank] = max(last, counts[rank])
        self._graph.acknowledge(rank, self._early_acks.pop(rank))
        self._graph.last[rank] = last
    _settle_session(self)


_settle_session = ConversationSession._settle


def _free_all_that_is_stable(self: MessageGraph, rank: int, number: int) -> int:
    """A stable message is freed though it may be a leaf of somebody's view."""
    told, self._are_told = self._are_told, False
    try:
        return _free_up_to(self, rank, number)
    finally:
        self._are_told = told


_free_up_to = MessageGraph._free_up_to


def _hand_out_to_all(self: Ordering, node: Any, batch: Any, effects: Effects) -> None:
    """A message for some is handed out to all."""
    batch.destinations = -1
    _assemble(self, node, batch, effects)


_assemble = Ordering._assemble


def _long_silence() -> str:
    from tests.parts import test_message_graph

    return _scene(test_message_graph.test_what_is_told_to_be_received_is_stable_and_its_last_one_is_not_freed)


def _lost_word() -> str:
    from tests.stacks.conversation import test_group

    return _scene(test_group.test_an_acknowledgement_that_was_lost_is_asked_for)


def _scene(test: Callable[[], None]) -> str:
    """What a test says."""
    try:
        test()
    except (AssertionError, GraphError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


CONVERSATION_GROUP_STAGED = {
    "conversation: leaves are freed": _long_silence,
    "conversation: a member that waits does not say so": _lost_word,
}


def _mutant(name: str, breaks: tuple[str, ...], place: Any, attribute: str, replacement: Any) -> Mutant:
    return Mutant(f"conversation: {name}", breaks, ((place, attribute, replacement),), CONVERSATION.name)


CONVERSATION_GROUP_MUTANTS = (
    _mutant("a wave taken for whole too early", ("total",), Ordering, "drain", _drain_waves_that_have_begun),
    _mutant("a wave in the order of arrival", ("total",), ordering, "_sender", lambda batch: 0),
    _mutant("weak ones wait for nothing", ("fifo", "causal"), Ordering, "_is_blocked", lambda self, node: False),
    _mutant("stable though one has not answered", ("safe", "total"), MessageGraph, "_settle", _settle_without_one),
    _mutant("cut not waited for", ("view_synchrony",), GraphViewEnd, "is_complete", lambda self: self._cut is not None),
    _mutant("members go on during the flush", ("view_synchrony",), GraphViewEnd, "freeze", lambda self: None),
    _mutant("cut not fetched", ("view_synchrony",), GraphViewEnd, "close_at", _close_without_asking),
    _mutant("last one not reported", ("view_synchrony",), GraphViewEnd, "holdings", _holdings_but_for_the_last),
    _mutant(
        "rest of the cut not delivered", ("view_synchrony",), ConversationSession, "finish_cut",
        _finish_without_the_rest,
    ),
    _mutant("a word counts too early", ("total",), ConversationSession, "_settle", _acknowledge_too_early),
    _mutant("leaves are freed", (REST,), MessageGraph, "_free_up_to", _free_all_that_is_stable),
    _mutant("messages for some reach all", ("creation",), Ordering, "_assemble", _hand_out_to_all),
    _mutant("a member that waits does not say so", (REST,), session, "_WAITS", 0),
    _mutant("nobody tells what it has", (REST, "settled"), ConversationSession, "_send_status", lambda self: None),
)  # fmt: skip
