"""The inbox of a service: events that were read from the group and that the application has not taken yet, up to two
limits."""

import asyncio
import logging
from collections import deque
from typing import Final

from antiphon import Barrier, Message, log_event
from antiphon.toolkit.channel import GroupEvent
from antiphon.toolkit.messages import Own

EVENTS_MAX: Final = 16_384
BYTES_MAX: Final = 64 * 1024 * 1024

Entry = tuple[GroupEvent, Own | bytes | None]
"""An event and the decoded payload; None if the event has no payload."""


class Inbox:
    """A first-in-first-out queue with one producer and one consumer."""

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
        """Whether either limit is reached."""
        return len(self._entries) >= self._events_max or self._bytes >= self._bytes_max

    def put(self, entry: Entry) -> None:
        """Append an entry; wait for `room` before."""
        self._entries.append(entry)
        self._bytes += _size(entry)
        self._arrived.set()

    async def room(self) -> None:
        """Wait until the inbox is not full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def take(self) -> Entry:
        """Remove and return the first entry. After the last one raises StopAsyncIteration, or the error that `finish`
        was given. A cancelled call has removed nothing."""
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
        """Remove and return the multicast messages. Events about views stay, and so do messages to this member alone
        unless these alone fill the inbox."""
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
            text = "messages to this member alone: its state is not there yet and its inbox is full"
            log_event(logging.WARNING, "inbox_full", text, dropped=len(kept))
            self._entries = deque(entry for entry in kept if not isinstance(entry[0], Message))
            self._bytes = 0
        return dropped

    def finish(self, error: Exception | None) -> None:
        """End the inbox after its last entry, with `error` if there is one."""
        self._finished = True
        self._error = error
        self._arrived.set()


def _size(entry: Entry) -> int:
    return len(entry[0].payload) if isinstance(entry[0], Message) else 0
