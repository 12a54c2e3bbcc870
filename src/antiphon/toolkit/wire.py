"""Frames between a client and its gateway, one structure each.

client ──▶ gateway    Hello, then Multicast… and Sync…
gateway ──▶ client    Welcome, then DiffusionFrame…, ReplyFrame…, StableUpTo…, Servers…, Synced…;
                      or Refused with the reason, after which the connection is closed
"""

from typing import Final

import msgspec

from antiphon.toolkit.messages import WireProcess

Position = list[tuple[WireProcess, int]]
"""For each server, the number of its last message for clients."""


class Hello(msgspec.Struct, tag="hello", array_like=True, frozen=True):
    """The client's identity and how far it has come."""

    group: str
    client: str
    accepted: int
    """All messages of the client up to this number are at all members."""
    is_new: bool
    """The client has received nothing so far and wants what is diffused from now on."""
    position: Position
    """What the client has received."""


class Multicast(msgspec.Struct, tag="multicast", array_like=True, frozen=True):
    """The client's message `number`, for all servers, or for the server `to` alone."""

    number: int
    order: str
    payload: bytes
    to: WireProcess | None = None


class Sync(msgspec.Struct, tag="sync", array_like=True, frozen=True):
    """Answer with Synced when the applications of all members are done with all that the client sent and received."""

    number: int


class Welcome(msgspec.Struct, tag="welcome", array_like=True, frozen=True):
    """The gateway serves the client."""

    missed: bool
    """Some messages that the client has not received are no longer in the gateway's log."""
    position: Position
    """The client's position now; what follows comes after it."""
    servers: list[WireProcess] = []
    """The members of the group, the oldest first."""


class DiffusionFrame(msgspec.Struct, tag="diffusion", array_like=True, frozen=True):
    """A message for all clients."""

    sender: WireProcess
    number: int
    payload: bytes


class ReplyFrame(msgspec.Struct, tag="reply", array_like=True, frozen=True):
    """A message for this client alone, in reply to its message `request`."""

    sender: WireProcess
    number: int
    request: int
    payload: bytes


class StableUpTo(msgspec.Struct, tag="accepted", array_like=True, frozen=True):
    """All messages of the client up to `number` are at all members. Also the heartbeat."""

    number: int
    position: Position = []
    """Where the client's position moved because messages were for other clients only."""


class Servers(msgspec.Struct, tag="servers", array_like=True, frozen=True):
    """The group has a new view with these members, the oldest first."""

    servers: list[WireProcess]


class Synced(msgspec.Struct, tag="synced", array_like=True, frozen=True):
    """The answer to the Sync of this number."""

    number: int


class Refused(msgspec.Struct, tag="refused", array_like=True, frozen=True):
    """The gateway does not serve the client, for this reason."""

    why: str


FromClient = Hello | Multicast | Sync
FromGateway = Welcome | DiffusionFrame | ReplyFrame | StableUpTo | Servers | Synced | Refused

_ENCODER: Final = msgspec.msgpack.Encoder()
from_client: Final = msgspec.msgpack.Decoder(FromClient)
from_gateway: Final = msgspec.msgpack.Decoder(FromGateway)


def encode(message: FromClient | FromGateway) -> bytes:
    """Return the body of the frame that carries `message`."""
    return _ENCODER.encode(message)
