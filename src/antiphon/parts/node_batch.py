"""What a node of a message graph carries in a group: messages of one level, as many as fit, or one fragment of a
longer one. Nothing at all: an acknowledgement.

    level u8 | fragment u8 | messages u16 | first message u64 | fragment: index u32, total u32
    | lengths u16 each, payloads; or the slice
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.levels import SAFE
from antiphon.parts.message_graph import GraphNode
from antiphon.parts.packet import LENGTH_SIZE, cut_messages, lengths_table, table_end
from antiphon.parts.pending import PacketLoad

_HEAD: Final = Struct("<BBHQ")
_HEAD_SIZE: Final = 12
_FRAGMENT: Final = Struct("<II")
BATCH_OVERHEAD: Final = 20
EVERYBODY: Final = -1
"""The messages of a node are for all members."""


def destinations_size(members: int) -> int:
    """The bytes that destinations take in a node."""
    return (members + 7) // 8


@final
class NodeBatch:
    """A node of the graph and the messages in it."""

    __slots__ = ("_body", "_section", "count", "destinations", "first_message", "index", "level", "node", "total")

    def __init__(self, section: bytes, level: int, first_message: int, count: int, index: int, total: int) -> None:
        self._section = section
        self._body = 0
        self.level = level
        self.first_message = first_message
        self.count = count
        self.index = index
        self.total = total
        self.node: GraphNode | None = None
        self.destinations = EVERYBODY
        """Bits of the ranks of the members that the messages are for, where the stack sets it."""

    def messages(self) -> list[bytes]:
        return cut_messages(self._section, self._body, self.count)

    def slice(self) -> bytes:
        """The part of a message that a fragment is."""
        return self._section[self._body :]

    def size(self) -> int:
        """The bytes of all messages together."""
        return len(self._section) - self._body - (0 if self.total else LENGTH_SIZE * self.count)


def encode_batch(load: PacketLoad) -> bytes:
    """What a node carries."""
    if load.total:
        head = _HEAD.pack(load.level, 1, 1, load.first_message) + _FRAGMENT.pack(load.index, load.total)
        return head + load.fragment
    head = _HEAD.pack(load.level, 0, len(load.complete), load.first_message)
    return b"".join([head, lengths_table(load.complete), *load.complete])


def decode_batch(section: bytes, start: int, level_max: int = SAFE) -> NodeBatch | None:
    """What a node carries, from `start` on; None for an acknowledgement. Raises MalformedError."""
    if len(section) == start:
        return None
    if len(section) < start + _HEAD_SIZE:
        raise MalformedError("length")
    level, fragment, count, first_message = _HEAD.unpack_from(section, start)
    position = start + _HEAD_SIZE
    if level > level_max or fragment > 1 or count == 0 or not 0 < first_message <= NUMBER_MAX:
        raise MalformedError("batch")
    batch = NodeBatch(section, int(level), int(first_message), int(count), 0, 0)
    if fragment:
        if len(section) < position + 8 or count != 1:
            raise MalformedError("length")
        index, total = _FRAGMENT.unpack_from(section, position)
        if index >= total:
            raise MalformedError("fragment")
        batch.index, batch.total = int(index), int(total)
        position += 8
    elif len(section) < position + LENGTH_SIZE * batch.count or table_end(section, position, batch.count) != len(
        section
    ):
        raise MalformedError("length")
    batch._body = position
    return batch
