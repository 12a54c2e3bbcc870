"""The way out: messages that the application has sent and the engine has not yet taken.

The first message of a turn of the event loop goes into the engine at once. Whatever else is sent in that turn follows
in one step, as one burst, which travels under as few headers as it fits: nothing waits when there is little to send,
and packets are full when there is much. What is sent while a step is being carried out, by a listener for one, goes in
when that step is done, as one burst too. A sender waits when the outbox is full, and the outbox stays full while the
engine's own queue is: so the network's pace reaches the application. What is in the outbox is accepted and leaves in
the order it came.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from antiphon.kernel.errors import MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId

MESSAGES_MAX: Final = 4096
BYTES_MAX: Final = 1024 * 1024
"""At either limit the outbox is full. One message may pass it by its own length, so that a long one can go at all."""
NOT_MEASURED: Final = -1


@dataclass(frozen=True, slots=True)
class SendMode:
    """How messages are to go: at a level to all members or to `destination` alone, or as barriers."""

    level: int
    destination: ProcessId | None = None
    barrier: bool = False


def measure(payloads: Sequence[object], size_max: int) -> int:
    """The bytes of these messages together. Raises where one cannot be sent."""
    size = 0
    for payload in payloads:
        if not isinstance(payload, bytes):
            raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
        if len(payload) > size_max:
            raise MessageTooLargeError(len(payload), size_max)
        size += len(payload)
    return size


@final
class OutboxRun:
    """Messages to go one way, and their bytes."""

    __slots__ = ("payloads", "size", "way")

    def __init__(self, way: SendMode, payloads: list[bytes], size: int) -> None:
        self.way = way
        self.payloads = payloads
        self.size = size


Offer = Callable[[list[bytes], SendMode], int]
"""Offers payloads, to go one way, to the engine, which takes so many of them from the front."""
Afterwards = Callable[[Callable[[], None]], bool]
"""If the engine is in the middle of a step: calls something when that is done. Else false, and nothing is called."""


@final
class Outbox:
    """Runs of payloads, each to go one way, first in first out."""

    def __init__(self, offer: Offer, afterwards: Afterwards) -> None:
        self.messages = 0
        self._taken = 0
        """How many messages the engine has taken since the start."""
        self._bytes = 0
        self._offer = offer
        self._afterwards = afterwards
        self._loop = asyncio.get_running_loop()
        self._runs: deque[OutboxRun] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drains: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits until so many have been taken."""
        self._scheduled = False
        self._flushing = False
        self._blocked = False
        """The engine has taken less than it was offered, and will tell when it has room."""

    async def wait(self) -> None:
        """Until there may be room: look again then, others wait too. Raises what `fail` is given."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:  # cancelled; else it was taken out when it was woken
                self._waiters.remove(waiter)

    async def drain(self) -> None:
        """Until the engine has taken what is in here now. Raises what `fail` is given."""
        if not self.messages:
            return
        entry = (self._taken + self.messages, self._loop.create_future())
        self._drains.append(entry)
        try:
            await entry[1]
        finally:
            self._drains.remove(entry)

    def put(self, payloads: Sequence[bytes], way: SendMode, size: int = NOT_MEASURED) -> int:
        """Take messages from the front while there is room; how many. `size`: the bytes of all of them."""
        taken: list[bytes] = []
        if size >= 0 and self.messages + len(payloads) <= MESSAGES_MAX and self._bytes + size <= BYTES_MAX:
            taken = list(payloads)
        else:
            size = 0
            for payload in payloads:
                if self.messages + len(taken) >= MESSAGES_MAX or self._bytes + size >= BYTES_MAX:
                    break
                taken.append(payload)
                size += len(payload)
        if not taken:
            return 0
        last = self._runs[-1] if self._runs else None
        if last is not None and last.way == way and not way.barrier:  # of those, one is an offer
            last.payloads.extend(taken)
            last.size += size
        else:
            self._runs.append(OutboxRun(way, taken, size))
        self.messages += len(taken)
        self._bytes += size
        if not self._blocked:
            self._schedule()
        return len(taken)

    def unblock(self) -> None:
        """The engine has room again."""
        self._blocked = False
        self._schedule()

    def fail(self, error: Exception) -> None:
        """Everyone who waits gets `error`."""
        for waiter in (*self._waiters, *(waiter for _, waiter in self._drains)):
            if not waiter.done():
                waiter.set_exception(error)
        self._waiters.clear()

    def _schedule(self) -> None:
        if not self._scheduled and self._runs:
            self._scheduled = True
            if not self._afterwards(self._end_turn):
                self._loop.call_soon(self._end_turn)
                self._flush()

    def _end_turn(self) -> None:
        self._scheduled = False
        self._flush()

    def _flush(self) -> None:
        if self._flushing:
            return  # called by what an offer set off; whoever made that offer goes on
        self._flushing = True
        try:
            self._offer_all()
        finally:
            self._flushing = False
        for taken, waiter in self._drains:
            if taken <= self._taken and not waiter.done():
                waiter.set_result(None)
        if self.messages < MESSAGES_MAX and self._bytes < BYTES_MAX:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def _offer_all(self) -> None:
        while self._runs and not self._blocked:
            run = self._runs.popleft()
            self._blocked = True  # and `unblock` may come within the offer, when the engine sends at once what it took
            count = self._offer(run.payloads, run.way)
            self.messages -= count
            self._taken += count
            if count == len(run.payloads):
                self._blocked = False
                self._bytes -= run.size
            else:
                for payload in run.payloads[:count]:
                    run.size -= len(payload)
                    self._bytes -= len(payload)
                run.payloads = run.payloads[count:]
                self._runs.appendleft(run)
