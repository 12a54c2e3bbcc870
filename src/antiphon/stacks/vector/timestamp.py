"""Vector timestamps on the wire, compressed (isis-1991, section 5.4).

A timestamp carries the entries that changed since the sender's last packet; the sender's own entry is its packet
number and never travels. Nothing changed, as in a burst: no bytes at all. Naming entries costs ten bytes each, a full
vector eight per member, so the shorter of the two is sent:

    0 u8 | (rank u16, count u64) per changed entry        1 u8 | count u64 per member
"""

from struct import Struct
from typing import Final

from antiphon.kernel.errors import MalformedError

_SPARSE: Final = b"\x00"
_FULL: Final = b"\x01"
_ENTRY: Final = Struct("<HQ")
_ENTRY_SIZE: Final = 10
_COUNT_SIZE: Final = 8


def size_max(members: int) -> int:
    """The longest timestamp in a view of so many members."""
    return 1 + _COUNT_SIZE * members


def encode(changed: list[tuple[int, int]], vector: list[int]) -> bytes:
    """The timestamp that turns the receiver's last vector of this sender into `vector`."""
    if not changed:
        return b""
    members = len(vector)
    if _ENTRY_SIZE * len(changed) <= _COUNT_SIZE * members:
        entries = [_SPARSE]
        for rank, count in changed:
            entries.append(_ENTRY.pack(rank, count))
        return b"".join(entries)
    return _FULL + Struct(f"<{members}Q").pack(*vector)


def decode(section: bytes, members: int) -> list[tuple[int, int]]:
    """The entries that a timestamp sets. Raises MalformedError."""
    if not section:
        return []
    size = len(section) - 1
    if section[:1] == _FULL:
        if size != _COUNT_SIZE * members:
            raise MalformedError("timestamp")
        return list(enumerate(Struct(f"<{members}Q").unpack_from(section, 1)))
    if section[:1] != _SPARSE or size % _ENTRY_SIZE:
        raise MalformedError("timestamp")
    entries: list[tuple[int, int]] = []
    for position in range(1, len(section), _ENTRY_SIZE):
        rank, count = _ENTRY.unpack_from(section, position)
        if rank >= members:
            raise MalformedError("timestamp")
        entries.append((int(rank), int(count)))
    return entries
