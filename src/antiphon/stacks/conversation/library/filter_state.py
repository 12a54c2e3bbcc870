"""What a checkpoint holds of a filter, so that nothing is lost between the view and the application (psync-1989, 5.1).

The view of a conversation is ahead of what the application has seen: messages wait for their place in the order, and
messages that have one wait to be handed out. And the application is ahead of the view: what it has offered waits to be
sent. A participant that comes back from a checkpoint begins with all of these.

    committed u64 | lists: handed out and not seen, waiting, offered and not sent, said in a former life and not again
    a list: count u32, (sender u16, number u64, wave u64, count u16, past u64 each, length u32, payload) each
"""

import struct
from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import UsageError
from antiphon.parts.message_graph import GraphNode, MessageGraph, Mid

_HEAD: Final = Struct("<Q")
_COUNT: Final = Struct("<I")
_ENTRY: Final = Struct("<HQQH")

Entry = tuple[GraphNode, bytes]
"""A message, and what it says."""
NOBODY: Final = GraphNode(0, 0, [], [], 0, None)
"""In place of a message, for what was not sent."""


@final
class FilterState:
    """What a filter has to do at some point of its conversation."""

    __slots__ = ("committed", "former", "handed_out", "offered", "waiting")

    def __init__(self) -> None:
        self.committed = 0
        """The last wave of which all have a place."""
        self.handed_out: list[Entry] = []
        """For the application, which has not seen them."""
        self.waiting: list[Entry] = []
        """In the view, without a place in the order."""
        self.offered: list[bytes] = []
        """By the application, and not sent."""
        self.former: list[tuple[Mid, bytes]] = []
        """Said in a former life, and not said again."""


def encode_state(state: FilterState) -> bytes:
    """Return the bytes of a state."""
    former = [(GraphNode(mid[0], mid[1], [], [], 0, None), payload) for mid, payload in state.former]
    parts = [_HEAD.pack(state.committed)]
    for entries in (state.handed_out, state.waiting, [(NOBODY, one) for one in state.offered], former):
        parts.append(_COUNT.pack(len(entries)))
        for node, payload in entries:
            parts.append(_ENTRY.pack(node.sender, node.number, node.wave, len(node.past)))
            parts += [_HEAD.pack(own) for own in node.past]
            parts += [_COUNT.pack(len(payload)), payload]
    return b"".join(parts)


def decode_state(data: bytes, graph: MessageGraph) -> FilterState:
    """Return a state; its messages are those of the graph, as far as they are there. Raises UsageError."""
    state = FilterState()
    if not data:
        return state
    try:
        state.committed = int(_HEAD.unpack_from(data)[0])
        position = _HEAD.size
        lists: list[list[Entry]] = []
        for _ in range(4):
            entries, position = _decode_list(data, position, graph)
            lists.append(entries)
    except (struct.error, IndexError):
        raise UsageError(
            "the checkpoint holds no state of this filter; put the one on that it was taken with"
        ) from None
    state.handed_out, state.waiting = lists[0], lists[1]
    state.offered = [payload for _, payload in lists[2]]
    state.former = [(node.mid(), payload) for node, payload in lists[3]]
    return state


def _decode_list(data: bytes, position: int, graph: MessageGraph) -> tuple[list[Entry], int]:
    entries: list[Entry] = []
    count = int(_COUNT.unpack_from(data, position)[0])
    position += _COUNT.size
    for _ in range(count):
        sender, number, wave, participants = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        past: list[int] = []
        for _ in range(participants):
            past.append(int(_HEAD.unpack_from(data, position)[0]))
            position += _HEAD.size
        size = int(_COUNT.unpack_from(data, position)[0])
        position += _COUNT.size
        found = graph.node((int(sender), int(number))) if participants else None
        node = found or GraphNode(int(sender), int(number), [], past, int(wave), None)
        entries.append((node, data[position : position + size]))
        position += size
    return entries, position
