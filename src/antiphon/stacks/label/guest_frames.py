"""Frames of the link between a guest and its door, and the packets by which they find each other.

knock      packet KNOCK: address of the guest; with the flag COME back: address to dial
guest ──▶ door
  HELLO    group u64
  MESSAGE  view u64 | number u64 | level u8 | label u8, bytes | destinations u16, (incarnation u64, name u8, bytes)
           each | payload
  NUDGE    view u64: what was handed to another door in this view may have left or not; please end the view
  PING     0 u64: please answer with SETTLED
door ──▶ guest
  VIEW     id u64 | before u64 | last u64 | known u8 | members u16, (incarnation u64, name u8, bytes, address u16,
           bytes) each: the door is in this view, all messages of the guest up to `before` were delivered in earlier
           ones, and those up to `last` need not be sent again in it
  SETTLED  number u64: all up to this one were delivered by all their destinations
  REFUSED  reason: the door takes nothing more of this guest
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX, ProcessId, View
from antiphon.kernel.levels import ABCAST, CAUSAL_TOTAL
from antiphon.stacks.label.guest_queue import GuestMessage
from antiphon.stacks.label.guests import decode_identity, encode_identity
from antiphon.stacks.label.item import LABEL_BYTES_MAX

COME: Final = 1
ADDRESS_BYTES_MAX: Final = 300
MEMBERS_MAX: Final = 2000

HELLO: Final = 1
MESSAGE: Final = 2
NUDGE: Final = 3
PING: Final = 4
VIEW: Final = 1
SETTLED: Final = 2
REFUSED: Final = 3

_NUMBER: Final = Struct("<BQ")
_MESSAGE: Final = Struct("<BQQBB")
_COUNT: Final = Struct("<H")
_VIEW: Final = Struct("<BQQQBH")


def decode_address(data: bytes) -> str:
    """The address in a knock. Raises MalformedError."""
    return _text(data[HEADER_SIZE:], ADDRESS_BYTES_MAX)


def _text(data: bytes, bytes_max: int) -> str:
    if not 0 < len(data) <= bytes_max:
        raise MalformedError("length")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MalformedError("text") from None


def encode_number(kind: int, number: int) -> bytes:
    """A HELLO, NUDGE, PING or SETTLED."""
    return _NUMBER.pack(kind, number)


def decode_number(frame: bytes) -> int:
    """What a HELLO, NUDGE, PING or SETTLED says. Raises MalformedError."""
    if len(frame) != _NUMBER.size:
        raise MalformedError("length")
    return int(_NUMBER.unpack(frame)[1])


def encode_message(message: GuestMessage, view_id: int) -> bytes:
    label = message.label.encode()
    parts = [_MESSAGE.pack(MESSAGE, view_id, message.number, message.level, len(label)), label]
    parts.append(_COUNT.pack(len(message.destinations)))
    parts += [encode_identity(process) for process in message.destinations]
    parts.append(message.payload)
    return b"".join(parts)


def decode_message(frame: bytes, guest: ProcessId) -> tuple[int, GuestMessage]:
    """The view that a message is for, and itself. Raises MalformedError."""
    if len(frame) < _MESSAGE.size:
        raise MalformedError("length")
    _, view_id, number, level, length = _MESSAGE.unpack_from(frame)
    start = _MESSAGE.size + int(length)
    if not 0 < number <= NUMBER_MAX or level > ABCAST or level == CAUSAL_TOTAL or (length and level != ABCAST):
        raise MalformedError("message")
    if len(frame) < start + _COUNT.size:
        raise MalformedError("length")
    label = _text(frame[_MESSAGE.size : start], LABEL_BYTES_MAX) if length else ""
    count = int(_COUNT.unpack_from(frame, start)[0])
    start += _COUNT.size
    destinations: list[ProcessId] = []
    for _ in range(count):
        process, start = decode_identity(frame, start)
        destinations.append(process)
    message = GuestMessage(guest, int(number), int(level), label, tuple(destinations), frame[start:])
    return int(view_id), message


@final
class GuestView:
    """What a door tells of its view."""

    __slots__ = ("before", "is_known", "last", "view")

    def __init__(self, view: View, before: int, last: int, is_known: bool) -> None:
        self.view = view
        self.before = before
        """The last message of the guest that was delivered before this view…"""
        self.last = last
        """…and the last that need not be sent again in this view."""
        self.is_known = is_known
        """Whether the table of the view has the guest."""


def encode_view(told: GuestView) -> bytes:
    view = told.view
    parts = [_VIEW.pack(VIEW, view.id, told.before, told.last, 1 if told.is_known else 0, len(view.members))]
    for rank, member in enumerate(view.members):
        address = view.addresses[rank].encode() if rank < len(view.addresses) else b""
        parts += [encode_identity(member), _COUNT.pack(len(address)), address]
    return b"".join(parts)


def decode_view(frame: bytes) -> GuestView:
    """Raises MalformedError."""
    if len(frame) < _VIEW.size:
        raise MalformedError("length")
    _, view_id, before, last, is_known, count = _VIEW.unpack_from(frame)
    if count > MEMBERS_MAX or not 0 < view_id <= NUMBER_MAX or max(before, last) > NUMBER_MAX:
        raise MalformedError("view")
    start = _VIEW.size
    members: list[ProcessId] = []
    addresses: list[str] = []
    for _ in range(count):
        member, start = decode_identity(frame, start)
        if len(frame) < start + _COUNT.size:
            raise MalformedError("length")
        length = int(_COUNT.unpack_from(frame, start)[0])
        start += _COUNT.size
        if len(frame) < start + length:
            raise MalformedError("length")
        members.append(member)
        addresses.append(_text(frame[start : start + length], ADDRESS_BYTES_MAX) if length else "")
        start += length
    view = View(int(view_id), tuple(members), tuple(addresses))
    return GuestView(view, int(before), int(last), bool(is_known))


def encode_refusal(reason: str) -> bytes:
    return bytes([REFUSED]) + reason.encode()


def decode_refusal(frame: bytes) -> str:
    return frame[1:1000].decode(errors="replace")
