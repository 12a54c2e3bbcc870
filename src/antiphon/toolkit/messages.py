"""What services tell each other inside a group, under the first byte OWN; the application's messages go under
APPLICATION. The body is msgpack. Bytes that follow none of this come from a program that speaks to the group without
the toolkit: they are counted and dropped.
"""

from typing import Final

import msgspec

from antiphon import ProcessId

APPLICATION: Final = b"\0"
OWN: Final = b"\1"

WireProcess = tuple[str, int]
"""Name and incarnation."""


class Ask(msgspec.Struct, tag="ask", array_like=True, frozen=True):
    """A request to all members; `number` tells the asker's requests apart."""

    number: int
    wants_reply: bool
    payload: bytes


class Answer(msgspec.Struct, tag="answer", array_like=True, frozen=True):
    """To the asker alone: what the handler gave, or in `error` why there is nothing."""

    number: int
    payload: bytes
    error: str


class SnapshotOffer(msgspec.Struct, tag="offer", array_like=True, frozen=True):
    """To a member without state: a snapshot waits for it at `address`, for whoever knows `token`."""

    address: str
    token: bytes


class Again(msgspec.Struct, tag="again", array_like=True, frozen=True):
    """To the provider: the offer came to nothing; make another."""


class Lacking(msgspec.Struct, tag="lacking", array_like=True, frozen=True):
    """To all: in this view, I still have no state."""

    view_id: int


class Complete(msgspec.Struct, tag="complete", array_like=True, frozen=True):
    """To all: I have the state now, and can provide it."""


class Relayed(msgspec.Struct, tag="relayed", array_like=True, frozen=True):
    """A client's message number `number`, passed on by its gateway."""

    client: str
    number: int
    payload: bytes


class Diffused(msgspec.Struct, tag="diffused", array_like=True, frozen=True):
    """For all members, and for the clients of all gateways."""

    payload: bytes


Own = Ask | Answer | SnapshotOffer | Again | Lacking | Complete | Relayed | Diffused

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Own)


def encode(message: Own) -> bytes:
    return OWN + _ENCODER.encode(message)


def decode(payload: bytes) -> Own | bytes | None:
    """A message of the toolkit, the payload of one of the application, or None: neither."""
    first = payload[:1]
    if first == APPLICATION:
        return payload[1:]
    if first != OWN:
        return None
    try:
        message: Own = _DECODER.decode(memoryview(payload)[1:])
    except msgspec.DecodeError:
        return None
    return message


def to_wire(process: ProcessId) -> WireProcess:
    return (process.name, process.incarnation)


def from_wire(process: WireProcess) -> ProcessId:
    return ProcessId(process[0], process[1])
