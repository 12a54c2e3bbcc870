"""Several things to say in one message: what is offered until the next message goes out goes out with it.

A pack is length u32 | payload, again and again. It takes as much as goes into a packet, and at least one payload.
"""

from collections import deque
from struct import Struct
from typing import Final, final

from antiphon.kernel.errors import UsageError

PACK_BYTES_MAX: Final = 1000
"""A pack of more than one is not longer, so that it goes into one packet with its predecessors."""
_LENGTH: Final = Struct("<I")
_LENGTH_SIZE: Final = 4


def pack(payloads: list[bytes]) -> bytes:
    return b"".join([_LENGTH.pack(len(payload)) + payload for payload in payloads])


def unpack(data: bytes) -> list[bytes]:
    """Return the payloads of a pack; none if it is malformed."""
    payloads: list[bytes] = []
    position = 0
    while position + _LENGTH_SIZE <= len(data):
        end = position + _LENGTH_SIZE + int(_LENGTH.unpack_from(data, position)[0])
        payloads.append(data[position + _LENGTH_SIZE : end])
        position = end
    return payloads if position == len(data) else []


@final
class PackQueue:
    """The payloads that were offered and not sent yet."""

    __slots__ = ("_bytes", "_limit", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def all(self) -> list[bytes]:
        """Return what waits."""
        return list(self._waiting)

    def has_room(self) -> bool:
        return len(self._waiting) < self._limit

    def put(self, payload: bytes) -> None:
        if not self.has_room():
            raise UsageError(f"{self._limit} messages wait to be sent; wait until they have gone out")
        self._waiting.append(payload)
        self._bytes += _LENGTH_SIZE + len(payload)

    def is_full_pack(self) -> bool:
        """Return whether the queue fills a message, so that another payload might not fit."""
        return self._bytes >= PACK_BYTES_MAX * 3 // 4

    def take(self) -> list[bytes]:
        """Remove and return the payloads of the next message."""
        taken: list[bytes] = []
        size = 0
        while self._waiting:
            size += _LENGTH_SIZE + len(self._waiting[0])
            if taken and size > PACK_BYTES_MAX:
                break
            payload = self._waiting.popleft()
            self._bytes -= _LENGTH_SIZE + len(payload)
            taken.append(payload)
        return taken
