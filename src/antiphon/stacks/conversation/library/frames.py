"""What the library puts in front of a message: one byte that says what the message is for.

Messages that merely keep a protocol going have nothing behind it. All participants of a conversation use the same
routine of the library, or none.
"""

from typing import Final

from antiphon.parts.message_graph import GraphNode
from antiphon.stacks.conversation.free.conversation import ConversationCore

DATA: Final = 0
"""The application's."""
ACK: Final = 1
"""Nothing but: what is before me was received."""
OPEN: Final = 2
READY: Final = 3
GO: Final = 4
END: Final = 5
CLOSE: Final = 6
REQUEST: Final = 7
REPLY: Final = 8
ORDERED: Final = 9
"""The application's, and it does not commute."""

UNKNOWN: Final = 10
"""Not of the library: its place in the graph counts, and nobody is told of it."""


def framed(kind: int, payload: bytes = b"") -> bytes:
    return bytes((kind,)) + payload


def unframed(data: bytes) -> tuple[int, bytes]:
    if not data or data[0] >= UNKNOWN:
        return UNKNOWN, b""
    return data[0], data[1:]


def drain(conversation: ConversationCore) -> list[tuple[GraphNode, bytes]]:
    """Return all messages that have come and were not received yet."""
    got: list[tuple[GraphNode, bytes]] = []
    while (one := conversation.receive()) is not None:
        got.append(one)
    return got
