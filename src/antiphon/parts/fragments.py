"""Putting the fragments of one sender's messages together again.

Fragments are consumed in the sender's order, so at most one message per sender is ever half there, and its next
fragment is the only thing that may follow. Anything else is a peer's mistake: what was there is given up and counted.
"""

from typing import final


@final
class Assembly:
    """The half-received message of one sender."""

    __slots__ = ("_message", "_parts", "_size", "_size_max", "_total")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._message = 0
        self._total = 0
        self._size = 0
        self._parts: list[bytes] = []

    def fits(self, message: int, index: int, total: int) -> bool:
        """Whether this fragment is the one that must come next."""
        if index == 0:
            return not self._parts
        return message == self._message and total == self._total and index == len(self._parts)

    def add(self, message: int, index: int, total: int, part: bytes) -> bool:
        """Take the next fragment; whether it was in place and within the limit."""
        if not self.fits(message, index, total) or self._size + len(part) > self._size_max:
            self.clear()
            return False
        self._message = message
        self._total = total
        self._parts.append(part)
        self._size += len(part)
        return True

    def complete(self) -> bool:
        return bool(self._parts) and len(self._parts) == self._total

    def take(self) -> bytes:
        """The whole message."""
        whole = b"".join(self._parts)
        self.clear()
        return whole

    def is_open(self) -> bool:
        return bool(self._parts)

    def clear(self) -> None:
        self._parts = []
        self._size = 0
        self._total = 0
