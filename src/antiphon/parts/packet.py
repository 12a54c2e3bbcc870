"""The three packets of the stream layer, inside the kernel's outer layer.

DATA     number u64 | stable u64 | first message u64 | messages u16 | order bytes u16
         | fragment: index u32, total u32 (flag FRAGMENT) | order section | acks (flag ACKS) | lengths u16 each |
         payloads The order section belongs to the stack; the stream layer carries it unread. A fragment is one slice
         of one message.
STATUS   stable u64 | acks. Flag ASK: please answer with your own.
REQUEST  stream u16 | ranges u16 | (first u64, last u64) each: resend me these packets of the member with rank `stream`.

acks     first rank u16 | ranks u16 | received u64 each | lag u16 each
         `received` is the highest number below which the author holds every packet of that member; for the author
         itself, the last number that it gave out. `lag` says how many of those it has not yet consumed (handed to its
         application).

Decoding checks lengths only; what the numbers may be is for the stream to judge, which knows its window.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.kernel.packet_kinds import DATA, REQUEST, STATUS

ACKS: Final = 1
FRAGMENT: Final = 2
ASK: Final = 4
ORDERED: Final = 8
"""The stack's: a data packet so flagged takes part in the total order by its own place. It may carry no message."""

_DATA: Final = Struct("<QQQHH")
_DATA_SIZE: Final = 28
_FRAGMENT: Final = Struct("<II")
_FRAGMENT_SIZE: Final = 8
_STATUS: Final = Struct("<Q")
_STATUS_SIZE: Final = 8
_REQUEST: Final = Struct("<HH")
_REQUEST_SIZE: Final = 4
_RANGE: Final = Struct("<QQ")
_RANGE_SIZE: Final = 16
_ACKS: Final = Struct("<HH")
_ACKS_SIZE: Final = 4
ACK_SIZE: Final = 10
RANGES_MAX: Final = 32

DATA_OVERHEAD: Final = HEADER_SIZE + _DATA_SIZE
FRAGMENT_OVERHEAD: Final = DATA_OVERHEAD + _FRAGMENT_SIZE
LENGTH_SIZE: Final = 2
LONG_BYTES: Final = 4096
"""Messages of this length on average are worth keeping in place of the packet that brought them."""
STATUS_OVERHEAD: Final = HEADER_SIZE + _STATUS_SIZE + _ACKS_SIZE


_RANKS: Final[list[Struct]] = [Struct(f"<{count}Q{count}H") for count in range(32)]
"""Made once for the usual sizes of groups: to make one takes longer than to use it."""


def _ranks(count: int) -> Struct:
    return _RANKS[count] if count < len(_RANKS) else Struct(f"<{count}Q{count}H")


def acks_size(members: int) -> int:
    """The bytes of an acks section over so many ranks."""
    return _ACKS_SIZE + ACK_SIZE * members


@final
class Acks:
    """What one member holds and has consumed of the members from rank `first` on."""

    __slots__ = ("first", "lags", "received")

    def __init__(self, first: int, received: list[int], lags: list[int]) -> None:
        self.first = first
        self.received = received
        self.lags = lags

    def encode(self) -> bytes:
        count = len(self.received)
        return _ACKS.pack(self.first, count) + _ranks(count).pack(*self.received, *self.lags)


def _decode_acks(data: bytes, position: int) -> tuple[Acks, int]:
    if len(data) < position + _ACKS_SIZE:
        raise MalformedError("length")
    first, count = _ACKS.unpack_from(data, position)
    position += _ACKS_SIZE
    if len(data) < position + ACK_SIZE * count:
        raise MalformedError("length")
    numbers: list[int] = list(_ranks(count).unpack_from(data, position))
    return Acks(first, numbers[:count], numbers[count:]), position + ACK_SIZE * count


@final
class DataPacket:
    """A received data packet. `data` is its bytes as they were sent; once long messages were cut out of them, these
    are kept instead, and `copy` puts them together again for whoever asks for a resend."""

    __slots__ = (
        "_head",
        "_messages",
        "acks",
        "body",
        "count",
        "data",
        "delivered",
        "first_message",
        "fragment_index",
        "fragment_total",
        "level",
        "number",
        "order",
        "order_size",
        "ordered",
        "sender",
        "stable",
        "stamp",
    )

    def __init__(self, data: bytes, sender: int, flags: int, level: int) -> None:
        """Read the head alone, which tells whether the rest is worth reading: see `decode_body`."""
        if len(data) < DATA_OVERHEAD:
            raise MalformedError("length")
        self.data = data
        self.sender = sender
        self.level = level
        number, stable, first_message, count, order_size = _DATA.unpack_from(data, HEADER_SIZE)
        self.number: int = number
        self.stable: int = stable
        self.first_message: int = first_message
        self.count: int = count
        self.order_size: int = order_size
        self.order = b""
        self.ordered = bool(flags & ORDERED)
        self.stamp: list[tuple[int, int]] = []
        """The vector entries of the order section, as the stack read it."""
        self.acks: Acks | None = None
        self.fragment_index = 0
        self.fragment_total = 0
        self.body = 0
        self.delivered = False
        self._head = b""
        self._messages: list[bytes] = []

    def take_messages(self, size: int) -> list[bytes]:
        """The payloads, once; `size` is that of all together. Where they are long, the packet holds on to them and lets
        its bytes go."""
        messages = cut_messages(self.data, self.body, self.count)
        if size >= LONG_BYTES * self.count:
            self._head = self.data[: self.body + LENGTH_SIZE * self.count]
            self._messages = messages.copy()
            self.data = b""
        return messages

    def copy(self) -> bytes:
        """The bytes as they were sent."""
        return self.data or self._head + b"".join(self._messages)

    def messages(self) -> list[bytes]:
        """The payloads. Lengths were checked on arrival."""
        return cut_messages(self.data, self.body, self.count)

    def payload_bytes(self) -> int:
        """Of all messages together."""
        return len(self.data) - self.body - LENGTH_SIZE * self.count

    def fragment(self) -> bytes:
        """The slice of a message that this fragment carries."""
        return self.data[self.body :]


def cut_messages(data: bytes, at: int, count: int) -> list[bytes]:
    """The messages behind a table of `count` lengths that stands at `at`; `table_end` has checked it."""
    position = at + LENGTH_SIZE * count
    result: list[bytes] = []
    if count > 1 and data[at:position] == data[at : at + LENGTH_SIZE] * count:  # all are alike
        length = data[at] | data[at + 1] << 8
        for _ in range(count):
            result.append(data[position : position + length])
            position += length
        return result
    for _ in range(count):
        end = position + (data[at] | data[at + 1] << 8)
        result.append(data[position:end])
        position = end
        at += LENGTH_SIZE
    return result


def lengths_table(payloads: list[bytes]) -> bytes:
    """The table of lengths. Often all are alike."""
    count = len(payloads)
    if not count:
        return b""
    length = len(payloads[0])
    for payload in payloads:
        if len(payload) != length:
            return Struct(f"<{count}H").pack(*[len(payload) for payload in payloads])
    return bytes((length & 0xFF, length >> 8)) * count


def table_end(data: bytes, table: int, count: int) -> int:
    """Where the last payload must end, by the table of lengths."""
    payloads = table + LENGTH_SIZE * count
    if count > 1 and data[table:payloads] == data[table : table + LENGTH_SIZE] * count:
        return payloads + count * (data[table] | data[table + 1] << 8)
    end = payloads
    at = table
    while at < payloads:
        end += data[at] | data[at + 1] << 8
        at += LENGTH_SIZE
    return end


def encode_data(
    stack: int,
    group: int,
    tag: int,
    sender: int,
    level: int,
    number: int,
    stable: int,
    first_message: int,
    order: bytes,
    acks: Acks | None,
    payloads: list[bytes],
    flags: int = 0,
) -> bytes:
    """A data packet of whole messages; `flags` are the stack's."""
    count = len(payloads)
    parts = [_DATA.pack(number, stable, first_message, count, len(order)), order]
    if acks is not None:
        flags |= ACKS
        parts.append(acks.encode())
    parts.append(lengths_table(payloads))
    parts.extend(payloads)
    return seal(stack, DATA, group, tag, sender, flags, level, parts)


def encode_fragment(
    stack: int,
    group: int,
    tag: int,
    sender: int,
    level: int,
    number: int,
    stable: int,
    message: int,
    order: bytes,
    acks: Acks | None,
    index: int,
    total: int,
    slice: bytes,
    flags: int = 0,
) -> bytes:
    """A data packet with fragment `index` of the `total` that make up one message."""
    parts = [_DATA.pack(number, stable, message, 1, len(order)), _FRAGMENT.pack(index, total), order]
    flags |= FRAGMENT
    if acks is not None:
        flags |= ACKS
        parts.append(acks.encode())
    parts.append(slice)
    return seal(stack, DATA, group, tag, sender, flags, level, parts)


def decode_data(data: bytes, sender: int, flags: int, level: int) -> DataPacket:
    """Take a data packet apart. Raises MalformedError where lengths do not add up."""
    packet = DataPacket(data, sender, flags, level)
    decode_body(packet, flags)
    return packet


def decode_body(packet: DataPacket, flags: int) -> None:
    """Take apart what follows the head. Raises MalformedError where lengths do not add up."""
    data = packet.data
    count = packet.count
    order_size = packet.order_size
    position = DATA_OVERHEAD
    if flags & FRAGMENT:
        if len(data) < position + _FRAGMENT_SIZE:
            raise MalformedError("length")
        packet.fragment_index, packet.fragment_total = _FRAGMENT.unpack_from(data, position)
        position += _FRAGMENT_SIZE
        if packet.fragment_index >= packet.fragment_total or count != 1:
            raise MalformedError("fragment")
    if order_size:
        if len(data) < position + order_size:
            raise MalformedError("length")
        packet.order = data[position : position + order_size]
        position += order_size
    if flags & ACKS:
        packet.acks, position = _decode_acks(data, position)
    packet.body = position
    if not flags & FRAGMENT:
        if (count == 0 and not flags & ORDERED) or len(data) < position + LENGTH_SIZE * count:
            raise MalformedError("length")
        if table_end(data, position, count) != len(data):
            raise MalformedError("length")
    if not 0 < packet.first_message <= NUMBER_MAX or not 0 < packet.number <= NUMBER_MAX:
        raise MalformedError("number")


def encode_status(stack: int, group: int, tag: int, sender: int, stable: int, acks: Acks, ask: bool) -> bytes:
    """What I have, and whether I want to know what you have."""
    return seal(stack, STATUS, group, tag, sender, ASK if ask else 0, 0, [_STATUS.pack(stable), acks.encode()])


def decode_status(data: bytes) -> tuple[int, Acks]:
    """The stability number and the acks of a status packet."""
    if len(data) < HEADER_SIZE + _STATUS_SIZE:
        raise MalformedError("length")
    stable = int(_STATUS.unpack_from(data, HEADER_SIZE)[0])
    acks, position = _decode_acks(data, HEADER_SIZE + _STATUS_SIZE)
    if position != len(data):
        raise MalformedError("length")
    return stable, acks


def encode_request(stack: int, group: int, tag: int, sender: int, stream: int, ranges: list[tuple[int, int]]) -> bytes:
    """Ask for packets of the member with rank `stream`."""
    parts = [_REQUEST.pack(stream, len(ranges))]
    for first, last in ranges:
        parts.append(_RANGE.pack(first, last))
    return seal(stack, REQUEST, group, tag, sender, 0, 0, parts)


def decode_request(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """The stream and the ranges asked for."""
    if len(data) < HEADER_SIZE + _REQUEST_SIZE:
        raise MalformedError("length")
    stream, count = _REQUEST.unpack_from(data, HEADER_SIZE)
    position = HEADER_SIZE + _REQUEST_SIZE
    if count > RANGES_MAX or position + _RANGE_SIZE * int(count) != len(data):
        raise MalformedError("length")
    ranges: list[tuple[int, int]] = []
    for _ in range(count):
        first, last = _RANGE.unpack_from(data, position)
        position += _RANGE_SIZE
        ranges.append((int(first), int(last)))
    return int(stream), ranges
