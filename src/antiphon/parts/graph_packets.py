"""Packets by which the members of a view tell each other which nodes of their message graph they have and lack.

REQUEST  (rank u16, first u64, last u64) each: the author lacks these
STATUS   last u64 of each member: how far the author has each member's nodes; a stack may add a number of its own
"""

from struct import Struct
from typing import Final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.packet_kinds import REQUEST, STATUS

_RANGE: Final = Struct("<HQQ")
_RANGE_SIZE: Final = 18
_RANGES_MAX: Final = 64
"""Ranges in one request; whoever lacks more asks again."""


def encode_request(
    stack: int, group: int, tag: int, sender: int, missing: list[tuple[int, int, int]], flags: int = 0
) -> bytes:
    """A negative ack: rank, first and last number of what is missing, as much as a packet tells."""
    parts = [_RANGE.pack(rank, first, last) for rank, first, last in missing[:_RANGES_MAX]]
    return seal(stack, REQUEST, group, tag, sender, flags, 0, [b"".join(parts)])


def decode_request(packet: bytes, members: int) -> list[tuple[int, int, int]]:
    """Rank, first and last number of what somebody lacks. Raises MalformedError."""
    count, rest = divmod(len(packet) - HEADER_SIZE, _RANGE_SIZE)
    if rest or count > _RANGES_MAX:
        raise MalformedError("length")
    ranges: list[tuple[int, int, int]] = []
    for place in range(count):
        rank, first, last = _RANGE.unpack_from(packet, HEADER_SIZE + _RANGE_SIZE * place)
        if rank >= members or not 0 < first <= last <= NUMBER_MAX:
            raise MalformedError("rank")
        ranges.append((int(rank), int(first), int(last)))
    return ranges


def encode_status(stack: int, group: int, tag: int, sender: int, last: list[int], flags: int = 0) -> bytes:
    """How far this member has each member's nodes."""
    counts = Struct(f"<{len(last)}Q").pack(*last)
    return seal(stack, STATUS, group, tag, sender, flags, 0, [counts])


def decode_status(packet: bytes, numbers: int) -> list[int]:
    """How far somebody has each member's nodes, and what else a stack adds: so many numbers. Raises MalformedError."""
    if len(packet) != HEADER_SIZE + 8 * numbers:
        raise MalformedError("length")
    return list(Struct(f"<{numbers}Q").unpack_from(packet, HEADER_SIZE))
