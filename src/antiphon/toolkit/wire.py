"""What a client and its gateway tell each other, one message to a frame.

client ──▶ gateway    Hello, then Multicast…
gateway ──▶ client    Welcome, then Diffusion…, Accepted…, or Refused with the reason and no more
"""

from typing import Final

import msgspec

from antiphon.toolkit.messages import WireProcess


class Hello(msgspec.Struct, tag="hello", array_like=True, frozen=True):
    """Who I am, what I know to be done, and what I have seen."""

    group: str
    client: str
    accepted: int
    """All messages of mine up to this one are at all members."""
    is_new: bool
    """I have seen nothing, and want what comes from now on."""
    position: list[tuple[WireProcess, int]]
    """Of each server, the last diffused message that I have."""


class Multicast(msgspec.Struct, tag="multicast", array_like=True, frozen=True):
    """My message `number`, for all servers."""

    number: int
    order: str
    payload: bytes


class Welcome(msgspec.Struct, tag="welcome", array_like=True, frozen=True):
    """You are served here. `missed`: some of what you have not seen is no longer to be had."""

    missed: bool
    position: list[tuple[WireProcess, int]]
    """Where you stand now, not counting what follows."""


class DiffusionFrame(msgspec.Struct, tag="diffusion", array_like=True, frozen=True):
    """A message for all clients."""

    sender: WireProcess
    number: int
    payload: bytes


class StableUpTo(msgspec.Struct, tag="accepted", array_like=True, frozen=True):
    """All messages of yours up to this one are at all members."""

    number: int


class Refused(msgspec.Struct, tag="refused", array_like=True, frozen=True):
    """You are not served, for this reason."""

    why: str


FromClient = Hello | Multicast
FromGateway = Welcome | DiffusionFrame | StableUpTo | Refused

_ENCODER: Final = msgspec.msgpack.Encoder()
from_client: Final = msgspec.msgpack.Decoder(FromClient)
from_gateway: Final = msgspec.msgpack.Decoder(FromGateway)


def encode(message: FromClient | FromGateway) -> bytes:
    return _ENCODER.encode(message)
