"""Messages that the services of one group exchange inside the group.

The first byte of a payload tells whose it is: APPLICATION, then the application's bytes; or OWN, then one of the
structures below in MessagePack. A payload with any other first byte, or that cannot be decoded, was sent by a program
that does not use the toolkit: it is counted and dropped.
"""

from typing import Final

import msgspec

from antiphon import ProcessId

APPLICATION: Final = b"\0"
OWN: Final = b"\1"

WireProcess = tuple[str, int]
"""Name and incarnation of a process."""


class Ask(msgspec.Struct, tag="ask", array_like=True, frozen=True):
    """A request to all members. `number` identifies it among the requests of its sender."""

    number: int
    wants_reply: bool
    payload: bytes


class Ping(msgspec.Struct, tag="ping", array_like=True, frozen=True):
    """To all members: reply with an empty Answer when the application is done with all that came before."""

    number: int


class Answer(msgspec.Struct, tag="answer", array_like=True, frozen=True):
    """One member's reply, to the sender of the request alone: the handler's result, or the reason why there is none."""

    number: int
    payload: bytes
    error: str


class SnapshotOffer(msgspec.Struct, tag="offer", array_like=True, frozen=True):
    """To a member that lacks the state: a snapshot can be fetched at `address` by presenting `token`."""

    address: str
    token: bytes


class Again(msgspec.Struct, tag="again", array_like=True, frozen=True):
    """To the provider: the transfer failed, offer another snapshot."""


class Lacking(msgspec.Struct, tag="lacking", array_like=True, frozen=True):
    """To all members: the sender has no state in this view."""

    view_id: int


class Complete(msgspec.Struct, tag="complete", array_like=True, frozen=True):
    """To all members: the sender has the state now and can provide it."""


class Relayed(msgspec.Struct, tag="relayed", array_like=True, frozen=True):
    """Message `number` of a client, multicast by its gateway. `to`: the one server that acts on it; None: all do."""

    client: str
    number: int
    payload: bytes
    to: WireProcess | None = None


class Diffused(msgspec.Struct, tag="diffused", array_like=True, frozen=True):
    """To all members, and to the clients of all gateways."""

    payload: bytes


class ToClient(msgspec.Struct, tag="to_client", array_like=True, frozen=True):
    """To one client, through whichever gateway serves it; `request` is the number of the client's message."""

    client: str
    request: int
    payload: bytes


class Addressed(msgspec.Struct, tag="addressed", array_like=True, frozen=True):
    """To one member, on a stack that sends every message to all: `payload` is what `to` gets, and the others drop."""

    to: WireProcess
    payload: bytes


Own = Addressed | Ask | Ping | Answer | SnapshotOffer | Again | Lacking | Complete | Relayed | Diffused | ToClient

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Own)


def encode(message: Own) -> bytes:
    """Return `message` as the payload of a group message."""
    return OWN + _ENCODER.encode(message)


def decode(payload: bytes) -> Own | bytes | None:
    """Return the toolkit's message in `payload`, or the application's bytes, or None if it holds neither."""
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
    """Return `process` as it is encoded."""
    return (process.name, process.incarnation)


def from_wire(process: WireProcess) -> ProcessId:
    """Return the process that `to_wire` encoded."""
    return ProcessId(process[0], process[1])
