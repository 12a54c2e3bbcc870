"""The packets of a conversation, inside the kernel's outer layer (psync-1989, Figures 3, 4, 5 and 10).

The outer layer names the conversation (`group`: its cid), a digest of its participants (`tag`), and the participant
that sends the packet.

AN  add node             own life u64 | sender u16 | number u64 | life u64 | form u8 | predecessors u16
                         | (rank u16, number u64) each | body
                         Flag RESENT: whoever has it already sends back what follows it. Flag ANSWER: it was asked for,
                         or sent back; nothing more is. The sender of the message need not be that of the packet: any
                         host may resend any message that it holds. `own life` is the incarnation of whoever sends the
                         packet, `life` that of the sender of the message; `form` is SAID for what the application says,
                         else it is a message that the conversation itself needs.
SC  start conversation   own life u64 | participants u16
                         | (incarnation u64, name length u16, address length u16, name, address) each
                         | an AN's fields from `sender` on: the first message, of participant 0
                         Flag KEPT: everybody keeps what was said, so that whoever fails can come back.
RR  retransmission       wanted: rank u16, number u64 (0: none) | leaves u16 | (rank u16, number u64) each
    request              resend what lies between these leaves and the wanted message, exclusive; all that follows the
                         leaves if none is wanted; all there is if there are no leaves
RS  restart              life u64 | own life u64 | leaves u16 | addresses u16 | (rank u16, number u64) each
                         | (rank u16, life u64, length u16, address) each
                         The outer layer tells who is back, in which life. Flag HEARD: to whoever is back in this life,
                         by somebody who is back itself and has no answer yet. Flag ANSWER: the same, and the leaves of
                         the image here. Flag GONE: to one who was removed in this life. Flag FORKED: whoever sends the
                         packet has another message under the number of the one leaf, which it has of `life`. Flag
                         FORGOTTEN: what the receiver lacks is not here any more. `own life` is that of whoever sends
                         the packet; the addresses are of participants that came back elsewhere, in these lives.
part of an AN            own life u64 | sender u16 | number u64 | life u64 | size u32 | step u32 | index u32 | bytes
                         `step` bytes, from `index` times `step` on, of an AN's fields from `sender` on, which are
                         `size` bytes long
request for parts        sender u16 | number u64 | life u64 | size u32 | step u32 | ranges u16
                         | (first u32, last u32) each

Decoding checks lengths and ranks; what the numbers may be is for the image to judge.
"""

from struct import Struct
from typing import Final, final

from antiphon.kernel.codec import HEADER_SIZE, seal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NAME_BYTES_MAX, NUMBER_MAX, ProcessId, is_name
from antiphon.kernel.packet_kinds import ADD, ASK, ASK_PARTS, PART, RESTART, START
from antiphon.parts.message_graph import PARTICIPANTS_MAX, GraphPacket, Mid
from antiphon.stacks.conversation.offers import NUMBER

KINDS: Final = (START, ADD, ASK, RESTART, PART, ASK_PARTS)

RESENT: Final = 1
KEPT: Final = 2
ANSWER: Final = 4
HEARD: Final = 8
GONE: Final = 16
FORKED: Final = 32
FORGOTTEN: Final = 64

SAID: Final = 0
"""The application's."""
OPENING: Final = 1
"""The first message of a conversation whose opener's own first message does not fit beside the participants."""
REMOVAL: Final = 2
"""About who takes part (removal.py)."""
NOTED: Final = 3
"""The application's, but not for it to say again when it runs again: an acknowledgement, say."""

_OWN_LIFE: Final = Struct("<Q")
BODY_AT: Final = HEADER_SIZE + 8
"""Where a packet with a message has what follows the life of whoever sends it."""
_ADD: Final = Struct("<HQQBH")
_ADD_SIZE: Final = 21
_MID: Final = Struct("<HQ")
MID_SIZE: Final = 10
_COUNT: Final = Struct("<H")
_COUNT_SIZE: Final = 2
_PARTICIPANT: Final = Struct("<QHH")
_PARTICIPANT_SIZE: Final = 12
ADDRESS_BYTES_MAX: Final = 200
_LIFE: Final = Struct("<QQHH")
_LIFE_SIZE: Final = 20
_MOVED: Final = Struct("<HQH")
_MOVED_SIZE: Final = 12
_PART: Final = Struct("<HQQIII")
_PART_SIZE: Final = 30
_ASK_PARTS: Final = Struct("<HQQIIH")
_ASK_PARTS_SIZE: Final = 28
_RANGE: Final = Struct("<II")
_RANGE_SIZE: Final = 8
RANGES_MAX: Final = 32

ADD_OVERHEAD: Final = BODY_AT + _ADD_SIZE
PART_OVERHEAD: Final = BODY_AT + _PART_SIZE


@final
class Added(GraphPacket):
    """A message as it came: its sender, its number and its immediate predecessors; `section` holds all its bytes, for
    whoever asks for it again."""

    __slots__ = ("answers", "form", "life", "resent", "section")

    def __init__(
        self,
        section: bytes,
        sender: int,
        number: int,
        predecessors: list[Mid],
        resent: bool,
        life: int = 0,
        form: int = SAID,
        answers: bool = False,
    ) -> None:
        super().__init__(sender, number, predecessors)
        self.section = section
        self.resent = resent
        """The application of whoever sent the packet thinks that something was lost."""
        self.answers = answers
        """It was asked for, or may have been missed."""
        self.life = life
        self.form = form

    def mid(self) -> Mid:
        return (self.sender, self.number)


def payload_start(section: bytes) -> int:
    """Return where the payload of the application begins in a section."""
    return payload_start_after(int(_ADD.unpack_from(section)[4]))


def payload_start_after(predecessors: int) -> int:
    """Return where the payload begins behind this many predecessors."""
    return _ADD_SIZE + MID_SIZE * predecessors


def payload_of(section: bytes) -> bytes:
    """Return the payload of the application."""
    return section[payload_start(section) :]


def form_of(section: bytes) -> int:
    """Return the kind of a message; SAID where its body is gone."""
    return int(_ADD.unpack_from(section)[3]) if section else SAID


def life_of(section: bytes) -> int:
    """Return the incarnation in which its sender sent a message."""
    return int(_ADD.unpack_from(section)[2])


def _mids(mids: list[Mid]) -> bytes:
    return b"".join([_MID.pack(rank, number) for rank, number in mids])


def _read_mids(data: bytes, position: int, count: int, participants: int) -> list[Mid]:
    """Return the message ids that follow. Raises MalformedError if there are too few, or one names nobody."""
    if count > participants or len(data) < position + MID_SIZE * count:
        raise MalformedError("length")
    mids: list[Mid] = []
    for _ in range(count):
        rank, number = _MID.unpack_from(data, position)
        position += MID_SIZE
        if rank >= participants or not 0 < number <= NUMBER_MAX:
            raise MalformedError("predecessor")
        mids.append((int(rank), int(number)))
    return mids


def section(
    sender: int, number: int, predecessors: list[Mid], payload: bytes, life: int = 0, form: int = SAID
) -> bytes:
    """Return the bytes of a message, the same in every packet that carries it."""
    return _ADD.pack(sender, number, life, form, len(predecessors)) + _mids(predecessors) + payload


def encode_add(conversation: int, tag: int, via: int, section: bytes, flags: int, life: int = 0) -> bytes:
    """Return the packet in which participant `via`, in this life, sends a message, its own or that of another."""
    return seal(NUMBER, ADD, conversation, tag, via, flags, 0, [_OWN_LIFE.pack(life), section])


def life_of_packet(data: bytes) -> int:
    """Return the incarnation of whoever sent a packet with a message. Raises MalformedError."""
    if len(data) < BODY_AT:
        raise MalformedError("length")
    life = int(_OWN_LIFE.unpack_from(data, HEADER_SIZE)[0])
    if life > NUMBER_MAX:
        raise MalformedError("number")
    return life


def decode_add(data: bytes, flags: int, participants: int, position: int = BODY_AT) -> Added:
    """Return the message of a packet. Raises MalformedError."""
    if len(data) < position + _ADD_SIZE:
        raise MalformedError("length")
    sender, number, life, form, count = _ADD.unpack_from(data, position)
    predecessors = _read_mids(data, position + _ADD_SIZE, count, participants)
    if sender >= participants or not 0 < number <= NUMBER_MAX or life > NUMBER_MAX:
        raise MalformedError("number")
    resent, answers = bool(flags & RESENT), bool(flags & ANSWER)
    return Added(data[position:], int(sender), int(number), predecessors, resent, int(life), int(form), answers)


def read_section(said: bytes, participants: int, flags: int = 0) -> Added:
    """Return a message, read from its section. Raises MalformedError."""
    return decode_add(said, flags, participants, 0)


def participants_section(participants: list[ProcessId], addresses: list[str]) -> bytes:
    """Return the participants and their addresses in bytes, which stand in front of the first message of a
    conversation."""
    parts = [_COUNT.pack(len(participants))]
    for process, address in zip(participants, addresses, strict=True):
        name, where = process.name.encode(), address.encode()
        parts.append(_PARTICIPANT.pack(process.incarnation, len(name), len(where)) + name + where)
    return b"".join(parts)


def encode_start(
    conversation: int, tag: int, via: int, participants: bytes, section: bytes, flags: int, life: int = 0
) -> bytes:
    """Return the packet of the first message of a conversation."""
    return seal(NUMBER, START, conversation, tag, via, flags, 0, [_OWN_LIFE.pack(life), participants, section])


def decode_start(data: bytes, flags: int) -> tuple[list[ProcessId], list[str], Added]:
    """Return the participants, their addresses, and the first message. Raises MalformedError."""
    processes, addresses, position = read_participants(data, BODY_AT)
    return processes, addresses, decode_add(data, flags, len(processes), position)


def read_participants(data: bytes, position: int) -> tuple[list[ProcessId], list[str], int]:
    """Return the participants, their addresses, and where these end. Raises MalformedError."""
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
        if not is_name(name) or not address.isprintable() or incarnation > NUMBER_MAX:
            raise MalformedError("participants")
        processes.append(ProcessId(name, int(incarnation)))
        addresses.append(address)
        position = end
    if len(set(processes)) != count:
        raise MalformedError("participants")
    return processes, addresses, position


def encode_ask(conversation: int, tag: int, via: int, wanted: Mid | None, leaves: list[Mid]) -> bytes:
    """Return the packet that asks for what lies between the own leaves and the messages that are wanted."""
    parts = [_MID.pack(*(wanted or (0, 0))), _COUNT.pack(len(leaves)), _mids(leaves)]
    return seal(NUMBER, ASK, conversation, tag, via, 0, 0, parts)


def decode_ask(data: bytes, participants: int) -> tuple[Mid | None, list[Mid]]:
    """Return the messages that are wanted, and the leaves of the asker. Raises MalformedError."""
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


@final
class Restarted:
    """The announcement of a restart: the new incarnation, the incarnation of the sender, the leaves of its replica, and
    who came back elsewhere."""

    __slots__ = ("leaves", "life", "moved", "own_life")

    def __init__(
        self, life: int, own_life: int, leaves: list[Mid], moved: list[tuple[int, int, str]] | None = None
    ) -> None:
        self.life = life
        self.own_life = own_life
        self.leaves = leaves
        self.moved = moved or []
        """Rank, life and address."""


def encode_restart(conversation: int, tag: int, via: int, flags: int, said: Restarted) -> bytes:
    """Return the packet that announces the restart of this participant, or answers such a packet."""
    parts = [_LIFE.pack(said.life, said.own_life, len(said.leaves), len(said.moved)), _mids(said.leaves)]
    for rank, life, address in said.moved:
        where = address.encode()
        parts.append(_MOVED.pack(rank, life, len(where)) + where)
    return seal(NUMBER, RESTART, conversation, tag, via, flags, 0, parts)


def decode_restart(data: bytes, participants: int) -> Restarted:
    """Return the announcement of a packet. Raises MalformedError."""
    if len(data) < HEADER_SIZE + _LIFE_SIZE:
        raise MalformedError("length")
    life, own_life, count, moved_count = _LIFE.unpack_from(data, HEADER_SIZE)
    leaves = _read_mids(data, HEADER_SIZE + _LIFE_SIZE, count, participants)
    moved = _read_moved(data, HEADER_SIZE + _LIFE_SIZE + MID_SIZE * int(count), moved_count, participants)
    if max(life, own_life) > NUMBER_MAX:
        raise MalformedError("number")
    return Restarted(int(life), int(own_life), leaves, moved)


def _read_moved(data: bytes, position: int, count: int, participants: int) -> list[tuple[int, int, str]]:
    """Return rank, life and address of those that moved, which end the packet. Raises MalformedError."""
    if count > participants:
        raise MalformedError("length")
    moved: list[tuple[int, int, str]] = []
    for _ in range(count):
        if len(data) < position + _MOVED_SIZE:
            raise MalformedError("length")
        rank, life, size = _MOVED.unpack_from(data, position)
        position += _MOVED_SIZE
        if rank >= participants or life > NUMBER_MAX or size > ADDRESS_BYTES_MAX or len(data) < position + size:
            raise MalformedError("participants")
        try:
            address = data[position : position + size].decode()
        except UnicodeDecodeError:
            raise MalformedError("participants") from None
        if not address.isprintable():
            raise MalformedError("participants")
        moved.append((int(rank), int(life), address))
        position += size
    if len(data) != position:
        raise MalformedError("length")
    return moved


@final
class Slicing:
    """How a message was cut up: its id, `size` bytes, slices of `step` bytes."""

    __slots__ = ("life", "mid", "size", "step")

    def __init__(self, mid: Mid, life: int, size: int, step: int) -> None:
        self.mid = mid
        self.life = life
        self.size = size
        self.step = step

    def slices(self) -> int:
        return -(-self.size // self.step)

    def is_like(self, other: "Slicing") -> bool:
        return self.life == other.life and self.size == other.size and self.step == other.step


def encode_part(
    conversation: int, tag: int, via: int, slicing: Slicing, index: int, section: bytes, flags: int, life: int = 0
) -> bytes:
    """Return the packet of one slice of a message."""
    start = index * slicing.step
    head = _PART.pack(*slicing.mid, slicing.life, slicing.size, slicing.step, index)
    part = section[start : start + slicing.step]
    return seal(NUMBER, PART, conversation, tag, via, flags, 0, [_OWN_LIFE.pack(life), head, part])


def decode_part(data: bytes, participants: int) -> tuple[Slicing, int, bytes]:
    """Return how the message was cut up, the index of the slice, and its bytes. Raises MalformedError."""
    if len(data) < PART_OVERHEAD:
        raise MalformedError("length")
    sender, number, life, size, step, index = _PART.unpack_from(data, BODY_AT)
    slicing = _slicing(sender, number, life, size, step, participants)
    part = data[PART_OVERHEAD:]
    if index >= slicing.slices() or len(part) != min(slicing.step, slicing.size - index * slicing.step):
        raise MalformedError("fragment")
    return slicing, int(index), part


def encode_ask_parts(conversation: int, tag: int, via: int, slicing: Slicing, ranges: list[tuple[int, int]]) -> bytes:
    """Return the packet that asks for slices of a message, each range from its first to its last."""
    head = _ASK_PARTS.pack(*slicing.mid, slicing.life, slicing.size, slicing.step, len(ranges))
    return seal(NUMBER, ASK_PARTS, conversation, tag, via, 0, 0, [head, *[_RANGE.pack(*pair) for pair in ranges]])


def decode_ask_parts(data: bytes, participants: int) -> tuple[Slicing, list[tuple[int, int]]]:
    """Return how the message was cut up, and the ranges of slices that are wanted. Raises MalformedError."""
    position = HEADER_SIZE + _ASK_PARTS_SIZE
    if len(data) < position:
        raise MalformedError("length")
    sender, number, life, size, step, count = _ASK_PARTS.unpack_from(data, HEADER_SIZE)
    slicing = _slicing(sender, number, life, size, step, participants)
    if count > RANGES_MAX or len(data) != position + _RANGE_SIZE * int(count):
        raise MalformedError("length")
    ranges: list[tuple[int, int]] = []
    for _ in range(count):
        first, last = _RANGE.unpack_from(data, position)
        position += _RANGE_SIZE
        if first > last or last >= slicing.slices():
            raise MalformedError("fragment")
        ranges.append((int(first), int(last)))
    return slicing, ranges


def _slicing(sender: int, number: int, life: int, size: int, step: int, participants: int) -> Slicing:
    if sender >= participants or number == 0 or life > NUMBER_MAX:
        raise MalformedError("number")
    if step == 0 or size == 0:
        raise MalformedError("fragment")
    return Slicing((int(sender), int(number)), int(life), int(size), int(step))
