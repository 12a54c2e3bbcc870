"""What travels between members: broadcasts, and answers to them, packed into the datagrams of a link (link.py).

    datagram   sequence u64 | ack u64 | collected u64 | consumed u64 | frames
    frame      ITEM: a broadcast
               PRIORITY: number u64, priority u64: what the author assigns to this broadcast of the receiver (4.3.1)
               VOUCH: number u64: the author has this safe broadcast of the receiver at the head of its queue (3.2)
    item       kind u8 | sender u16 | number u64 | clock u64 | passed u64, u16 | size u8 | destinations | remaining
               | label u8, bytes | body u32, bytes
    body       MESSAGES: parts/node_batch.py
               GUEST: incarnation u64, name u8, bytes of a sender from outside (guests.py), then as MESSAGES
               COMMIT: (number u64, priority u64, rank u16) each: final priorities of the sender's broadcasts
               RELEASE: number u64 each: safe broadcasts of the sender that everybody has vouched for
    status     sent u64 | ack u64 | collected u64 | consumed u64 | acked u64 | (first u64, last u64) each: what is
               missing; `acked`: what the receiver has acknowledged. Flag ASK: please answer with a status.
    request    (rank u16, first u64, last u64) each: which broadcasts of the cut the author lacks
    fetched    DATA with the flag FETCHED: ITEM frames outside the link's sequence, and
               NEEDLESS: rank u16, number u64: a broadcast that was collected

`clock` is the sender's logical clock; `passed` is how far the sender had followed the total order (ordering.py).
`destinations` are the ranks that are to deliver a broadcast, `remaining` those that still lack it, as far as the author
knows: REM-DESTS of 4.3.2. Both are sets of bits, of `size` bytes.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.kernel.levels import ABCAST, AGREED, CAUSAL, CAUSAL_TOTAL, SAFE
from antiphon.parts.node_batch import NodeBatch, decode_batch
from antiphon.stacks.label.guests import decode_identity

MESSAGES: Final = 0
COMMIT: Final = 1
RELEASE: Final = 2
GUEST: Final = 3

ITEM: Final = 1
PRIORITY: Final = 2
VOUCH: Final = 3
NEEDLESS: Final = 4

ASK: Final = 1
FETCHED: Final = 1

RANGES_MAX: Final = 64
LABEL_BYTES_MAX: Final = 200

_LINK: Final = Struct("<QQQQ")
LINK_SIZE: Final = 32
_ITEM: Final = Struct("<BHQQQHB")
_ITEM_SIZE: Final = 30
_LENGTH: Final = Struct("<I")
_COMMIT: Final = Struct("<QQH")
COMMIT_SIZE: Final = 18
_NUMBER: Final = Struct("<Q")
NUMBER_SIZE: Final = 8
_PRIORITY: Final = Struct("<BQQ")
_VOUCH: Final = Struct("<BQ")
_NEEDLESS: Final = Struct("<BHQ")
_RANGE: Final = Struct("<QQ")
_RANKED: Final = Struct("<HQQ")

Mid = tuple[int, int]
"""A broadcast's id: the rank of its sender and its number among that sender's broadcasts in the view."""
Priority = tuple[int, int]
"""A place in the total order: an integer, and the rank of the process that assigned it, so that no two are equal."""
NOWHERE: Final[Priority] = (0, 0)


def item_overhead(members: int) -> int:
    """The bytes of an item beside its label and its body."""
    return 1 + _ITEM_SIZE + 2 * ((members + 7) // 8) + 1 + 4


def is_in_order(level: int) -> bool:
    """Whether messages of this level are in the one order of the view (ordering.py)."""
    return level in (AGREED, SAFE)


@final
class Item:
    """A broadcast, as one member has it."""

    __slots__ = (
        "after", "batch", "body", "clock", "destinations", "guest", "is_done", "kind", "label", "number", "passed",
        "queue", "remaining", "sender", "sent_to",
    )  # fmt: skip

    def __init__(
        self,
        kind: int,
        sender: int,
        number: int,
        clock: int,
        passed: Priority,
        destinations: int,
        remaining: int,
        label: bytes,
        body: bytes,
    ) -> None:
        self.kind = kind
        self.sender = sender
        self.number = number
        self.clock = clock
        self.passed = passed
        self.destinations = destinations
        """Bits of the ranks that deliver it."""
        self.remaining = remaining
        """Bits of the ranks that still lack it, as far as is known here."""
        self.label = label
        """What a CBCAST is ordered by (comparison.py)…"""
        self.queue = b""
        """…and the label of an ABCAST (queues.py)."""
        self.body = body
        self.batch: NodeBatch | None = None
        self.guest: ProcessId | None = None
        """Whose messages these are, if their author is no member; the sender broadcasts them in its place."""
        self.after = 0
        """How many ABCASTs had come here before it (handover.py)."""
        self.sent_to = 0
        """Bits of the ranks that it was put on the way to from here (SENT-TO)."""
        self.is_done = False
        """It has been collected: nobody needs a copy."""

    def level(self) -> int:
        """The level of its messages; what orders others counts as the highest below those that are ordered."""
        return CAUSAL if self.batch is None else self.batch.level

    def is_ordered(self) -> bool:
        """Whether it has a place in the total order."""
        return self.batch is not None and is_in_order(self.batch.level)

    def is_abcast(self) -> bool:
        """Whether it has a place in the queue of its label, or is a fragment of such a message."""
        return self.batch is not None and self.batch.level == ABCAST

    def is_part(self) -> bool:
        """Whether it is a fragment that another one follows."""
        return self.batch is not None and self.batch.index + 1 < self.batch.total

    def last_message(self) -> int:
        """The number of the last message in it."""
        return 0 if self.batch is None else self.batch.first_message + self.batch.count - 1

    def encode(self, size: int) -> bytes:
        """The item as a frame; sets of ranks have `size` bytes."""
        place, rank = self.passed
        head = _ITEM.pack(self.kind, self.sender, self.number, self.clock, place, rank, size)
        ranks = self.destinations.to_bytes(size, "little") + self.remaining.to_bytes(size, "little")
        text = self.queue or self.label
        label = bytes([len(text)]) + text
        return b"".join([b"\x01", head, ranks, label, _LENGTH.pack(len(self.body)), self.body])

    def commits(self) -> list[tuple[int, Priority]]:
        """The final priorities that a COMMIT tells, by the numbers of its sender's broadcasts."""
        return [(int(number), (int(place), int(rank))) for number, place, rank in _COMMIT.iter_unpack(self.body)]

    def released(self) -> list[int]:
        """The safe broadcasts of its sender that a RELEASE lets go."""
        return [int(number[0]) for number in _NUMBER.iter_unpack(self.body)]


@final
class LabelFrame:
    """One part of a datagram; `item` for broadcasts, `number` and `value` for the rest."""

    __slots__ = ("item", "kind", "number", "value")

    def __init__(self, kind: int, item: Item | None, number: int, value: int) -> None:
        self.kind = kind
        self.item = item
        self.number = number
        self.value = value


def encode_commits(commits: list[tuple[int, Priority]]) -> bytes:
    return b"".join([_COMMIT.pack(number, priority[0], priority[1]) for number, priority in commits])


def encode_numbers(numbers: list[int]) -> bytes:
    return b"".join([_NUMBER.pack(number) for number in numbers])


def encode_priority(number: int, priority: int) -> bytes:
    return _PRIORITY.pack(PRIORITY, number, priority)


def encode_vouch(number: int) -> bytes:
    return _VOUCH.pack(VOUCH, number)


def encode_needless(mid: Mid) -> bytes:
    return _NEEDLESS.pack(NEEDLESS, mid[0], mid[1])


def encode_link_head(sequence: int, ack: int, collected: int, consumed: int) -> bytes:
    return _LINK.pack(sequence, ack, collected, consumed)


def decode_link_head(data: bytes, start: int) -> tuple[int, int, int, int]:
    """Sequence (or, of a status, what was sent), ack, collected and consumed. Raises MalformedError."""
    if len(data) < start + LINK_SIZE:
        raise MalformedError("length")
    sequence, ack, collected, consumed = _LINK.unpack_from(data, start)
    if max(sequence, ack, collected, consumed) > NUMBER_MAX:
        raise MalformedError("number")
    return int(sequence), int(ack), int(collected), int(consumed)


def decode_frames(data: bytes, start: int, members: int) -> list[LabelFrame]:
    """All frames of a datagram. Raises MalformedError."""
    frames: list[LabelFrame] = []
    end = len(data)
    while start < end:
        kind = data[start]
        if kind == ITEM:
            start = _decode_item(data, start + 1, members, frames)
        elif kind == PRIORITY and start + 17 <= end:
            _, number, value = _PRIORITY.unpack_from(data, start)
            frames.append(LabelFrame(PRIORITY, None, int(number), int(value)))
            start += 17
        elif kind == VOUCH and start + 9 <= end:
            frames.append(LabelFrame(VOUCH, None, int(_VOUCH.unpack_from(data, start)[1]), 0))
            start += 9
        elif kind == NEEDLESS and start + 11 <= end:
            _, rank, number = _NEEDLESS.unpack_from(data, start)
            frames.append(LabelFrame(NEEDLESS, None, int(number), int(rank)))
            start += 11
        else:
            raise MalformedError("frame")
        last = frames[-1]
        if last.item is None and not (0 < last.number <= NUMBER_MAX and 0 <= last.value <= NUMBER_MAX):
            raise MalformedError("number")
        if last.kind == NEEDLESS and last.value >= members:
            raise MalformedError("rank")
    return frames


def _decode_item(data: bytes, start: int, members: int, frames: list[LabelFrame]) -> int:
    if len(data) < start + _ITEM_SIZE:
        raise MalformedError("length")
    kind, sender, number, clock, place, rank, size = _ITEM.unpack_from(data, start)
    position = start + _ITEM_SIZE
    if size != (members + 7) // 8 or len(data) < position + 2 * size + 1:
        raise MalformedError("length")
    destinations = int.from_bytes(data[position : position + size], "little")
    remaining = int.from_bytes(data[position + size : position + 2 * size], "little")
    position += 2 * size + 1
    label = data[position : position + data[position - 1]]
    position += data[position - 1]
    if len(data) < position + 4 or len(label) > LABEL_BYTES_MAX:
        raise MalformedError("length")
    length = int(_LENGTH.unpack_from(data, position)[0])
    position += 4
    if len(data) < position + length:
        raise MalformedError("length")
    if sender >= members or rank >= members or (destinations | remaining) >> members or not destinations:
        raise MalformedError("rank")
    if not (0 < number <= NUMBER_MAX and 0 < clock <= NUMBER_MAX and place <= NUMBER_MAX):
        raise MalformedError("number")
    body = data[position : position + length]
    passed = (int(place), int(rank))
    item = Item(int(kind), int(sender), int(number), int(clock), passed, destinations, remaining, label, body)
    _check_body(item, members)
    frames.append(LabelFrame(ITEM, item, 0, 0))
    end: int = position + length
    return end


def read_batch(item: Item) -> None:
    """Read the messages of a broadcast. Raises MalformedError."""
    start = 0
    if item.kind == GUEST:
        item.guest, start = decode_identity(item.body, 0)
    item.batch = decode_batch(item.body, start, ABCAST)
    if item.is_abcast():
        item.queue = item.label
        item.label = b""


def _check_body(item: Item, members: int) -> None:
    if item.kind in (MESSAGES, GUEST):
        read_batch(item)
        if item.batch is None or item.batch.level == CAUSAL_TOTAL:
            raise MalformedError("batch")
        if item.guest is not None and item.label:
            raise MalformedError("label")
    elif item.kind == COMMIT:
        if not item.body or len(item.body) % COMMIT_SIZE:
            raise MalformedError("length")
        for number, (place, rank) in item.commits():
            if rank >= members or not (0 < number <= NUMBER_MAX and 0 < place <= NUMBER_MAX):
                raise MalformedError("number")
    elif item.kind == RELEASE:
        if not item.body or len(item.body) % NUMBER_SIZE:
            raise MalformedError("length")
    else:
        raise MalformedError("kind")


def encode_acked(acked: int) -> bytes:
    return _NUMBER.pack(acked)


def decode_acked(data: bytes, start: int) -> int:
    """What a status says that its receiver has acknowledged. Raises MalformedError."""
    if len(data) < start + NUMBER_SIZE:
        raise MalformedError("length")
    acked = int(_NUMBER.unpack_from(data, start)[0])
    if acked > NUMBER_MAX:
        raise MalformedError("number")
    return acked


def encode_ranges(ranges: list[tuple[int, int]]) -> bytes:
    return b"".join([_RANGE.pack(first, last) for first, last in ranges])


def decode_ranges(data: bytes, start: int) -> list[tuple[int, int]]:
    """What a status says is missing on its link. Raises MalformedError."""
    count, rest = divmod(len(data) - start, 16)
    if rest or count > RANGES_MAX:
        raise MalformedError("length")
    ranges: list[tuple[int, int]] = []
    for place in range(count):
        first, last = _RANGE.unpack_from(data, start + 16 * place)
        if not 0 < first <= last <= NUMBER_MAX:
            raise MalformedError("number")
        ranges.append((int(first), int(last)))
    return ranges


def encode_request(missing: list[tuple[int, int, int]]) -> bytes:
    return b"".join([_RANKED.pack(rank, first, last) for rank, first, last in missing])


def decode_request(data: bytes, start: int, members: int) -> list[tuple[int, int, int]]:
    """Rank, first and last number of what somebody lacks of a cut. Raises MalformedError."""
    count, rest = divmod(len(data) - start, 18)
    if rest or count > RANGES_MAX:
        raise MalformedError("length")
    ranges: list[tuple[int, int, int]] = []
    for place in range(count):
        rank, first, last = _RANKED.unpack_from(data, start + 18 * place)
        if rank >= members or not 0 < first <= last <= NUMBER_MAX:
            raise MalformedError("rank")
        ranges.append((int(rank), int(first), int(last)))
    return ranges
