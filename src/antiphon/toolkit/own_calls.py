"""The calls of one copy of a replicated object that have not been executed yet: packed, numbered, and timed.

What is called in one turn of the event loop goes out as one pack, of PACK_CALLS_MAX calls or PACK_BYTES_MAX bytes at
most. One timer serves all calls: they all have the same time, so they fail in the order in which they were made.

Limit: CALLS_MAX calls; wait while it `is_full`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

CALLS_MAX: Final = 16_384
PACK_CALLS_MAX: Final = 1024
PACK_BYTES_MAX: Final = 64 * 1024

SendPack = Callable[[int, list[msgspec.Raw]], None]
"""Sends a pack: the number of its first call, and the calls."""


class OwnCalls:
    """Calls that wait for their execution, by number."""

    def __init__(self, timeout_s: float, send: SendPack, explain: Callable[[], str]) -> None:
        self.open: dict[int, asyncio.Future[Any]] = {}
        self._timeout_s = timeout_s
        self._send = send
        self._explain = explain
        self._number = 0
        self._outbox: list[bytes] = []
        self._deadlines: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more calls may be made for now."""
        return len(self.open) >= CALLS_MAX

    def issue(self, payload: bytes) -> asyncio.Future[Any]:
        """Have a call sent; its result comes when it is resolved, or TimeoutError."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._number += 1
        future = self.open[self._number] = loop.create_future()
        if not self._outbox:
            loop.call_soon(self._flush)
        self._outbox.append(payload)
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].done():
            deadlines.popleft()
        deadlines.append((loop.time() + self._timeout_s, future))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._expire)
        return future

    def take(self, number: int) -> asyncio.Future[Any] | None:
        """Remove and return a call that was executed; None if it was forgotten."""
        return self.open.pop(number, None)

    def forget(self) -> list[asyncio.Future[Any]]:
        """Remove and return all calls; those that were not sent are not sent any more."""
        self._outbox.clear()
        forgotten = list(self.open.values())
        self.open.clear()
        return forgotten

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        """Send what was called in this turn."""
        calls, self._outbox = self._outbox, []
        first = self._number - len(calls) + 1
        pack: list[msgspec.Raw] = []
        size = 0
        for payload in calls:
            if pack and (size + len(payload) > PACK_BYTES_MAX or len(pack) == PACK_CALLS_MAX):
                self._send(first, pack)
                first += len(pack)
                pack, size = [], 0
            pack.append(msgspec.Raw(payload))
            size += len(payload)
        if pack:
            self._send(first, pack)

    def _expire(self) -> None:
        """Fail the calls that have waited for too long."""
        self._timer = None
        assert self._loop is not None
        while self._deadlines:
            deadline_s, future = self._deadlines[0]
            if not future.done():
                if deadline_s > self._loop.time():
                    self._timer = self._loop.call_at(deadline_s, self._expire)
                    return
                why = f"the call has not returned in {self._timeout_s:g} s, and may still be executed"
                resolve(future, None, TimeoutError(f"{why}: {self._explain()}"))
            self._deadlines.popleft()


def resolve(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    """Give a call its result or its error, unless its caller waits no more."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
