"""Operations on an object of which every participant has a copy (psync-1989, 4.3).

Each operation is in a message. Those that commute with each other are executed as soon as they are in the view, as far
as they follow none that waits; the others in one order everywhere (epochs.py).

An operation of our own that commutes is executed when it is issued, if none that does not commute waits in the view. It
is then said before anything else is received: so it is sent in the context in which it was executed, and belongs to the
same epoch here as elsewhere. Until then more of them may come, and all go out in one message.

When an operation that does not commute is in the view, and we have neither sent nor followed one as deep, the others
wait for us: we say something at once, if only an ACK. Everything else is acknowledged at leisure, for the sake of those
who keep it until it is stable (filter_base.py). Either way an ACK is a reason for no other, so that this is as quiet as
the rule there: an ACK that is due by the rule of epochs is due by a new operation, which it follows.

Operations that a participant issues without waiting for one another are taken as concurrent: of those that wait to be
sent, the commuting ones go first. Those of one kind keep the order in which they were issued.
"""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.epochs import Epochs
from antiphon.stacks.conversation.library.filter_base import FilterBase, FilterOptions
from antiphon.stacks.conversation.library.frames import DATA, ORDERED, framed
from antiphon.stacks.conversation.library.handed_out import FilteredOperations, Operation
from antiphon.stacks.conversation.library.packs import PackQueue, pack, unpack


@final
class Operations(FilterMachine):
    """One participant's operations, and those of the others."""

    __slots__ = ("_base", "_commuting", "_early", "_epochs", "_executable", "_forgets", "_ordered", "_waiting")

    def __init__(self, conversation: ConversationCore, options: FilterOptions, *, forgets: bool = True) -> None:
        self._forgets = forgets
        """What is stable need not be in the graph any longer."""
        self._base = FilterBase(conversation, options)
        self._epochs = Epochs(conversation.replica.graph)
        self._early = PackQueue(options.queue_max)
        """Our own that were executed already, and go out before anything is received."""
        self._commuting = PackQueue(options.queue_max)
        self._ordered = PackQueue(options.queue_max)
        self._executable: list[Operation] = []
        self._waiting: dict[Mid, list[Operation]] = {}
        """By message, the operations in the view that were not executed yet."""

    def begin(self) -> None:
        """Start the conversation, if this participant has to and there is nothing else to send."""
        first = self._base.begin()
        if first is not None:
            self._epochs.add_other(first)

    def may_offer(self) -> bool:
        return self._commuting.has_room() and self._ordered.has_room()

    def offer(self, payload: bytes, commutes: bool) -> bool:
        """Issue an operation; ask `may_offer` first. Return whether the caller has to execute it at once; `poll` does
        not return it then. Raises ReplayError."""
        if self._base.repeats(payload, DATA if commutes else ORDERED):
            return False
        if not commutes:
            self._ordered.put(payload)
            return False
        if self._epochs.waiting or len(self._commuting) or not (len(self._early) or self._base.has_room()):
            self._commuting.put(payload)
            return False
        self._early.put(payload)
        if self._early.is_full_pack():
            self._say_early()
        return True

    def former(self) -> list[tuple[Mid, bytes]]:
        return self._base.former()

    def adopt(self) -> None:
        self._base.adopt()

    def outstanding(self) -> int:
        """Return how many own messages are not sent yet, or not acknowledged by all."""
        return len(self._early) + len(self._commuting) + len(self._ordered) + self._base.unstable()

    def waiting(self) -> int:
        """Return how many messages of the view have operations that were not executed yet."""
        return self._epochs.waiting

    def acks(self) -> int:
        return self._base.acks

    def laggards(self) -> list[int]:
        return self._base.laggards()

    def poll(self, now_ns: int) -> list[Operation]:
        """Send, receive, acknowledge and retry what is due; return the operations to execute now, in order."""
        if len(self._early) and self._base.conversation.removal.is_out:
            return []  # removed between a call and this step: they cannot be said, and nothing may come before them
        self._say_early()
        while (one := self._base.receive(now_ns)) is not None:
            self._see(one[0], one[1], one[2])
        self._say(self._commuting, DATA)
        self._say(self._ordered, ORDERED)
        ack = self._base.settle(now_ns, self._epochs.owes(self._base.conversation.me))
        if ack is not None:
            self._epochs.add_other(ack)
        executable, self._executable = self._executable, []
        for node in self._epochs.take():
            executable += self._waiting.pop(node.mid())
        if self._forgets:
            self._base.forget()
        return executable

    def _say_early(self) -> None:
        while len(self._early):
            node = self._base.send(framed(DATA, pack(self._early.take())))
            at_once = self._epochs.add_commuting(node)
            assert at_once, "nothing was received since it was executed"

    def _say(self, queue: PackQueue, kind: int) -> None:
        while len(queue) and self._base.has_room():
            frame = framed(kind, pack(queue.take()))
            self._see(self._base.send(frame), kind, frame[1:])

    def _see(self, node: GraphNode, kind: int, data: bytes) -> None:
        """Process a message that has entered the view."""
        if kind not in (DATA, ORDERED):
            self._epochs.add_other(node)
            return
        operations = [Operation(node.sender, kind == DATA, payload) for payload in unpack(data)]
        if kind == ORDERED:
            self._epochs.add_ordered(node)
        elif self._epochs.add_commuting(node):
            self._executable += operations
            return
        self._waiting[node.mid()] = operations

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        handed_out = self.poll(now_ns)
        if handed_out:
            effects.events.append(FilteredOperations(group, handed_out))

    def deadline_ns(self) -> int:
        return self._base.deadline_ns()
