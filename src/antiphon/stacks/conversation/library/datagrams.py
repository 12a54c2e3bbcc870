"""Datagrams over a conversation, unreliable and reliable (psync-1989, 4.1).

A datagram is a conversation of one message that nobody answers. A reliable one is answered by an acknowledgement in its
context, and sent again until it is stable: that is `StableSend` at the one end, and `Acknowledger` at the others.
"""

from typing import final

from antiphon.kernel.effects import Effects
from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.filter_machine import FilterMachine
from antiphon.stacks.conversation.library.frames import ACK, DATA, drain, framed, unframed
from antiphon.stacks.conversation.library.stable import StableSend


def send_datagram(conversation: ConversationCore, payload: bytes) -> GraphNode:
    """Send a message once, without acknowledgement or retry."""
    return conversation.send(framed(DATA, payload))


def send_reliably(
    conversation: ConversationCore, payload: bytes, now_ns: int, *, tries: int, timeout_ns: int
) -> StableSend:
    """Send a message again until all have acknowledged it, or the retries are used up."""
    return StableSend(conversation, framed(DATA, payload), now_ns, tries=tries, timeout_ns=timeout_ns)


def receive_datagrams(conversation: ConversationCore) -> list[tuple[GraphNode, bytes]]:
    """Return all messages that have come, without acknowledging them."""
    got: list[tuple[GraphNode, bytes]] = []
    for node, data in drain(conversation):
        kind, payload = unframed(data)
        if kind == DATA:
            got.append((node, payload))
    return got


@final
class Acknowledger(FilterMachine):
    """Receives reliable datagrams; sends one acknowledgement for all that came together."""

    __slots__ = ("_conversation", "received")

    def __init__(self, conversation: ConversationCore) -> None:
        self._conversation = conversation
        self.received: list[tuple[GraphNode, bytes]] = []
        """What has come, for whoever does not poll to take."""

    def run(self, group: str, effects: Effects, now_ns: int) -> None:
        self.received += self.poll()

    def poll(self) -> list[tuple[GraphNode, bytes]]:
        got = receive_datagrams(self._conversation)
        if got:
            self._conversation.send(framed(ACK), urgent=True)
        return got
