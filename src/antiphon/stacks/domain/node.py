"""The packets of a broadcast domain (transis-1992, 3.3).

DATA     number u64 | acks u16 | (rank u16, number u64) each | destinations, a bit for each rank | messages
         (parts/node_batch.py), or nothing
         A node of the graph. An ack names the last message of another member that its sender could deliver and has not
         acknowledged before, nor has anything that it acknowledges: the immediate predecessors of the node, each named
         once in a sender's life. Flag CONTINUES: the sender's own message before this one is a predecessor too; if
         not, an acknowledged one follows it. Flag CHOSEN: the messages are for these destinations alone; without
         it, for all members, and no destinations stand there. Nothing in it: the node is an acknowledgement. The
         header names the original sender, whoever sends the copy.
REQUEST  (parts/graph_packets.py): a negative ack. Whoever holds these, send them again to all. Flag DIRECT: to the
         author alone, and at once; it asks one member after the other.
STATUS   (parts/graph_packets.py). Flag WAITS: please acknowledge.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.packet_kinds import DATA
from antiphon.parts.message_graph import GraphPacket, Mid
from antiphon.parts.node_batch import BATCH_OVERHEAD, EVERYBODY, NodeBatch, decode_batch, destinations_size
from antiphon.stacks.domain.offers import NUMBER

CONTINUES: Final = 1
CHOSEN: Final = 2
WAITS: Final = 1
DIRECT: Final = 1

_NODE: Final = Struct("<QH")
_NODE_SIZE: Final = 10
_ACK: Final = Struct("<HQ")
ACK_SIZE: Final = 10
NODE_OVERHEAD: Final = HEADER_SIZE + _NODE_SIZE + BATCH_OVERHEAD


@final
class DomainNode(GraphPacket):
    """A node as it came; `packet` is its bytes, for whoever asks for it again."""

    __slots__ = ("batch", "destinations", "packet")

    def __init__(
        self,
        packet: bytes,
        sender: int,
        number: int,
        predecessors: list[Mid],
        batch: NodeBatch | None,
        destinations: int = EVERYBODY,
    ) -> None:
        super().__init__(sender, number, predecessors)
        self.packet = packet
        self.batch = batch
        self.destinations = destinations
        """Bits of the ranks whose applications are to have the messages."""


def encode_node(
    group: int,
    tag: int,
    sender: int,
    level: int,
    number: int,
    predecessors: list[Mid],
    body: bytes,
    destinations: int = EVERYBODY,
    members: int = 0,
    stamp: int = NUMBER,
) -> bytes:
    """A node of the graph. `members`: how many the view has, where messages are for some of them."""
    acks = [(rank, own) for rank, own in predecessors if rank != sender]
    flags = CONTINUES if len(acks) < len(predecessors) else 0
    parts = [_NODE.pack(number, len(acks))]
    parts += [_ACK.pack(rank, own) for rank, own in acks]
    if destinations != EVERYBODY:
        flags |= CHOSEN
        parts.append(destinations.to_bytes(destinations_size(members), "little"))
    parts.append(body)
    return seal(stamp, DATA, group, tag, sender, flags, level, parts)


def node_number(packet: bytes) -> int:
    """The number of a node alone. Raises MalformedError."""
    if len(packet) < HEADER_SIZE + _NODE_SIZE:
        raise MalformedError("length")
    return int(_NODE.unpack_from(packet, HEADER_SIZE)[0])


def decode_node(packet: bytes, sender: int, flags: int, members: int) -> DomainNode:
    """Take a node apart. Raises MalformedError."""
    if len(packet) < HEADER_SIZE + _NODE_SIZE:
        raise MalformedError("length")
    number, count = _NODE.unpack_from(packet, HEADER_SIZE)
    start = HEADER_SIZE + _NODE_SIZE + ACK_SIZE * int(count)
    if len(packet) < start:
        raise MalformedError("length")
    if not 0 < number <= NUMBER_MAX or count >= members:
        raise MalformedError("number")
    predecessors: list[Mid] = []
    if flags & CONTINUES:
        if number == 1:
            raise MalformedError("number")
        predecessors.append((sender, int(number) - 1))
    for place in range(count):
        rank, own = _ACK.unpack_from(packet, HEADER_SIZE + _NODE_SIZE + ACK_SIZE * place)
        if rank >= members or rank == sender or not 0 < own <= NUMBER_MAX:
            raise MalformedError("rank")
        predecessors.append((int(rank), int(own)))
    if not flags & CHOSEN:
        return DomainNode(packet, sender, int(number), predecessors, decode_batch(packet, start))
    end = start + destinations_size(members)
    destinations = int.from_bytes(packet[start:end], "little")
    if len(packet) <= end or destinations >> members:
        raise MalformedError("destinations")
    return DomainNode(packet, sender, int(number), predecessors, decode_batch(packet, end), destinations)
