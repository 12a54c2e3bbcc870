"""A virtual circuit: both ends send a stream of messages, and each comes once, in order (psync-1989, 4.1).

The graph does all the work: it keeps the order of each sender, it knows what was received, and a message sent in the
context of others acknowledges them. What is left is the window: a participant sends no more while so many of its
messages are not stable. With a window of one that is stop and wait, and the graph of a one-way stream is a line. As
long as both ends have something to say there are no acknowledgements but their messages (filter_base.py).

Any number of participants may share a circuit; with two it is the usual one.
"""

from collections import deque
from typing import final

from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.filter_base import FilterBase, FilterOptions
from antiphon.stacks.conversation.library.filter_state import FilterState, decode_state, encode_state
from antiphon.stacks.conversation.library.frames import DATA, framed
from antiphon.stacks.conversation.library.handed_out import FilteredMessages


@final
class Circuit(FilterMachine):
    """One end of a circuit."""

    __slots__ = ("_base", "_handed_out", "_queue", "_queue_max")

    def __init__(self, conversation: ConversationCore, options: FilterOptions, *, state: bytes = b"") -> None:
        former = decode_state(state, conversation.replica.graph)
        self._base = FilterBase(conversation, options, packed=False)
        self._queue: deque[bytes] = deque()
        self._queue_max = options.queue_max
        self._handed_out = former.handed_out
        """What comes out first."""
        self._base.take_up(former.former)
        for payload in former.offered:
            self.offer(payload)

    def state(self, handed_out: list[tuple[GraphNode, bytes]]) -> bytes:
        state = FilterState()
        state.handed_out = [*handed_out, *self._handed_out]
        state.offered = list(self._queue)
        state.former = self._base.former()
        return encode_state(state)

    def former(self) -> list[tuple[Mid, bytes]]:
        return self._base.former()

    def adopt(self) -> None:
        self._base.adopt()

    def begin(self) -> None:
        """Start the conversation, if this participant has to and there is nothing else to send."""
        self._base.begin()

    def laggards(self) -> list[int]:
        return self._base.laggards()

    def may_offer(self) -> bool:
        return len(self._queue) < self._queue_max

    def offer(self, payload: bytes) -> None:
        """Queue a message, to be sent as soon as the window allows; ask `may_offer` first. Raises ReplayError."""
        if self._base.repeats(payload):
            return
        if not self.may_offer():
            raise UsageError(f"{self._queue_max} messages wait to be sent; wait until they have gone out")
        self._queue.append(payload)

    def outstanding(self) -> int:
        """Return how many own messages are not sent yet, or not acknowledged."""
        return len(self._queue) + self._base.unstable()

    def is_broken(self) -> bool:
        """Return whether all retries went without an acknowledgement; it may still come."""
        return bool(self._base.laggards())

    def poll(self, now_ns: int) -> list[tuple[GraphNode, bytes]]:
        """Receive, send, acknowledge and retry what is due; return the messages of the other end."""
        got, self._handed_out = self._handed_out, []
        me = self._base.conversation.me
        while (one := self._base.receive(now_ns)) is not None:
            if one[1] == DATA and one[0].sender != me:
                got.append((one[0], one[2]))
        while self._queue and self._base.has_room():
            self._base.send(framed(DATA, self._queue.popleft()))
        self._base.settle(now_ns)
        return got

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        handed_out = self.poll(now_ns)
        if handed_out:
            effects.events.append(FilteredMessages(group, handed_out))

    def deadline_ns(self) -> int:
        return self._base.deadline_ns()
