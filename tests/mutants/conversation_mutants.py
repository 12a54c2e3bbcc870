"""Conversations broken on purpose, one rule at a time; hunted in the simulation of talks, or on a table (hunt.py)."""

from typing import Any

from antiphon.parts.message_graph import GraphNode, MessageGraph, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.graph_replica import GraphReplica
from antiphon.stacks.conversation.free.holding import HeldMessage
from antiphon.stacks.conversation.free.recovery import Recovery
from antiphon.stacks.conversation.free.removal import Removal
from antiphon.stacks.conversation.free.replay import Replay
from antiphon.stacks.conversation.free.sender_filter import SenderFilter
from antiphon.stacks.conversation.free.slices import SliceAssembly
from antiphon.stacks.conversation.free.wire import Restarted
from tests.mutants.mutants import Mutant
from tests.stacks.conversation.table import (
    alone_problem,
    astray_problem,
    early_problem,
    fork_problem,
    hasty_problem,
    late_problem,
    minority_problem,
    stray_problem,
    uncounted_problem,
    unsaved_problem,
)

_take_loaded = ConversationCore.take_loaded
_make_graph = MessageGraph.__init__
_working_without = MessageGraph._working_without


def _nothing_is_missing(self: MessageGraph, predecessors: list[Mid]) -> list[Mid]:
    return []


def _give_up_at_once(self: GraphReplica, held: HeldMessage, now_ns: int) -> None:
    self._give_up(held.mid())


def _answers_nothing(self: GraphReplica, wanted: Mid | None, leaves: list[Mid], via: int, now_ns: int) -> None:
    self.learn_leaves(via, leaves, now_ns)


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _nobody(*_: Any) -> list[int]:
    return []


def _nothing_to_keep(*_: Any) -> list[bytes]:
    return []


def _newest_first(self: ConversationCore) -> tuple[GraphNode, bytes] | None:
    self.messages._queue.reverse()
    got = _receive(self)
    self.messages._queue.reverse()
    return got


_receive = ConversationCore.receive


def _begin_anywhere(self: Recovery, graph: MessageGraph) -> list[int]:
    return [0] * graph.participants


def _begin_at_the_end(self: Recovery, graph: MessageGraph) -> list[int]:
    return list(graph.last)


def _whole_with_one_answer(self: Recovery, graph: MessageGraph) -> bool:
    return not self.loading and len(self.answered) > 1 and not self.missing(graph)


def _just_answers(self: GraphReplica, via: int, said: Restarted, is_answer: bool) -> None:
    """Who is told of a fork tells nobody else."""
    for mid in said.leaves:
        if mid[1] <= self.graph.last[mid[0]] and self.life_at(mid) != said.life:
            self.fork.contradicts(via)
    _receive_fork(self, via, said, is_answer)


_receive_fork = GraphReplica.receive_fork


def _once_removed_never_awaited(self: Recovery) -> list[int]:
    self.awaiting = {rank for rank in self.awaiting if not self._sender_filter.ignores(rank)}
    return sorted(self.awaiting)


def _act_late_on_storage(self: ConversationCore, sections: list[bytes]) -> None:
    pursue = ConversationCore.pursue_changes
    ConversationCore.pursue_changes = ConversationCore.recover  # type: ignore[method-assign]
    try:
        _take_loaded(self, sections)
    finally:
        ConversationCore.pursue_changes = pursue  # type: ignore[method-assign]


def _without_the_last(self: MessageGraph, rank: int) -> list[int]:
    return _working_without(self, rank)[:-1]


def _keep_nothing(self: MessageGraph, participants: int, keep_bodies: bool = False) -> None:
    _make_graph(self, participants, False)


def _in_order_of_arrival(self: SliceAssembly) -> bytes:
    return b"".join(self.parts.values())


def _whatever_is_here(self: Removal) -> list[int]:
    self.counted = dict.fromkeys(self.counted, 0)
    return _newly_removed(self)


_newly_removed = Removal.newly_removed

SEEN = ("a problem",)

CONVERSATION_MUTANTS: tuple[Mutant, ...] = (
    Mutant("nothing waits for its predecessors", SEEN, ((MessageGraph, "missing", _nothing_is_missing),)),
    Mutant("what is missing is never asked for", SEEN, ((GraphReplica, "receive_ask", _answers_nothing),)),
    Mutant("the newest is received first", SEEN, ((ConversationCore, "receive", _newest_first),)),
    Mutant("stable without one", SEEN, ((MessageGraph, "_working_without", _without_the_last),)),
    Mutant("the last message may be lost", SEEN, ((ConversationCore, "is_settled", _always),)),
    Mutant("the first message may be lost", SEEN, ((ConversationCore, "_strangers", _nobody),)),
    Mutant("slices in order of arrival", SEEN, ((SliceAssembly, "whole", _in_order_of_arrival),)),
    Mutant("what should be kept is not", SEEN, ((MessageGraph, "__init__", _keep_nothing),)),
    Mutant("back without everybody's answer", SEEN, ((Recovery, "is_whole", _whole_with_one_answer),)),
    Mutant("who is told of a fork tells nobody else", SEEN, ((GraphReplica, "receive_fork", _just_answers),)),
    Mutant(
        "once removed, never awaited again",
        SEEN,
        # It shows only where a removal is carried out before the admission that follows it is known. Storage tells of
        # both at once, so here what it tells is acted on late.
        (
            (Recovery, "waits_for", _once_removed_never_awaited),
            (ConversationCore, "take_loaded", _act_late_on_storage),
        ),
    ),
    Mutant("former lives are believed", SEEN, ((SenderFilter, "trusts", _always),)),
    Mutant("the view begins anew", SEEN, ((Recovery, "seen", _begin_anywhere),)),
    Mutant("the view begins at the end", SEEN, ((Recovery, "seen", _begin_at_the_end),)),
    Mutant("nothing is said again in silence", SEEN, ((Replay, "is_repeating", _never),)),
    Mutant("a checkpoint without messages", SEEN, ((ConversationCore, "checkpoint_sections", _nothing_to_keep),)),
    Mutant("few remove many", SEEN, ((Removal, "_is_majority", _always),)),
    Mutant("removed without agreement", SEEN, ((Removal, "_is_decided", _always),)),
    Mutant("let in and heard at once", SEEN, ((Removal, "may_speak", _always),)),
    Mutant("back before it knows that it is out", SEEN, ((Removal, "is_astray", _never),)),
    Mutant("what was said astray is taken", SEEN, ((GraphReplica, "_may_enter", _always),)),
    Mutant("what counts is not waited for", SEEN, ((Removal, "newly_removed", _whatever_is_here),)),
)

CONVERSATION_STAGED = {
    "back without everybody's answer": hasty_problem,
    "who is told of a fork tells nobody else": fork_problem,
    "former lives are believed": late_problem,
    "a checkpoint without messages": unsaved_problem,
    "few remove many": minority_problem,
    "removed without agreement": alone_problem,
    "let in and heard at once": early_problem,
    "what counts is not waited for": uncounted_problem,
    "back before it knows that it is out": astray_problem,
    "what was said astray is taken": stray_problem,
}
"""What seeds hardly ever come to is put on a table."""
