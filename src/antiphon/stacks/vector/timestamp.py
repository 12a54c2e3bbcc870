"""The order section of a data packet: vector time (isis-1991, 5.4), places in the total order (5.2), times of other
groups (6.1).

    parts u8 | vector | token | foreign         each only if its bit is set; nothing to say: no bytes at all

vector   SPARSE  entries u16 | (rank u16, count u64) each        FULL  count u64 per member
         The entries that changed since the sender's last packet; its own entry is its packet number and never travels.
         Nothing changed, as in a burst: nothing travels. The shorter of the two forms is sent.
token    term u32 | next holder u16 | runs u16 | (rank u16, first u64, packets u16) each
         The sender holds the token for the `term`-th time that it changed hands: these packets come next in the total
         order. After them the token goes to `next holder`, unless that is KEEP.
foreign  groups u16 | (group u64, view u64, entries u16, (rank u16, count u64) each) each
         What came before in other groups of the causality domain. No entries: just the view.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX

SPARSE: Final = 1
FULL: Final = 2
TOKEN: Final = 4
FOREIGN: Final = 8
KEEP: Final = 0xFFFF

_ENTRY: Final = Struct("<HQ")
_ENTRY_SIZE: Final = 10
_COUNT_SIZE: Final = 8
_SIZE: Final = Struct("<H")
_TOKEN: Final = Struct("<IHH")
_TOKEN_SIZE: Final = 8
_RUN: Final = Struct("<HQH")
RUN_SIZE: Final = 12
RUN_MAX: Final = 0xFFFF
_GROUP: Final = Struct("<QQH")
_GROUP_SIZE: Final = 18


_COUNTS: Final[list[Struct]] = [Struct(f"<{count}Q") for count in range(32)]
"""Made once for the usual sizes of groups: to make one takes longer than to use it."""


def _counts(members: int) -> Struct:
    return _COUNTS[members] if members < len(_COUNTS) else Struct(f"<{members}Q")


@final
class Placement:
    """What a packet says about the total order: runs of packets (rank, first, count), and who orders from here on."""

    __slots__ = ("next_holder", "runs", "term")

    def __init__(self, term: int, runs: list[tuple[int, int, int]], next_holder: int = KEEP) -> None:
        self.term = term
        self.runs = runs
        self.next_holder = next_holder

    def encode(self) -> bytes:
        parts = [_TOKEN.pack(self.term, self.next_holder, len(self.runs))]
        for rank, first, count in self.runs:
            parts.append(_RUN.pack(rank, first, count))
        return b"".join(parts)


@final
class ForeignTime:
    """What came before in another group: packets of that group's view, by rank there."""

    __slots__ = ("entries", "group", "view_id")

    def __init__(self, group: int, view_id: int, entries: list[tuple[int, int]]) -> None:
        self.group = group
        self.view_id = view_id
        self.entries = entries

    def encode(self) -> bytes:
        parts = [_GROUP.pack(self.group, self.view_id, len(self.entries))]
        for rank, count in self.entries:
            parts.append(_ENTRY.pack(rank, count))
        return b"".join(parts)

    def size(self) -> int:
        return _GROUP_SIZE + _ENTRY_SIZE * len(self.entries)


def size_max(members: int) -> int:
    """The longest vector in a view of so many members."""
    return 1 + _SIZE.size + _COUNT_SIZE * members


def encode_vector(changed: list[tuple[int, int]], vector: list[int]) -> tuple[int, bytes]:
    """The part that turns the receiver's last vector of this sender into `vector`, and its bit."""
    if not changed:
        return 0, b""
    members = len(vector)
    if _SIZE.size + _ENTRY_SIZE * len(changed) <= _COUNT_SIZE * members:
        parts = [_SIZE.pack(len(changed))]
        for rank, count in changed:
            parts.append(_ENTRY.pack(rank, count))
        return SPARSE, b"".join(parts)
    return FULL, _counts(members).pack(*vector)


def encode(vector: tuple[int, bytes], token: Placement | None, foreign: list[ForeignTime]) -> bytes:
    """The whole section."""
    bits, part = vector
    if not bits and token is None and not foreign:
        return b""
    parts = [part]
    if token is not None:
        bits |= TOKEN
        parts.append(token.encode())
    if foreign:
        bits |= FOREIGN
        parts.append(_SIZE.pack(len(foreign)))
        for time in foreign:
            parts.append(time.encode())
    parts.insert(0, bytes((bits,)))
    return b"".join(parts)


@final
class OrderSection:
    """A section, taken apart. Raises MalformedError where it does not add up."""

    __slots__ = ("_data", "_position", "foreign", "token", "vector")

    def __init__(self, data: bytes, members: int) -> None:
        self._data = data
        self._position = 1
        self.vector: list[tuple[int, int]] = []
        self.token: Placement | None = None
        self.foreign: list[ForeignTime] = []
        bits = data[0] if data else 0xFF
        if bits & ~(SPARSE | FULL | TOKEN | FOREIGN):
            raise MalformedError("timestamp")
        if bits & FULL:
            counts = self._take(_counts(members))
            if max(counts) > NUMBER_MAX:
                raise MalformedError("timestamp")
            for rank in range(members):
                self.vector.append((rank, counts[rank]))
        elif bits & SPARSE:
            self.vector = self._entries(self._take(_SIZE)[0])
            for rank, _ in self.vector:
                if rank >= members:
                    raise MalformedError("timestamp")
        if bits & TOKEN:
            self.token = self._placement(members)
        if bits & FOREIGN:
            for _ in range(self._take(_SIZE)[0]):
                group, view_id, entries = self._take(_GROUP)
                if view_id > NUMBER_MAX:
                    raise MalformedError("timestamp")
                self.foreign.append(ForeignTime(group, view_id, self._entries(entries)))
        if self._position != len(data):
            raise MalformedError("timestamp")

    def _take(self, format: Struct) -> tuple[int, ...]:
        end = self._position + format.size
        if end > len(self._data):
            raise MalformedError("timestamp")
        values: tuple[int, ...] = format.unpack_from(self._data, self._position)
        self._position = end
        return values

    def _entries(self, count: int) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for _ in range(count):
            rank, number = self._take(_ENTRY)
            if number > NUMBER_MAX:
                raise MalformedError("timestamp")
            entries.append((rank, number))
        return entries

    def _placement(self, members: int) -> Placement:
        term, next_holder, count = self._take(_TOKEN)
        runs: list[tuple[int, int, int]] = []
        for _ in range(count):
            rank, first, packets = self._take(_RUN)
            if rank >= members or not first or not packets:
                raise MalformedError("token")
            runs.append((rank, first, packets))
        if next_holder >= members and next_holder != KEEP:
            raise MalformedError("token")
        return Placement(term, runs, next_holder)
