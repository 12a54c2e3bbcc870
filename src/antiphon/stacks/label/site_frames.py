"""What travels between a process and its site, and what sites send each other in its place (site.py).

process ──▶ site
  ATTACH    nothing: the first frame of a link
  ENTER     group u64
  LEAVE     group u64
  SEND      ticket u64 | level u8 | label u8, bytes | message
  BARRIER   ticket u64 | group u64 | number u64 | payload
  FLUSH     ticket u64
  TAKEN     bytes u64: so many bytes of frames with messages were handed to the application, all in all
  BEAT      nothing
site ──▶ process
  VIEW      group u64 | id u64 | parent u64 | founded u8 | members, joined, left, failed: processes
  DELIVER   group u64 | view u64 | level u8 | message
  REACHED   group u64 | view u64 | number u64 | sender | payload
  DEPARTED  ticket u64 | view u64: this leaves, in this view of its group
  STABLE    ticket u64: everything up to this one, and all that was delivered before it, is at all sites
  ENDED     group u64 | view u64 | members: the process has left; these go on
  STALLED   nothing: the site is in no majority of sites
  DEAD      reason: the process is dead to its site, and the link ends
  BEAT      nothing

site ──▶ sites, as messages of the group of sites (session.py)
  MESSAGE   message, as it came from its sender
  TABLE     view u64 | size u32 | table (site_groups.py) | state of the cluster (clusters.py)
  WANT      view u64: the site lacks the table
  others    what happens to a cluster (cluster_frames.py)
site ──▶ sites, as GBCASTs: records, one after the other
  record    kind u8 | group u64 | process | number u64 | size u32 | payload; LOSES: the process is a site

  message   group u64 | sender | first number u64 | destinations: processes | messages u16 | sizes u32 each | payloads
  process   incarnation u64 | name u8, bytes        processes   count u16, each

A ticket numbers what a process asks of its site, whatever the group.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.kernel.levels import ABCAST, CAUSAL_TOTAL
from antiphon.stacks.label.guests import decode_identity, encode_identity
from antiphon.stacks.label.item import LABEL_BYTES_MAX

ATTACH: Final = 64
ENTER: Final = 65
LEAVE: Final = 66
SEND: Final = 67
BARRIER: Final = 68
FLUSH: Final = 69
TAKEN: Final = 70
BEAT: Final = 71

VIEW: Final = 1
DELIVER: Final = 2
REACHED: Final = 3
DEPARTED: Final = 4
STABLE: Final = 5
ENDED: Final = 6
STALLED: Final = 7
DEAD: Final = 8

MESSAGE: Final = 1
TABLE: Final = 2
WANT: Final = 3

ENTERS: Final = 1
LEAVES: Final = 2
FAILS: Final = 3
GBCAST: Final = 4
RENEWS: Final = 5
LOSES: Final = 6

MESSAGES_MAX: Final = 1000
"""In one frame."""
PROCESSES_MAX: Final = 10_000
ENVELOPE_BYTES_MAX: Final = 16 * 1024 * 1024
"""By how much what a site sends for a process may be longer than the process's message: sizes and destinations."""

_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")


@final
class SiteReader:
    """Reads one frame from its beginning. Every method raises MalformedError where the frame is too short."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def _take(self, size: int) -> int:
        start = self._at
        if start + size > len(self._data):
            raise MalformedError("length")
        self._at = start + size
        return start

    def u8(self) -> int:
        return self._data[self._take(1)]

    def u16(self) -> int:
        return int(_U16.unpack_from(self._data, self._take(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack_from(self._data, self._take(4))[0])

    def u64(self) -> int:
        """Any number of 64 bits: what stands for a group."""
        return int(_U64.unpack_from(self._data, self._take(8))[0])

    def number(self) -> int:
        """A count, a view, a ticket, or the number of a message."""
        number = self.u64()
        if number > NUMBER_MAX:
            raise MalformedError("number")
        return number

    def blob(self, size: int) -> bytes:
        start = self._take(size)
        return self._data[start : start + size]

    def rest(self) -> bytes:
        return self.blob(len(self._data) - self._at)

    def process(self) -> ProcessId:
        process, self._at = decode_identity(self._data, self._at)
        return process

    def processes(self) -> tuple[ProcessId, ...]:
        count = self.u16()
        if count > PROCESSES_MAX:
            raise MalformedError("count")
        return tuple([self.process() for _ in range(count)])

    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def end(self) -> None:
        """Raise MalformedError if something is left."""
        if not self.is_over():
            raise MalformedError("length")


def encode_processes(processes: tuple[ProcessId, ...]) -> bytes:
    return b"".join([_U16.pack(len(processes)), *[encode_identity(process) for process in processes]])


def encode_frame(kind: int, *numbers: int) -> bytes:
    """A frame that has only numbers of 64 bits."""
    return b"".join([bytes([kind]), *[_U64.pack(number) for number in numbers]])


# ---- messages ------------------------------------------------------------------------------------------------------


@final
class SiteMessage:
    """Consecutive messages of one process to one group."""

    __slots__ = ("destinations", "first", "group", "payloads", "sender")

    def __init__(
        self, group: int, sender: ProcessId, first: int, destinations: tuple[ProcessId, ...], payloads: list[bytes]
    ) -> None:
        self.group = group
        self.sender = sender
        self.first = first
        self.destinations = destinations
        """None: all members."""
        self.payloads = payloads

    def encode(self) -> bytes:
        sizes = [_U32.pack(len(payload)) for payload in self.payloads]
        return b"".join(
            [
                _U64.pack(self.group), encode_identity(self.sender), _U64.pack(self.first),
                encode_processes(self.destinations), _U16.pack(len(sizes)), *sizes, *self.payloads,
            ]
        )  # fmt: skip


def read_message(reader: SiteReader) -> SiteMessage:
    """Raises MalformedError."""
    group, sender, first, destinations = reader.u64(), reader.process(), reader.number(), reader.processes()
    count = reader.u16()
    if not 0 < count <= MESSAGES_MAX or not first:
        raise MalformedError("count")
    sizes = [reader.u32() for _ in range(count)]
    payloads = [reader.blob(size) for size in sizes]
    reader.end()
    return SiteMessage(group, sender, first, destinations, payloads)


def encode_send(ticket: int, level: int, label: str, message: bytes) -> bytes:
    text = label.encode()
    return b"".join([bytes([SEND]), _U64.pack(ticket), bytes([level, len(text)]), text, message])


def read_send(reader: SiteReader) -> tuple[int, int, str, bytes]:
    """Ticket, level, label, and the message as it is passed on. Raises MalformedError."""
    ticket, level = reader.number(), reader.u8()
    label = reader.blob(reader.u8())
    if level > ABCAST or level == CAUSAL_TOTAL or len(label) > LABEL_BYTES_MAX:
        raise MalformedError("level")
    try:
        return ticket, level, label.decode(), reader.rest()
    except UnicodeDecodeError:
        raise MalformedError("text") from None


def encode_barrier(ticket: int, group: int, number: int, payload: bytes) -> bytes:
    return encode_frame(BARRIER, ticket, group, number) + payload


def encode_deliver(group: int, view_id: int, level: int, message: bytes) -> bytes:
    return b"".join([bytes([DELIVER]), _U64.pack(group), _U64.pack(view_id), bytes([level]), message])


def encode_reached(group: int, view_id: int, number: int, sender: ProcessId, payload: bytes) -> bytes:
    return encode_frame(REACHED, group, view_id, number) + encode_identity(sender) + payload


# ---- views ---------------------------------------------------------------------------------------------------------


@final
class GroupChange:
    """The next view of one group."""

    __slots__ = ("failed", "founded", "group", "joined", "left", "parent", "view")

    def __init__(
        self,
        group: int,
        view: View,
        parent: int,
        founded: bool,
        joined: tuple[ProcessId, ...],
        left: tuple[ProcessId, ...],
        failed: tuple[ProcessId, ...],
    ) -> None:
        self.group = group
        self.view = view
        self.parent = parent
        """The id of the view before; 0 for the first."""
        self.founded = founded
        self.joined = joined
        self.left = left
        self.failed = failed

    def encode(self) -> bytes:
        head = encode_frame(VIEW, self.group, self.view.id, self.parent)
        parts = [encode_processes(each) for each in (self.view.members, self.joined, self.left, self.failed)]
        return b"".join([head, bytes([1 if self.founded else 0]), *parts])


def read_change(reader: SiteReader) -> GroupChange:
    """Raises MalformedError."""
    group, view_id, parent, founded = reader.u64(), reader.number(), reader.number(), reader.u8()
    members, joined, left, failed = reader.processes(), reader.processes(), reader.processes(), reader.processes()
    reader.end()
    return GroupChange(group, View(view_id, members), parent, bool(founded), joined, left, failed)


def encode_ended(group: int, view: View) -> bytes:
    return encode_frame(ENDED, group, view.id) + encode_processes(view.members)


# ---- records -------------------------------------------------------------------------------------------------------


@final
class SiteRecord:
    """Something that all sites decide on alike: a change of members, or a GBCAST of a process."""

    __slots__ = ("group", "kind", "number", "payload", "process")

    def __init__(self, kind: int, group: int, process: ProcessId, number: int = 0, payload: bytes = b"") -> None:
        self.kind = kind
        self.group = group
        self.process = process
        self.number = number
        self.payload = payload

    def encode(self) -> bytes:
        head = encode_frame(self.kind, self.group) + encode_identity(self.process)
        return b"".join([head, _U64.pack(self.number), _U32.pack(len(self.payload)), self.payload])


def read_records(data: bytes) -> list[SiteRecord]:
    """Raises MalformedError."""
    reader = SiteReader(data)
    records: list[SiteRecord] = []
    while not reader.is_over():
        kind, group, process, number = reader.u8(), reader.u64(), reader.process(), reader.number()
        if not ENTERS <= kind <= LOSES:
            raise MalformedError("kind")
        records.append(SiteRecord(kind, group, process, number, reader.blob(reader.u32())))
    return records
