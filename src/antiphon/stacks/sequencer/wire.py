"""The frames between clients and sequencers: tables 1 and 2 of kindberg-1995, in bytes.

Each frame opens with its kind. Numbers are little-endian; `u8`, `u32` and `u64` have that many bits. A text is `u8
length | UTF-8`. A group stands as the 64-bit number of its name, but where it is new to the other end.

kind          from      carries
RESUME        client    the groups here that it is in, with what it has delivered of each, and the seat that it was sent
                        to; the first frame
CREATE        client    a name
JOIN          client    a name, the number of its last message there, its clock, and the groups it is in or asks to join
LEAVE         client    a group, and the groups it is in or asks to join
CONTEXT       client    its clock, and the entries of its context that have risen since it last told this peer
MULTICAST     client    a group, up to which number own messages to it need no place any more, those to other groups
                        without a place, by group and number, the members to which it sends the same by itself, and
                        consecutive messages: first number, level, payloads
NUMBERED      client    a group, the number of an own message to it, the last place of those up to it (none: 0), and a
                        stamp
PROBE         client    a tag and a stamp, to which the peer raises its clock
FETCH         client    a group, and the first and last number of what is missing
REPLAY        client    a group that it is in, and the first and last number of what was placed before (replay.py)
RECEIVED      client    for each of some groups, up to which number it has delivered everything
ADDRESS       client    at which address it takes bodies (bodies.py)
QUIT          client    that it is excluded elsewhere and does nothing more
WELCOME       peer      whether it is alone; the answer to RESUME
TICK          peer      the tag of a probe, and the peer's clock: every later place has a higher stamp
CREATED       peer      a group
NO_GROUP      peer      the group of a request that does not exist
CHANGE        peer      a place in the order at which members change: group, number, stamp, context, members, who came
                        or went
ACCEPT        peer      a place with consecutive messages of one sender: group, number, stamp, context, messages
ORDER         peer      a place as in ACCEPT, without the messages: their first number, level, count and size in bytes
MEMBERS       peer      of a group: members, and the addresses at which they take bodies
ACKNOWLEDGE   peer      that a sender's messages to a group have a place, up to a number; the last place, and the clock
STABLE        peer      for each of some groups, up to which number everything is group-stable
EXCLUDED      peer      a group of which the client is no member any more, or never was
REPLAYED      peer      of a group: whether this is the last of it, the first number that is kept, and places
WAITING       peer      a group that cannot be joined yet, and the address of the peer that is waited for
MOVED         peer      a group, and the address of the peer at which it is, and after "#" the seat, if it has seats;
                        none while the group is on its way there

Between clients (bodies.py), by a link that the sender has dialled:
BODIES        the first frame of the link
BODY          a group, and consecutive messages, as in MULTICAST

Between peers (mesh.py), the one that asks has dialled:
PEER_HELLO    its address; the first frame of each link
LOCATE        a group, and whether it is to be created if it is nowhere; LOCATED has its address
RELOCATED     groups that are at the peer that says so, and how often each has moved
GIVEN         groups that the peer that says so has given away: how often each has moved, and where it went
PULL          a group that is to be moved to the peer that says so, with those that must stay with it
TRANSFER      groups; TRANSFERRED says that they were taken over
SEARCH        a client and a group; SEARCHED says whether the group owes the client anything
FORGET        a group that no peer holds
FIND          a group that is in doubt (location_table.py); FOUND says how often it has moved and where it is, if it is
              there or was passed on from there
REPORTED      a group that has moved, a client, and up to which number it has delivered everything
LOAD          what all groups of the peer that says so cost a second
STABLE        as to clients, for groups that the other peer's clients may name

Between peers that are replicated (seat_host.py), by the link that the sender has dialled:
HOST_HELLO    its address and its life; the first frame of each link
SEAT_LOG      a seat, and a message about its log (seat_log.py)
SEAT_FRAMES   frames from one seat to another
SEAT_DOWN     that a way between two seats is closed
SEAT_LED      the seats that the sender leads

To clients of such peers:
PEERS         the addresses of all peers; the first frame of each link

A link carries frames of limited length. A longer one is sent in pieces, each with one byte in front that says whether
more follow; so is a short one, in a single piece. Bodies are most of what a sequencer moves, so they are copied as
seldom as can be: a frame is joined once, with that byte (`carried`), and read where it lies, behind it.
"""

from struct import Struct, pack, unpack_from
from typing import Final, final

from antiphon.kernel.calls import FRAME_BYTES_MAX
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, is_name
from antiphon.stacks.sequencer.context import Context

RESUME: Final = 1
CREATE: Final = 2
JOIN: Final = 3
LEAVE: Final = 4
MULTICAST: Final = 5
FETCH: Final = 6
RECEIVED: Final = 7
CREATED: Final = 8
NO_GROUP: Final = 9
CHANGE: Final = 10
ACCEPT: Final = 11
ACKNOWLEDGE: Final = 12
STABLE: Final = 13
EXCLUDED: Final = 14
MOVED: Final = 15
CONTEXT: Final = 16
NUMBERED: Final = 17
PROBE: Final = 18
TICK: Final = 19
WELCOME: Final = 20
QUIT: Final = 21
PEERS: Final = 22
REPLAY: Final = 23
REPLAYED: Final = 24
BODIES: Final = 25
BODY: Final = 26
ORDER: Final = 27
ADDRESS: Final = 28
MEMBERS: Final = 29
WAITING: Final = 30
PEER_HELLO: Final = 32
LOCATE: Final = 33
LOCATED: Final = 34
RELOCATED: Final = 35
PULL: Final = 36
TRANSFER: Final = 37
TRANSFERRED: Final = 38
SEARCH: Final = 39
SEARCHED: Final = 40
FORGET: Final = 41
LOAD: Final = 42
REPORTED: Final = 43
GIVEN: Final = 44
FIND: Final = 45
FOUND: Final = 46
HOST_HELLO: Final = 48
SEAT_LOG: Final = 49
SEAT_FRAMES: Final = 50
SEAT_DOWN: Final = 51
SEAT_LED: Final = 52

PIECE_BYTES_MAX: Final = min(FRAME_BYTES_MAX, 256 * 1024) - 1
MESSAGES_MAX: Final = 1024
"""Consecutive messages in one frame."""
_LAST: Final = b"\0"
_MORE: Final = b"\1"
_U8: Final = Struct("<B")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_PAIR: Final = Struct("<QQ")
_HEAD: Final = Struct("<QBI")
_VARIED: Final = (1 << 32) - 1
"""In place of the size of each message: they have different ones, which follow."""


def pieces(frame: bytes) -> list[bytes]:
    """What a link carries for one frame."""
    return _cut(_LAST + frame)


def carried(kind: int, *parts: bytes) -> list[bytes]:
    """What a link carries for a frame of these parts."""
    return _cut(b"".join([_LAST, _U8.pack(kind), *parts]))


def carried_with(kind: int, head: bytes, data: bytes, start: int) -> list[bytes]:
    """What a link carries for a frame of a head, and of all that stands in `data` from `start` on."""
    return _cut(b"".join([_LAST, _U8.pack(kind), head, memoryview(data)[start:]]))


def _cut(marked: bytes) -> list[bytes]:
    """The pieces of a frame that has the mark of a last piece in front."""
    if len(marked) <= PIECE_BYTES_MAX + 1:
        return [marked]
    starts = list(range(1, len(marked), PIECE_BYTES_MAX))
    return [(_LAST if start == starts[-1] else _MORE) + marked[start : start + PIECE_BYTES_MAX] for start in starts]


@final
class FrameAssembler:
    """Puts the pieces of one link together again."""

    __slots__ = ("_bytes", "_bytes_max", "_parts")

    def __init__(self, frame_bytes_max: int) -> None:
        self._bytes_max = frame_bytes_max
        self._parts: list[bytes] = []
        self._bytes = 0

    def take(self, piece: bytes) -> bytes | None:
        """A frame that is complete with this piece, behind one byte, or None. Raises MalformedError for one that is too
        long."""
        if not piece:
            raise MalformedError("frame")
        is_last = piece[0] == 0
        if is_last and not self._parts:
            return piece
        self._parts.append(piece[1:] if self._parts else piece)
        self._bytes += len(piece)
        if self._bytes > self._bytes_max:
            raise MalformedError("frame")
        if not is_last:
            return None
        frame = b"".join(self._parts)
        self._parts, self._bytes = [], 0
        return frame


# ---- writing -------------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    encoded = value.encode()
    return _U8.pack(len(encoded)) + encoded


def process_bytes(process: ProcessId) -> bytes:
    return text(process.name) + _U64.pack(process.incarnation)


def processes_bytes(processes: list[ProcessId]) -> bytes:
    return _U32.pack(len(processes)) + b"".join([process_bytes(process) for process in processes])


def pairs_bytes(pairs: Context) -> bytes:
    """Numbers by group: contexts, and what is received or stable."""
    return _U32.pack(len(pairs)) + b"".join([_PAIR.pack(group, number) for group, number in pairs.items()])


def groups_bytes(groups: list[int]) -> bytes:
    return _U32.pack(len(groups)) + b"".join([_U64.pack(group) for group in groups])


def frame(kind: int, *parts: bytes) -> bytes:
    return _U8.pack(kind) + b"".join(parts)


def blob(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def u64(value: int) -> bytes:
    return _U64.pack(value)


def messages_parts(number: int, level: int, payloads: list[bytes], sizes: list[int]) -> list[bytes]:
    """Consecutive messages of one sender, of these sizes, to be joined. At most MESSAGES_MAX."""
    count, size = len(payloads), sizes[0]
    head = _HEAD.pack(number, level, count)
    if sizes.count(size) == count:
        return [head, _U32.pack(size), *payloads]
    return [head, _U32.pack(_VARIED), pack(f"<{count}I", *sizes), *payloads]


# ---- reading -------------------------------------------------------------------------------------------------------


@final
class FrameReader:
    """Reads one frame from front to back. Raises MalformedError where it does not hold what is asked for."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self._offset = offset

    def _take(self, size: int) -> int:
        start = self._offset
        if start + size > len(self._data):
            raise MalformedError("frame")
        self._offset = start + size
        return start

    def u8(self) -> int:
        return self._data[self._take(1)]

    def u32(self) -> int:
        return int(_U32.unpack_from(self._data, self._take(4))[0])

    def group(self) -> int:
        """A group; any 64 bits."""
        return int(_U64.unpack_from(self._data, self._take(8))[0])

    def number(self) -> int:
        """A count, a sequence number or an incarnation."""
        value = self.group()
        if value > NUMBER_MAX:
            raise MalformedError("number")
        return value

    def count(self, size_min: int) -> int:
        """How many things follow, each of at least this size."""
        count = self.u32()
        if count * size_min > len(self._data) - self._offset:
            raise MalformedError("frame")
        return count

    def text(self) -> str:
        size = self.u8()
        start = self._take(size)
        try:
            return self._data[start : start + size].decode()
        except UnicodeDecodeError:
            raise MalformedError("text") from None

    def process(self) -> ProcessId:
        name = self.text()
        if not is_name(name):
            raise MalformedError("name")
        return ProcessId(name, self.number())

    def processes(self) -> list[ProcessId]:
        return [self.process() for _ in range(self.count(9))]

    def groups(self) -> list[int]:
        return [self.group() for _ in range(self.count(8))]

    def pairs(self) -> Context:
        found: Context = {}
        for _ in range(self.count(16)):
            group = self.group()
            found[group] = self.number()
        return found

    def payloads(self) -> list[bytes]:
        count = self._count_messages()
        size = self.u32()
        data = self._data
        if size != _VARIED:
            start = self._take(count * size)
            return [data[start + size * place : start + size * (place + 1)] for place in range(count)]
        found = []
        for size in self._sizes(count):
            start = self._take(size)
            found.append(data[start : start + size])
        return found

    def pass_payloads(self) -> int:
        """How many payloads stand here; they are passed over."""
        count = self._count_messages()
        size = self.u32()
        self._take(sum(self._sizes(count)) if size == _VARIED else count * size)
        return count

    def _count_messages(self) -> int:
        count = self.u32()
        if not 0 < count <= MESSAGES_MAX:
            raise MalformedError("messages")
        return count

    def _sizes(self, count: int) -> list[int]:
        return list(unpack_from(f"<{count}I", self._data, self._take(4 * count)))

    def whole(self) -> bytes:
        """The frame, from its beginning."""
        return self._data

    def position(self) -> int:
        """Where in the frame the next thing stands."""
        return self._offset

    def blob(self) -> bytes:
        size = self.u32()
        start = self._take(size)
        return self._data[start : start + size]

    def is_empty(self) -> bool:
        """Whether all has been read."""
        return self._offset >= len(self._data)

    def rest(self) -> bytes:
        """All that has not been read."""
        return self._data[self._offset :]
