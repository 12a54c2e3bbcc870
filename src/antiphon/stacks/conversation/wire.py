"""The packets of a conversation, inside the kernel's outer layer (psync-1989, Figures 3, 4, 5 and 10).

The outer layer names the conversation (`group`: its cid), a digest of its participants (`tag`), and the participant
that sends the packet.

AN  add node             sender u16 | number u64 | predecessors u16 | (rank u16, number u64) each | body
                         Flag RESENT: whoever has it already sends back what follows it. The sender of the message
                         need not be that of the packet: any host may resend any message that it holds.
SC  start conversation   participants u16 | (incarnation u64, name length u16, address length u16, name, address) each
                         | an AN's fields: the first message, of participant 0
RR  retransmission       wanted: rank u16, number u64 (0: none) | leaves u16 | (rank u16, number u64) each
    request              resend what lies between these leaves and the wanted message, exclusive; all that follows the
                         leaves if none is wanted; all there is if there are no leaves
RS  restart              nothing: the outer layer tells who is back

Decoding checks lengths and ranks; what the numbers may be is for the image to judge.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NAME_BYTES_MAX, ProcessId
from antiphon.parts.message_graph import PARTICIPANTS_MAX, Mid

START: Final = 7
ADD: Final = 8
ASK: Final = 9
RESTART: Final = 10

RESENT: Final = 1

_ADD: Final = Struct("<HQH")
_ADD_SIZE: Final = 12
_MID: Final = Struct("<HQ")
MID_SIZE: Final = 10
_COUNT: Final = Struct("<H")
_COUNT_SIZE: Final = 2
_PARTICIPANT: Final = Struct("<QHH")
_PARTICIPANT_SIZE: Final = 12
ADDRESS_BYTES_MAX: Final = 200

ADD_OVERHEAD: Final = HEADER_SIZE + _ADD_SIZE


@final
class Added:
    """A message as it came: who sent it, its number and its immediate predecessors; `section` is all that was said of
    it, for whoever asks for it again."""

    __slots__ = ("number", "predecessors", "resent", "section", "sender")

    def __init__(self, section: bytes, sender: int, number: int, predecessors: list[Mid], resent: bool) -> None:
        self.section = section
        self.sender = sender
        self.number = number
        self.predecessors = predecessors
        self.resent = resent


def payload_start(section: bytes) -> int:
    """Where in a section that begins what the application said."""
    return payload_start_after(int(_ADD.unpack_from(section)[2]))


def payload_start_after(predecessors: int) -> int:
    """The same for so many predecessors."""
    return _ADD_SIZE + MID_SIZE * predecessors


def payload_of(section: bytes) -> bytes:
    """What the application said."""
    return section[payload_start(section) :]


def _mids(mids: list[Mid]) -> bytes:
    return b"".join([_MID.pack(rank, number) for rank, number in mids])


def _read_mids(data: bytes, position: int, count: int, participants: int) -> list[Mid]:
    """Raises MalformedError where there are not so many, or one names nobody."""
    if count > participants or len(data) < position + MID_SIZE * count:
        raise MalformedError("length")
    mids: list[Mid] = []
    for _ in range(count):
        rank, number = _MID.unpack_from(data, position)
        position += MID_SIZE
        if rank >= participants or number == 0:
            raise MalformedError("predecessor")
        mids.append((int(rank), int(number)))
    return mids


def section(sender: int, number: int, predecessors: list[Mid], payload: bytes) -> bytes:
    """What is said of a message, the same in every packet that carries it."""
    return _ADD.pack(sender, number, len(predecessors)) + _mids(predecessors) + payload


def encode_add(conversation: int, tag: int, via: int, section: bytes, resent: bool) -> bytes:
    """A message, sent by participant `via`, be it its own or another's."""
    return seal(ADD, conversation, tag, via, RESENT if resent else 0, 0, [section])


def decode_add(data: bytes, flags: int, participants: int, position: int = HEADER_SIZE) -> Added:
    """Raises MalformedError."""
    if len(data) < position + _ADD_SIZE:
        raise MalformedError("length")
    sender, number, count = _ADD.unpack_from(data, position)
    predecessors = _read_mids(data, position + _ADD_SIZE, count, participants)
    if sender >= participants or number == 0:
        raise MalformedError("number")
    return Added(data[position:], int(sender), int(number), predecessors, bool(flags & RESENT))


def participants_section(participants: list[ProcessId], addresses: list[str]) -> bytes:
    """Who takes part, and where they are: what the first message of a conversation carries in front of itself."""
    parts = [_COUNT.pack(len(participants))]
    for process, address in zip(participants, addresses, strict=True):
        name, where = process.name.encode(), address.encode()
        parts.append(_PARTICIPANT.pack(process.incarnation, len(name), len(where)) + name + where)
    return b"".join(parts)


def encode_start(conversation: int, tag: int, via: int, participants: bytes, section: bytes, resent: bool) -> bytes:
    """The first message of a conversation."""
    return seal(START, conversation, tag, via, RESENT if resent else 0, 0, [participants, section])


def decode_start(data: bytes, flags: int) -> tuple[list[ProcessId], list[str], Added]:
    """Who takes part, where they are, and the first message. Raises MalformedError."""
    position = HEADER_SIZE
    if len(data) < position + _COUNT_SIZE:
        raise MalformedError("length")
    count = int(_COUNT.unpack_from(data, position)[0])
    position += _COUNT_SIZE
    if not 0 < count <= PARTICIPANTS_MAX:
        raise MalformedError("participants")
    processes: list[ProcessId] = []
    addresses: list[str] = []
    for _ in range(count):
        if len(data) < position + _PARTICIPANT_SIZE:
            raise MalformedError("length")
        incarnation, name_size, address_size = _PARTICIPANT.unpack_from(data, position)
        position += _PARTICIPANT_SIZE
        end = position + name_size + address_size
        if name_size > NAME_BYTES_MAX or address_size > ADDRESS_BYTES_MAX or len(data) < end:
            raise MalformedError("participants")
        try:
            name = data[position : position + name_size].decode()
            address = data[position + name_size : end].decode()
        except UnicodeDecodeError:
            raise MalformedError("participants") from None
        processes.append(ProcessId(name, int(incarnation)))
        addresses.append(address)
        position = end
    if len(set(processes)) != count:
        raise MalformedError("participants")
    return processes, addresses, decode_add(data, flags, count, position)


def encode_ask(conversation: int, tag: int, via: int, wanted: Mid | None, leaves: list[Mid]) -> bytes:
    """Ask for what lies between the leaves and what is wanted."""
    parts = [_MID.pack(*(wanted or (0, 0))), _COUNT.pack(len(leaves)), _mids(leaves)]
    return seal(ASK, conversation, tag, via, 0, 0, parts)


def decode_ask(data: bytes, participants: int) -> tuple[Mid | None, list[Mid]]:
    """What is wanted, and the leaves that are there. Raises MalformedError."""
    position = HEADER_SIZE
    if len(data) < position + MID_SIZE + _COUNT_SIZE:
        raise MalformedError("length")
    rank, number = _MID.unpack_from(data, position)
    count = int(_COUNT.unpack_from(data, position + MID_SIZE)[0])
    position += MID_SIZE + _COUNT_SIZE
    leaves = _read_mids(data, position, count, participants)
    if len(data) != position + MID_SIZE * count or rank >= participants:
        raise MalformedError("length")
    return (int(rank), int(number)) if number else None, leaves


def encode_restart(conversation: int, tag: int, via: int) -> bytes:
    """Tell everybody that this participant is back."""
    return seal(RESTART, conversation, tag, via, 0, 0, [])
