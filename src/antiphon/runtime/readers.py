"""The two ways to read a stream: message by message, or in batches.

These stay plain Python where the rest is compiled: `async for` is quickest with coroutines of its own kind. A reader
asks the stream to make it wait only when there is nothing to take.
"""

import asyncio
from contextvars import ContextVar
from typing import Final, Self

from antiphon.runtime.events import BatchEvent, StreamEvent
from antiphon.runtime.stream import Stream

CALLER: Final[ContextVar[object]] = ContextVar("antiphon_caller", default=None)
"""Whoever has a task made for each of its calls, as a plain thread has; else the task itself is the caller."""


def caller() -> object:
    """Who is calling: tells whether the one that sends is the one that reads."""
    return CALLER.get() or asyncio.current_task()


class MessageReader:
    """Iterates over single messages, view changes and their like."""

    __slots__ = ("_prepared", "_stream")

    def __init__(self, stream: Stream, skipped: str = "") -> None:
        self._stream = stream
        stream.attach(self, skipped)
        self._prepared = stream.prepared

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._prepared:
            return self._prepared.pop()
        stream = self._stream
        stream.reading = caller()
        if not stream.is_ready(self):
            await stream.ready(self)
        return stream.take_message()


class BatchReader:
    """Iterates over batches, view changes and their like."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream, skipped: str = "") -> None:
        self._stream = stream
        stream.attach(self, skipped)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchEvent:
        stream = self._stream
        stream.reading = caller()
        if not stream.is_ready(self):
            await stream.ready(self)
        return stream.take_batch()
