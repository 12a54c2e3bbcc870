"""Ordered broadcast: every participant gets all messages, its own included, in one order (psync-1989, 4.2, Figure 8).

What is in the view is received before anything is sent, so that all that is sent acknowledges it. Messages come out
when the wave that they are in is complete (waves.py), sorted by sender; acknowledgements are weeded out then. Who has
nothing to say acknowledges by the quiet rule, and what was lost is made good (filter_base.py).

What is offered together travels in one message, as far as it fits, and keeps its order (packs.py).

Where a conversation is kept, a wave comes out only when all of it is stable, so that whoever comes back, from a
checkpoint or by running again, gets the same messages in the same order as before (5.2).
"""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.parts.message_graph import GraphNode, Mid
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.filter_base import FilterBase, FilterOptions
from antiphon.stacks.conversation.library.filter_state import FilterState, decode_state, encode_state
from antiphon.stacks.conversation.library.frames import DATA, framed
from antiphon.stacks.conversation.library.handed_out import FilteredMessages
from antiphon.stacks.conversation.library.packs import PackQueue, pack, unpack
from antiphon.stacks.conversation.waves import Waves


@final
class OrderedBroadcast(FilterMachine):
    """One participant of an ordered broadcast."""

    __slots__ = ("_base", "_forgets", "_handed_out", "_payloads", "_queue", "_waves")

    def __init__(
        self, conversation: ConversationCore, options: FilterOptions, *, forgets: bool = False, state: bytes = b""
    ) -> None:
        graph = conversation.replica.graph
        former = decode_state(state, graph)
        self._forgets = forgets
        """What is stable and has come out need not be in the graph any longer."""
        self._base = FilterBase(conversation, options)
        self._queue = PackQueue(options.queue_max)
        self._waves = Waves(graph, former.committed, careful=conversation.keeps)
        self._payloads: dict[Mid, list[bytes]] = {}
        """Of the application's messages that have no place in the order yet."""
        self._handed_out = former.handed_out
        """What comes out first."""
        for node, data in former.waiting:
            self._waves.add(node)
            self._payloads[node.mid()] = unpack(data)
        self._base.take_up(former.former)
        for payload in former.offered:
            self.offer(payload)

    def begin(self) -> None:
        """Start the conversation, if this participant has to and there is nothing else to send."""
        self._base.begin()

    def state(self, handed_out: list[tuple[GraphNode, bytes]]) -> bytes:
        state = FilterState()
        state.committed = self._waves.committed
        state.handed_out = [*handed_out, *self._handed_out]
        state.waiting = [(node, pack(self._payloads[node.mid()])) for node in self._waves.waiting()]
        state.offered = self._queue.all()
        state.former = self._base.former()
        return encode_state(state)

    def former(self) -> list[tuple[Mid, bytes]]:
        return self._base.former()

    def adopt(self) -> None:
        self._base.adopt()

    def may_offer(self) -> bool:
        return self._queue.has_room()

    def offer(self, payload: bytes) -> None:
        """Queue a message, to be sent as soon as the window allows; ask `may_offer` first. Raises ReplayError."""
        if not self._base.repeats(payload):
            self._queue.put(payload)

    def outstanding(self) -> int:
        """Return how many own messages are not sent yet, or not acknowledged by all."""
        return len(self._queue) + self._base.unstable()

    def acks(self) -> int:
        return self._base.acks

    def laggards(self) -> list[int]:
        return self._base.laggards()

    def poll(self, now_ns: int) -> list[tuple[GraphNode, bytes]]:
        """Receive, send, acknowledge and retry what is due; return the messages whose position in the order is now
        known."""
        while (one := self._base.receive(now_ns)) is not None:
            node, kind, data = one
            if kind == DATA:
                self._waves.add(node)
                self._payloads[node.mid()] = unpack(data)
        while len(self._queue) and self._base.has_room():
            payloads = self._queue.take()
            node = self._base.send(framed(DATA, pack(payloads)))
            self._waves.add(node)
            self._payloads[node.mid()] = payloads
        self._base.settle(now_ns)
        return self._committed()

    def _committed(self) -> list[tuple[GraphNode, bytes]]:
        result, self._handed_out = self._handed_out, []
        for node in self._waves.take():
            for payload in self._payloads.pop(node.mid(), ()):
                result.append((node, payload))
        if self._forgets:
            self._base.forget()
        return result

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        handed_out = self.poll(now_ns)
        if handed_out:
            effects.events.append(FilteredMessages(group, handed_out))

    def deadline_ns(self) -> int:
        return self._base.deadline_ns()
