"""What a node carries in a group: for whom, and messages of one level (parts/node_batch.py). Nothing: it says nothing.

size u8 | destinations, a bit for each rank, in so many bytes; none: for everybody | messages
"""

from antiphon.kernel.errors import MalformedError
from antiphon.parts.node_batch import EVERYBODY, NodeBatch, decode_batch, destinations_size, encode_batch
from antiphon.parts.pending import PacketLoad


def encode_load(load: PacketLoad, destinations: int, members: int) -> bytes:
    """Return what a node carries, for these ranks."""
    if destinations == EVERYBODY:
        return b"\0" + encode_batch(load)
    size = destinations_size(members)
    return bytes((size,)) + destinations.to_bytes(size, "little") + encode_batch(load)


def decode_load(section: bytes, start: int, members: int) -> NodeBatch | None:
    """Return what a node carries, from `start` on; None if it is nothing. Raises MalformedError."""
    if len(section) == start:
        return None
    size = section[start]
    end = start + 1 + size
    destinations = EVERYBODY
    if size:
        destinations = int.from_bytes(section[start + 1 : end], "little")
        if size != destinations_size(members) or destinations >> members:
            raise MalformedError("destinations")
    batch = decode_batch(section, end)
    if batch is None:
        raise MalformedError("length")
    batch.destinations = destinations
    return batch
