"""The outermost layer of every packet: checksum, magic, version, stack, kind, group, view, sender.

    crc u32 | magic u8 | version u8 | stack u8 | kind u8 | group u64 | view tag u64 | sender rank u16 | flags u8
    | level u8 | body

All numbers are little-endian. The checksum (CRC-32) covers everything after itself: UDP's own sixteen bits miss one
damaged packet in 65,536, and a damaged acknowledgement that looks sound would free packets that somebody still needs.
The view tag stands for the view and for the limits that its members must share, so packets of other views, and of
members that were set up differently, fall out here. The stack is the number that stacks/registry.py knows it by: the
engine gives it all packets that bear it. What a kind means is in packet_kinds.py.
Versions are in wire_versions.py.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import View
from antiphon.kernel.options import Options
from antiphon.kernel.wire_versions import UNSUMMED_SINCE, VERSION, VERSION_MIN

try:  # the same sum, some four times as fast
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

MAGIC: Final = 0x41
_VERSION_BITS: Final = 8
_UNSUMMED: Final = 1 << 16

_CRC: Final = Struct("<I")
_HEADER: Final = Struct("<BBBBQQHBB")
_CRC_SIZE: Final = 4
_NO_CRC: Final = bytes(4)
HEADER_SIZE: Final = 28
_PARTS_MAX: Final = 12
"""A packet of more parts than this is put together before it is summed, which copies it once more."""
_LONG: Final = 4096
"""Bytes above which to look at a part costs less than to copy it."""
STACK_AT: Final = 6
"""Where a packet, of which `unseal` has found the outer layer sound, has the number of its stack."""
_KIND_AT: Final = 7
_VERSION_AT: Final = 5
_SENDER_AT: Final = 24
_FLAGS_AT: Final = 26
_LEVEL_AT: Final = 27


def view_tag(view: View, options: Options, declared: int = 0) -> int:
    """A 64-bit digest of a view, its members, the limits that they must share, and the id of their declaration."""
    limits = (options.window_packets, options.packet_bytes_max, options.message_bytes_max)
    shared = f"{view.id}|{limits}|{declared}|{view.members!r}"
    if view.version > VERSION_MIN:
        shared += f"|{view.version}"
    return int.from_bytes(blake2b(shared.encode(), digest_size=8).digest(), "little")


def stamp_of(stack: int, version: int, sealed: bool) -> int:
    """What `seal` is given instead of the bare number of a stack where packets are of another version than the lowest:
    the number, the version, and whether there is a checksum."""
    stamp = stack | (version - VERSION_MIN) << _VERSION_BITS
    return stamp | _UNSUMMED if sealed and version >= UNSUMMED_SINCE else stamp


def seal(stamp: int, kind: int, group: int, tag: int, sender: int, flags: int, level: int, parts: list[bytes]) -> bytes:
    """One packet, ready to leave. `stamp`: the number of its stack, or what `stamp_of` makes of it."""
    version = VERSION_MIN + (stamp >> _VERSION_BITS & 0xFF)
    parts.insert(0, _HEADER.pack(MAGIC, version, stamp & 0xFF, kind, group, tag, sender, flags, level))
    if stamp & _UNSUMMED:
        parts.insert(0, _NO_CRC)
        return b"".join(parts)
    if len(parts) > _PARTS_MAX:
        covered = b"".join(parts)
        return _CRC.pack(crc32(covered)) + covered
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    parts.insert(0, _CRC.pack(checksum))
    return b"".join(parts)


def unseal(data: bytes, newest: int = VERSION, sealed: bool = False) -> tuple[int, int, int, int, int, int]:
    """Check the outer layer; kind, group, view tag, sender, flags and level. Raises MalformedError.

    `newest`: the highest version to read. `sealed`: whether the packet came under a seal."""
    if len(data) < HEADER_SIZE:
        raise MalformedError("short")
    magic, version, _, kind, group, tag, sender, flags, level = _HEADER.unpack_from(data, _CRC_SIZE)
    if magic != MAGIC:
        raise MalformedError("magic")
    if not VERSION_MIN <= version <= newest:
        raise MalformedError("version")
    if sealed and version >= UNSUMMED_SINCE:
        return kind, group, tag, sender, flags, level
    covered = data[_CRC_SIZE:] if len(data) < _LONG else memoryview(data)[_CRC_SIZE:]
    if _CRC.unpack_from(data, 0)[0] != crc32(covered):
        raise MalformedError("checksum")
    return kind, group, tag, sender, flags, level


def packet_kind(packet: bytes) -> int:
    """The kind of a packet that this program has made (packet_kinds.py)."""
    return packet[_KIND_AT]


def packet_version(packet: bytes) -> int:
    """The version of a packet that this program has made, or has found sound."""
    return packet[_VERSION_AT]


def packet_sender_and_level(packet: bytes) -> tuple[int, int]:
    """Rank of the sender, and level, of a packet whose outer layer is sound."""
    return packet[_SENDER_AT] | packet[_SENDER_AT + 1] << 8, packet[_LEVEL_AT]


def packet_flags(packet: bytes) -> int:
    """The flags of a packet that this program has made; what they mean depends on its kind."""
    return packet[_FLAGS_AT]
