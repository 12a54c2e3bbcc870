"""The library over the context graph broken on purpose; hunted in the plays of tests/stacks/conversation/library."""

from typing import Any
from unittest.mock import patch

from antiphon.kernel.effects import NEVER
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.library import epochs
from antiphon.stacks.conversation.library.epochs import Epochs
from antiphon.stacks.conversation.library.filter_base import FilterBase
from antiphon.stacks.conversation.library.handed_out import Operation
from antiphon.stacks.conversation.library.handshake import HandshakeSession
from antiphon.stacks.conversation.library.operations import Operations
from antiphon.stacks.conversation.waves import Waves
from tests.mutants.mutants import Mutant

OPERATIONS = "operations"
BROADCAST = "broadcast"
SESSION = "session"
"""Not guarantees of an audit, but the plays that have to find the mutant."""


def _take_what_is_stable(self: Epochs) -> list[GraphNode]:
    """Executes each ordered operation when it is stable here, whatever else its epoch has."""
    waiting = [node for epoch in self._ordered.values() for node in epoch]
    result: list[GraphNode] = []
    for node in waiting:
        if self._graph.is_stable(node):
            epoch = next(depth for depth, nodes in self._ordered.items() if node in nodes)
            self._ordered[epoch].remove(node)
            self._numbers[node.sender].pop(0)
            self._depths[node.sender].pop(0)
            result.append(node)
            if not self._ordered[epoch]:
                del self._ordered[epoch]
                self.executed = max(self.executed, epoch)
                for depth in [depth for depth in self._commuting if depth <= self.executed]:
                    result += self._commuting.pop(depth)
    self.waiting -= len(result)
    return result


def _complete_for_most(self: Epochs, epoch: int) -> bool:
    """One participant may still say something that belongs before the ordered operations."""
    return sum(depth >= epoch for depth in self.reached) >= max(1, self._graph.participants - 1)


def _commutes_with_everything(self: Epochs, node: GraphNode) -> bool:
    self._reach(node.sender, self._followed(node))
    return True


def _followed_own_only(self: Epochs, node: GraphNode) -> int:
    """Sees no further than what the sender itself has issued."""
    numbers, depths = self._numbers[node.sender], self._depths[node.sender]
    return max([self.executed, *(depth for number, depth in zip(numbers, depths, strict=True) if number < node.number)])


def _take_stable_messages(self: Waves) -> list[GraphNode]:
    """Commits messages in the order in which they become stable here."""
    result: list[GraphNode] = []
    for wave in list(self._waves):
        stable = [node for node in self._waves[wave] if self._graph.is_stable(node)]
        self._waves[wave] = [node for node in self._waves[wave] if node not in stable]
        result += stable
    self.count -= len(result)
    return result


def _settle_without_acks(self: FilterBase, now_ns: int, urgent: bool = False) -> GraphNode | None:
    self._repair(now_ns)
    self._ack_at_ns = NEVER
    return None


def _receive_and_owe(self: FilterBase, now_ns: int) -> Any:
    """Every message wants an acknowledgement, acknowledgements too: Figure 8 to the letter."""
    one = _receive(self, now_ns)
    if one is not None:
        self._unanswered = max(1, self._unanswered)
        self._ack_at_ns = min(self._ack_at_ns, now_ns + self._options.ack_delay_ns)
    return one


_receive = FilterBase.receive


def _settle_within_the_window(self: FilterBase, now_ns: int, urgent: bool = False) -> GraphNode | None:
    """An acknowledgement needs room in the window, as any message does."""
    if len(self._own) >= self._options.window:
        self._repair(now_ns)
        self._ack_at_ns = NEVER
        return None
    return _settle(self, now_ns, urgent)


_settle = FilterBase.settle


def _repair_own_only(self: FilterBase, now_ns: int) -> None:
    """Whoever has all of its own acknowledged asks for nothing more."""
    self._forget_stable()
    if not self._own:
        self._retry_timer.end()
    elif not self._retry_timer.is_waiting():
        self._retry_timer.begin(now_ns)
    elif self._retry_timer.has_passed(now_ns) and self._latest is not None:
        self.conversation.resend(self._latest)


def _ready_when_somebody_is(self: HandshakeSession) -> bool:
    return self._conversation.me == 0 and sum(self._conversation.replica.graph.last) > 1


def _ended_when_two_have(self: HandshakeSession) -> bool:
    return self._ends.bit_count() > 1


def _poll_receiving_first(self: Operations, now_ns: int) -> list[Operation]:
    """Says what was executed early in a context that it was not executed in."""
    while (one := self._base.receive(now_ns)) is not None:
        self._see(*one)
    with patch.object(Epochs, "add_commuting", _commutes_with_everything):
        self._say_early()
    return _poll(self, now_ns)


_poll = Operations.poll


def _as_it_came(_: GraphNode) -> int:
    return 0


LIBRARY_MUTANTS: tuple[Mutant, ...] = (
    Mutant("ordered operation executed when stable", (OPERATIONS,), ((Epochs, "take", _take_what_is_stable),)),
    Mutant("commuting operations end too early", (OPERATIONS,), ((Epochs, "_is_complete", _complete_for_most),)),
    Mutant("commuting past what it follows", (OPERATIONS,), ((Epochs, "add_commuting", _commutes_with_everything),)),
    Mutant("depth by own operations alone", (OPERATIONS,), ((Epochs, "_followed", _followed_own_only),)),
    Mutant("epoch in order of arrival", (OPERATIONS,), ((epochs, "_sender", _as_it_came),)),
    Mutant("early operation said too late", (OPERATIONS,), ((Operations, "poll", _poll_receiving_first),)),
    Mutant("nobody owes an answer to an ordered one", (OPERATIONS,), ((FilterBase, "settle", _settle_without_acks),)),
    Mutant("message committed when stable", (BROADCAST,), ((Waves, "take", _take_stable_messages),)),
    Mutant("no acknowledgements", (BROADCAST,), ((FilterBase, "settle", _settle_without_acks),)),
    Mutant("acknowledgements of acknowledgements", (BROADCAST,), ((FilterBase, "receive", _receive_and_owe),)),
    Mutant("acknowledgements wait for the window", (BROADCAST,), ((FilterBase, "settle", _settle_within_the_window),)),
    Mutant("nobody repairs for others", (BROADCAST,), ((FilterBase, "_repair", _repair_own_only),)),
    Mutant("begun before all are ready", (SESSION,), ((HandshakeSession, "_is_ready", _ready_when_somebody_is),)),
    Mutant("closed before all have ended", (SESSION,), ((HandshakeSession, "_all_have_ended", _ended_when_two_have),)),
)
