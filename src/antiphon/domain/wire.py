"""What members of a domain tell each other about global messages, and relays to relays of other domains: msgpack.

Within a domain, as messages of the group:

LOCAL    a message for this domain alone: the incarnation that called for it, its number among what that incarnation has
         sent to this domain alone, and `after`: how many ordered global messages it had sent before
GLOBAL   a message for several domains, in the same way
IMPORT   frames of another domain that a relay has received
ACKED    a domain has imported so many frames of this one
RELAY    its sender is a relay
STATE    the state of the domain's exports as of the beginning of a view, for those that come into it

Between relays, each behind its length in four bytes: HELLO, then FRAME and ACK.
"""

import struct
from typing import Final

import msgspec

from antiphon.kernel.errors import MalformedError
from antiphon.stacks.domain.export import DomainExports, ExportFrame, GlobalMessage

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
LENGTH: Final = struct.Struct(">I")


class MessageBody(msgspec.Struct, array_like=True):
    origin: str
    place: int
    sender: str
    number: int
    level: int
    domains: tuple[str, ...]
    payload: bytes


class FrameBody(msgspec.Struct, array_like=True):
    origin: str
    destination: str
    counters: list[tuple[str, str, int]]
    kind: int
    id: tuple[str, int]
    message: MessageBody | None


class LocalRecord(msgspec.Struct, array_like=True, tag=0):
    incarnation: int
    number: int
    after: int
    payload: bytes


class GlobalRecord(msgspec.Struct, array_like=True, tag=1):
    incarnation: int
    number: int
    after: int
    level: int
    domains: tuple[str, ...]
    payload: bytes


class ImportRecord(msgspec.Struct, array_like=True, tag=2):
    frames: list[FrameBody]


class AckedRecord(msgspec.Struct, array_like=True, tag=3):
    domain: str
    count: int


class HeldRecord(msgspec.Struct, array_like=True):
    sender: str
    number: int
    after: int
    order: str
    level: int | None
    domains: tuple[str, ...]
    payload: bytes


class DomainState(msgspec.Struct, array_like=True, tag=4):
    view_id: int
    counters: list[tuple[str, str, int]]
    initiated: int
    outbox: list[FrameBody]
    delivered_of: dict[str, int]
    bodies: list[MessageBody]
    order: list[tuple[str, int]]
    held_by: list[tuple[tuple[str, int], list[str]]]
    held: list[HeldRecord]


class RelayHere(msgspec.Struct, array_like=True, tag=5):
    pass


class LinkHello(msgspec.Struct, array_like=True, tag=10):
    domain: str


class LinkFrame(msgspec.Struct, array_like=True, tag=11):
    frame: FrameBody


class LinkAck(msgspec.Struct, array_like=True, tag=12):
    origin: str
    destination: str
    count: int


Record = LocalRecord | GlobalRecord | ImportRecord | AckedRecord | DomainState | RelayHere
LinkMessage = LinkHello | LinkFrame | LinkAck
_ENCODER: Final = msgspec.msgpack.Encoder()
_RECORDS: Final = msgspec.msgpack.Decoder(Record)
_LINKS: Final = msgspec.msgpack.Decoder(LinkMessage)


def encode(message: Record | LinkMessage) -> bytes:
    return _ENCODER.encode(message)


def on_link(message: LinkMessage) -> bytes:
    """With its length in front."""
    data = _ENCODER.encode(message)
    return LENGTH.pack(len(data)) + data


def decode_record(data: bytes) -> Record | None:
    """None if it is none."""
    try:
        record: Record = _RECORDS.decode(data)
    except msgspec.DecodeError:
        return None
    return record


def decode_link(data: bytes) -> LinkMessage:
    try:
        message: LinkMessage = _LINKS.decode(data)
    except msgspec.DecodeError:
        raise MalformedError("link") from None
    return message


def message_body(message: GlobalMessage) -> MessageBody:
    return MessageBody(*message.id, message.sender, message.number, message.level, message.domains, message.payload)


def message_of(body: MessageBody) -> GlobalMessage:
    id = (body.origin, body.place)
    return GlobalMessage(id, body.sender, body.number, body.level, body.domains, body.payload)


def frame_body(frame: ExportFrame) -> FrameBody:
    counters = [(*pair, count) for pair, count in frame.counters.items()]
    message = None if frame.message is None else message_body(frame.message)
    return FrameBody(frame.origin, frame.destination, counters, frame.kind, frame.id, message)


def frame_of(body: FrameBody) -> ExportFrame:
    counters = {(one, other): count for one, other, count in body.counters}
    message = None if body.message is None else message_of(body.message)
    return ExportFrame(body.origin, body.destination, counters, body.kind, body.id, message)


def state_of(exports: DomainExports, view_id: int, held: list[HeldRecord]) -> DomainState:
    """All there is to know of a domain's exports, and what is held back for its senders."""
    bodies, order, held_by = exports.waiting()
    return DomainState(
        view_id,
        [(*pair, count) for pair, count in exports.counters.items()],
        exports.initiated,
        [frame_body(frame) for frames in exports.outbox.values() for frame in frames],
        dict(exports.delivered_of),
        [message_body(message) for message in bodies],
        order,
        held_by,
        held,
    )


def restore(exports: DomainExports, state: DomainState) -> None:
    exports.counters = {(one, other): count for one, other, count in state.counters}
    exports.initiated = state.initiated
    exports.delivered_of = dict(state.delivered_of)
    exports.delivered = []
    for frames in exports.outbox.values():
        frames.clear()
    for body in state.outbox:
        if body.destination in exports.outbox:
            exports.outbox[body.destination].append(frame_of(body))
    exports.restore_waiting([message_of(body) for body in state.bodies], state.order, state.held_by)
