"""Operations on an object of which every participant has a copy (psync-1989, 4.3).

Each operation is a message. Those that commute with each other are executed as soon as they are in the view, as far as
they follow none that waits; the others in one order everywhere (epochs.py). A participant executes its own operations
by the same rule, so that one that commutes is most often executed when it is issued.

When an operation that does not commute is in the view, and we have neither sent nor followed one as deep, the others
wait for us: we say something at once, if only an ACK. Everything else is acknowledged at leisure, for the sake of those
who keep it until it is stable (talker.py). Either way an ACK is a reason for no other, so that this is as quiet as the
rule there: an ACK that is due by the rule of epochs comes to be due by a new operation, which it follows.
"""

from typing import final

from antiphon.parts.message_graph import Mid, Node
from antiphon.stacks.conversation.conversation import Conversation
from antiphon.stacks.conversation.library.epochs import Epochs
from antiphon.stacks.conversation.library.frames import DATA, ORDERED, framed
from antiphon.stacks.conversation.library.talker import Manner, Talker


@final
class Operation:
    """An operation to execute now."""

    __slots__ = ("commutes", "number", "payload", "sender")

    def __init__(self, node: Node, commutes: bool, payload: bytes) -> None:
        self.sender = node.sender
        """The rank of who issued it."""
        self.number = node.number
        self.commutes = commutes
        self.payload = payload

    def mid(self) -> Mid:
        return (self.sender, self.number)


@final
class Operations:
    """One participant's operations, and those of the others."""

    __slots__ = ("_epochs", "_executable", "_forgets", "_talker", "_waiting")

    def __init__(self, conversation: Conversation, manner: Manner, *, forgets: bool = True) -> None:
        self._talker = Talker(conversation, manner)
        self._epochs = Epochs(conversation.image.graph)
        self._executable: list[Operation] = []
        self._waiting: dict[Mid, Operation] = {}
        self._forgets = forgets

    def begin(self) -> None:
        """Start the conversation, if that is ours to do and there is nothing to say yet."""
        first = self._talker.begin()
        if first is not None:
            self._epochs.add_other(first)

    def may_offer(self) -> bool:
        return self._talker.may_offer()

    def offer(self, payload: bytes, commutes: bool) -> None:
        """Issue an operation; ask `may_offer` first."""
        self._talker.offer(framed(DATA if commutes else ORDERED, payload))

    def outstanding(self) -> int:
        """Operations of ours that not everybody has acknowledged."""
        return self._talker.outstanding()

    def waiting(self) -> int:
        """Operations in the view that were not executed yet."""
        return self._epochs.waiting

    def acks(self) -> int:
        return self._talker.acks

    def laggards(self) -> list[int]:
        return self._talker.laggards()

    def poll(self, now_ns: int) -> list[Operation]:
        """Receive, send, acknowledge, try again, as it is time; the operations to execute now, in order."""
        while (one := self._talker.receive(now_ns)) is not None:
            self._see(one[0], one[1], one[2])
        for node, frame in self._talker.send_some():
            self._see(node, frame[0], frame[1:])
        ack = self._talker.settle(now_ns, self._epochs.owes(self._talker.conversation.me))
        if ack is not None:
            self._epochs.add_other(ack)
        executable, self._executable = self._executable, []
        for node in self._epochs.take():
            executable.append(self._waiting.pop(node.mid()))
        if self._forgets:
            self._talker.forget()
        return executable

    def _see(self, node: Node, kind: int, payload: bytes) -> None:
        """A message is in the view."""
        if kind == DATA:
            operation = Operation(node, True, payload)
            if self._epochs.add_commuting(node):
                self._executable.append(operation)
            else:
                self._waiting[node.mid()] = operation
        elif kind == ORDERED:
            self._waiting[node.mid()] = Operation(node, False, payload)
            self._epochs.add_ordered(node)
        else:
            self._epochs.add_other(node)

    def deadline_ns(self) -> int:
        return self._talker.deadline_ns()
