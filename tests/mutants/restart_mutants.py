"""Conversations that come back, broken on purpose, one rule of psync-1989, 5.1 and 5.2, at a time. Each is hunted by
the test that shows the rule at the public API, in virtual time."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from antiphon.conversation.conversation import Conversation
from antiphon.parts.message_graph import GraphNode, GraphView, MessageGraph
from antiphon.stacks.conversation import stack
from antiphon.stacks.conversation.free import host, restart_packets, role
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.graph_replica import GraphReplica
from antiphon.stacks.conversation.free.identity import conversation_id
from antiphon.stacks.conversation.free.outstanding import OutstandingMessages
from antiphon.stacks.conversation.free.recovery import Recovery
from antiphon.stacks.conversation.free.removal import Removal
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.filter_base import FilterBase
from antiphon.stacks.conversation.waves import Waves
from tests.conversation import test_conversations_restart as restarts
from tests.conversation import test_filters_restart as filters
from tests.mutants.mutants import Mutant

SEEN = ("a problem",)


def problem_of(test: Callable[..., None], *arguments: Any) -> str | None:
    """What a test finds wrong."""
    try:
        test(*arguments)
    except (Exception, pytest.fail.Exception, asyncio.CancelledError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return None


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> None:
    return None


def _empty(*_: Any) -> bytes:
    return b""


def _none(*_: Any) -> list[Any]:
    return []


_recover = Conversation._recover


async def _whatever_is_there(self: Conversation, timeout_s: float, accept_less: bool) -> bool:
    return await _recover(self, timeout_s, True)


def _may_speak_without_own(self: Recovery, graph: MessageGraph, removed: Any) -> bool:
    return self.done


_enter = OutstandingMessages.enter


def _enter_unseen(self: OutstandingMessages, node: GraphNode, section: bytes) -> None:
    """Own messages of former lives do not pass through the filter."""
    feed = self.feed
    if node.sender == self._me and self._graph.last[self._me] > node.number:
        self.feed = None
    _enter(self, node, section)
    self.feed = feed


def _everything_outstanding(self: ConversationCore) -> bool:
    return self.view.outstanding()


def _mask_in_and_wait(self: GraphReplica, rank: int) -> None:
    self.graph.mask_in(rank)
    self.sender_filter.listen(rank)


def _answer_everything(self: FilterBase, own: GraphNode) -> None:
    self._owe_nothing()


def _without_chance(opener: Any, number: int, chance: int = 0) -> int:
    return conversation_id(opener, number)


def _unverified(records: list[bytes]) -> int:
    return 0


def _stable_in_the_graph(self: GraphView, node: GraphNode) -> bool:
    return self._graph.is_stable(node)


def _begin_with_what_is_offered(self: OrderedBroadcast, handed_out: Any) -> bytes:
    return b""


RESTART_MUTANTS: tuple[Mutant, ...] = (
    Mutant("an incomplete recovery passes for one", SEEN, ((Conversation, "_recover", _whatever_is_there),)),
    Mutant("back and loud without a majority", SEEN, ((Recovery, "may_speak", _may_speak_without_own),)),
    Mutant("back and loud without own messages", SEEN, ((Recovery, "own_lacking", _none),)),
    Mutant("whoever sees a fork was left behind", SEEN, ((Removal, "outnumbers", _always),)),
    Mutant("nobody is told that it was left behind", SEEN, ((Removal, "outnumbers", _never),)),
    Mutant("a filter does not see what was said before", SEEN, ((OutstandingMessages, "enter", _enter_unseen),)),
    Mutant("what is offered again is sent again", SEEN, ((FilterBase, "repeats", _never),)),
    Mutant("what was said before answers everything", SEEN, ((FilterBase, "_answer", _answer_everything),)),
    Mutant("a checkpoint without the filter", SEEN, ((OrderedBroadcast, "state", _begin_with_what_is_offered),)),
    Mutant("a wave is taken before all of it is stable", SEEN, ((Waves, "_may_commit", _always),)),
    Mutant("what nobody receives is waited for", SEEN, ((OutstandingMessages, "advance", _nothing),)),
    Mutant(
        "votes are outstanding",
        SEEN,
        (
            (ConversationCore, "has_outstanding", _everything_outstanding),
            (OutstandingMessages, "advance", _nothing),
        ),
    ),
    Mutant("who is masked in is not asked", SEEN, ((GraphReplica, "mask_in", _mask_in_and_wait),)),
    Mutant("what was said before cannot be adopted", SEEN, ((ConversationCore, "adopt", _nothing),)),
    Mutant("conversations of two runs have one id", SEEN, ((host, "conversation_id", _without_chance),)),
    Mutant("the disk is not asked for lives", SEEN, ((role, "latest_life", _unverified),)),
    Mutant("a life is not checked", SEEN, ((Conversation, "_check_life", _nothing),)),
    Mutant("what was forgotten is not read for others", SEEN, ((GraphReplica, "answer_early", _nothing),)),
    Mutant("a checkpoint without a base", SEEN, ((ConversationCore, "checkpoint_base", _empty),)),
    Mutant("stable by what was not received", SEEN, ((GraphView, "is_stable", _stable_in_the_graph),)),
    Mutant("who cannot catch up is not told", SEEN, ((MessageGraph, "lacks_bodies", _never),)),
    Mutant("first messages are dropped", SEEN, ((stack, "EARLY_MAX", 0),)),  # type: ignore[arg-type]
    Mutant("who moved is looked for where it was", SEEN, ((restart_packets, "_learn_moved", _nothing),)),
)

SCENES: dict[str, tuple[Any, ...]] = {
    "an incomplete recovery passes for one": (restarts.test_an_incomplete_recovery_is_an_error_and_harms_nobody,),
    "back and loud without a majority": (restarts.test_who_accepted_less_sends_nothing_without_a_majority,),
    "back and loud without own messages": (
        restarts.test_who_accepted_less_sends_nothing_while_own_messages_are_lacking,
    ),
    "whoever sees a fork was left behind": (restarts.test_of_two_sides_the_smaller_is_told_that_it_diverged,),
    "nobody is told that it was left behind": (restarts.test_of_two_sides_the_smaller_is_told_that_it_diverged,),
    "a filter does not see what was said before": (filters.test_running_again_gives_the_order_of_before,),
    "what is offered again is sent again": (filters.test_running_again_gives_the_order_of_before,),
    "what was said before answers everything": (
        filters.test_an_acknowledgement_that_was_lost_is_sent_again_whatever_was_said_before,
    ),
    "a checkpoint without the filter": (filters.test_no_message_is_lost_or_doubled_from_a_checkpoint, 14),
    "a wave is taken before all of it is stable": (filters.test_what_was_handed_out_is_not_lost_with_its_sender,),
    "what nobody receives is waited for": (restarts.test_a_publisher_that_runs_again_goes_on_where_it_was,),
    "votes are outstanding": (restarts.test_the_drain_of_figures_6_and_8_ends_after_a_removal,),
    "what was said before cannot be adopted": (restarts.test_a_program_that_cannot_repeat_its_bytes_adopts_them,),
    "conversations of two runs have one id": (
        restarts.test_a_process_started_anew_in_the_same_life_begins_another_conversation,
    ),
    "the disk is not asked for lives": (restarts.test_an_incarnation_is_not_used_twice, "the disk"),
    "a life is not checked": (restarts.test_an_incarnation_is_not_used_twice, "the others"),
    "what was forgotten is not read for others": (
        restarts.test_what_the_limits_forget_is_read_from_disk,
        "that of others",
    ),
    "a checkpoint without a base": (restarts.test_a_checkpoint_is_enough_where_the_history_is_gone,),
    "stable by what was not received": (restarts.test_stable_is_asked_of_the_view,),
    "who is masked in is not asked": (
        restarts.test_who_was_masked_out_while_away_catches_up_when_masked_in,
        "c",
    ),
    "who cannot catch up is not told": (restarts.test_who_lacks_what_became_stable_without_it_is_told,),
    "first messages are dropped": (restarts.test_what_was_begun_before_the_first_call_is_accepted,),
    "who moved is looked for where it was": (restarts.test_participants_may_come_back_elsewhere,),
}
"""The test, and its case, that finds each."""

RESTART_STAGED: dict[str, Callable[[], str | None]] = {
    name: partial(problem_of, test, *arguments) for name, (test, *arguments) in SCENES.items()
}
