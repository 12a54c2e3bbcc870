"""Events that were read from the group and that the application has not taken yet, up to a limit of either kind."""

import asyncio
import logging
from collections import deque
from typing import Final

from antiphon import Barrier, Message
from antiphon.toolkit.channel import GroupEvent
from antiphon.toolkit.messages import Own

EVENTS_MAX: Final = 16_384
BYTES_MAX: Final = 64 * 1024 * 1024

log: Final = logging.getLogger("antiphon")

Entry = tuple[GroupEvent, Own | bytes | None]
"""An event, and what its payload holds if it has one."""


class Inbox:
    """First in, first out; one puts, one takes."""

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: deque[Entry] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._error: Exception | None = None
        self._finished = False

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= self._events_max or self._bytes >= self._bytes_max

    def put(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._bytes += _size(entry)
        self._arrived.set()

    async def room(self) -> None:
        """Until it is not full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def take(self) -> Entry:
        """The first entry. At the end StopAsyncIteration, or what `finish` was given. Cancelled, it has taken none."""
        while not self._entries:
            if self._error is not None:
                raise self._error
            if self._finished:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        entry = self._entries.popleft()
        self._bytes -= _size(entry)
        self._room.set()
        return entry

    def drop(self) -> list[tuple[Message | Barrier, Own | bytes | None]]:
        """Drop and return the messages to all; what tells of views stays, and what went to this member alone, unless
        that alone fills the inbox."""
        dropped: list[tuple[Message | Barrier, Own | bytes | None]] = []
        kept: deque[Entry] = deque()
        for event, content in self._entries:
            if isinstance(event, Barrier) or (isinstance(event, Message) and not event.private):
                dropped.append((event, content))
            else:
                kept.append((event, content))
        self._entries = kept
        self._bytes = sum(map(_size, kept))
        if self.is_full:
            log.warning("%d messages to this member alone are dropped: it has no state yet, and no room", len(kept))
            self._entries = deque(entry for entry in kept if not isinstance(entry[0], Message))
            self._bytes = 0
        return dropped

    def finish(self, error: Exception | None) -> None:
        """Nothing more will come."""
        self._finished = True
        self._error = error
        self._arrived.set()


def _size(entry: Entry) -> int:
    return len(entry[0].payload) if isinstance(entry[0], Message) else 0
