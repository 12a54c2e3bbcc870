"""Ordered broadcast: every participant gets all messages, its own included, in one order (psync-1989, 4.2, Figure 8).

What is in the view is received before anything is sent, so that all that is sent acknowledges it. Messages come out
when the wave that they are in is complete (waves.py), sorted by sender; acknowledgements are weeded out then. Who has
nothing to say acknowledges by the quiet rule, and what was lost is made good (talker.py).
"""

from typing import final

from antiphon.parts.message_graph import Mid, Node
from antiphon.stacks.conversation.conversation import Conversation
from antiphon.stacks.conversation.library.frames import DATA, framed
from antiphon.stacks.conversation.library.talker import Manner, Talker
from antiphon.stacks.conversation.waves import Waves


@final
class OrderedBroadcast:
    """One participant of an ordered broadcast."""

    __slots__ = ("_forgets", "_payloads", "_talker", "_waves")

    def __init__(self, conversation: Conversation, manner: Manner, *, forgets: bool = False) -> None:
        self._forgets = forgets
        """What is stable and has come out need not be in the graph any longer."""
        self._talker = Talker(conversation, manner)
        self._waves = Waves(conversation.image.graph)
        self._payloads: dict[Mid, bytes] = {}
        """Of the application's messages that have no place in the order yet."""

    def begin(self) -> None:
        """Start the conversation, if that is ours to do and there is nothing to say yet."""
        first = self._talker.begin()
        if first is not None:
            self._waves.add(first)

    def may_offer(self) -> bool:
        return self._talker.may_offer()

    def offer(self, payload: bytes) -> None:
        """Have a message sent as soon as the window lets it; ask `may_offer` first."""
        self._talker.offer(framed(DATA, payload))

    def outstanding(self) -> int:
        """Messages of ours that were not sent yet, or that not everybody has acknowledged."""
        return self._talker.outstanding()

    def acks(self) -> int:
        return self._talker.acks

    def laggards(self) -> list[int]:
        return self._talker.laggards()

    def poll(self, now_ns: int) -> list[tuple[Node, bytes]]:
        """Receive, send, acknowledge, try again, as it is time; the messages whose place in the order is now known."""
        while (one := self._talker.receive(now_ns)) is not None:
            node, kind, payload = one
            self._waves.add(node)
            if kind == DATA:
                self._payloads[node.mid()] = payload
        for node, frame in self._talker.send_some():
            self._waves.add(node)
            self._payloads[node.mid()] = frame[1:]
        ack = self._talker.settle(now_ns)
        if ack is not None:
            self._waves.add(ack)
        return self._committed()

    def _committed(self) -> list[tuple[Node, bytes]]:
        result: list[tuple[Node, bytes]] = []
        for node in self._waves.take():
            payload = self._payloads.pop(node.mid(), None)
            if payload is not None:
                result.append((node, payload))
        if self._forgets:
            self._talker.forget()
        return result

    def deadline_ns(self) -> int:
        return self._talker.deadline_ns()
