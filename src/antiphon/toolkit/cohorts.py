"""Computations by a coordinator, with cohorts that stand by (isis-1987, 5.2).

    async def price(question: bytes) -> bytes: ...

    cohorts = Cohorts(tools, price)
    async with tools:
        answer = await cohorts.ask(b"IBM")

The rule. A request goes to all members by a causal message. All of them know, from the view in which it is delivered,
who its coordinator is: the member nearest to the caller, which is the caller itself if it is a member. The coordinator
does the work and tells all members the result, by a `safe` message; then the request is closed. If the coordinator is
gone in a view and the request is still open, the nearest of the others is the coordinator, and does the work again.

One coordinator. Members that go from one view to the next have delivered the same messages, so they agree on which
requests are open, and choose alike, without asking each other. The result that counts is the first that is delivered;
since it is `safe`, all members have it when the caller gets it, and no cohort does the work again after that.

What the work may rely on. It is done at least once, and its result is returned once. Work that was under way at a
coordinator that failed may have had effects outside the group: guard these by a token (`locks.py`), or make them such
that they may be repeated. Work on a state that the members share belongs in a resilient object (`resilient.py`).

Live: a request that was delivered stays open until a coordinator that stays has done the work.

Limits: OPEN_MAX requests of one member at a time, then `ask` waits; WORK_MAX pieces of work at one member at a time,
the others wait in their order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from antiphon import Message, MessageTooLargeError, ProcessId, View, log_event
from antiphon.toolkit.errors import WorkError
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tools import Tool, Tools

OPEN_MAX: Final = 1024
WORK_MAX: Final = 64
ERROR_CHARACTERS_MAX: Final = 500

Work = Callable[[bytes], Awaitable[bytes]]
"""Does the work of one request. What it raises is told to the caller, as WorkError."""
Key = tuple[ProcessId, int]
"""The caller of a request, and its number there."""


class _WorkCall(msgspec.Struct, array_like=True, tag="call"):
    number: int
    payload: bytes


class _WorkResult(msgspec.Struct, array_like=True, tag="result"):
    caller: WireProcess
    number: int
    payload: bytes
    error: str


class _WireWork(msgspec.Struct, array_like=True):
    caller: WireProcess
    number: int
    payload: bytes
    place: int
    coordinator: WireProcess


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_WorkCall | _WorkResult)
_STATE: Final = msgspec.msgpack.Decoder(list[_WireWork])


def choose_coordinator(view: View, caller: ProcessId, place: int) -> ProcessId:
    """Return the member nearest to the caller: the caller itself, or, if it is gone, the one whose rank is nearest to
    the `place` that the caller had."""
    if view.rank(caller) >= 0:
        return caller
    return min(view.members, key=lambda member: (abs(view.rank(member) - place), view.rank(member)))


@dataclass(slots=True)
class OpenWork:
    """A request whose result is not known yet."""

    payload: bytes
    place: int
    """The caller's rank in the view in which the request was delivered."""
    coordinator: ProcessId


class Cohorts(Tool):
    """One member of a group that does work together. All members do the same work."""

    def __init__(self, tools: Tools, work: Work, name: str = "cohorts") -> None:
        super().__init__(tools, name)
        self.open: dict[Key, OpenWork] = {}
        self.taken_over = 0
        """How often this member went on with what a coordinator that is gone had begun."""
        self._work = work
        self._number = 0
        self._turn = asyncio.Semaphore(OPEN_MAX)
        self._working = asyncio.Semaphore(WORK_MAX)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    async def ask(self, payload: bytes, *, timeout_s: float | None = None) -> bytes:
        """Have the work done by one member, and return its result. Raises WorkError with what the work raised;
        ExcludedError if this process is excluded meanwhile: then it may have been done or not."""
        async with asyncio.timeout(timeout_s), self._turn:
            await self.tools.live()
            self._number += 1
            number = self._number
            self._waiting[number] = asyncio.get_running_loop().create_future()
            try:
                self.tools.post(self, _ENCODER.encode(_WorkCall(number, payload)))
                return await self._waiting[number]
            finally:
                del self._waiting[number]

    # ---- what the group delivers -------------------------------------------------------------------------------------

    def take(self, event: Message, payload: bytes) -> None:
        message = _DECODER.decode(payload)
        if isinstance(message, _WorkCall):
            view = self.tools.view
            place = view.rank(event.sender)
            coordinator = choose_coordinator(view, event.sender, place)
            self.open[event.sender, message.number] = OpenWork(message.payload, place, coordinator)
            self._begin()
            return
        key = (from_wire(message.caller), message.number)
        if self.open.pop(key, None) is None:
            return  # a second result, of a coordinator that had begun before
        task = self._tasks.pop(key, None)
        if task is not None and event.sender != self.tools.process:
            task.cancel()
        waiting = self._waiting.get(message.number) if key[0] == self.tools.process else None
        if waiting is not None and not waiting.done():
            if message.error:
                waiting.set_exception(WorkError(message.error))
            else:
                waiting.set_result(message.payload)

    def install(self, view: View, gone: tuple[ProcessId, ...]) -> None:
        for (caller, _), request in self.open.items():
            if request.coordinator not in view.members:
                request.coordinator = choose_coordinator(view, caller, request.place)
                self.taken_over += request.coordinator == self.tools.process

    def resume(self) -> None:
        self._begin()

    def suspend(self, why: str, excluded: bool) -> None:
        if excluded:
            self._stop(self.tools.lost_error())

    def end(self, error: Exception) -> None:
        self._stop(error)

    def _stop(self, error: Exception) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    def export(self) -> bytes:
        return _ENCODER.encode(
            [
                _WireWork(to_wire(caller), number, request.payload, request.place, to_wire(request.coordinator))
                for (caller, number), request in self.open.items()
            ]
        )

    def restore(self, state: bytes) -> None:
        self.open = {
            (from_wire(wire.caller), wire.number): OpenWork(wire.payload, wire.place, from_wire(wire.coordinator))
            for wire in _STATE.decode(state)
        }

    # ---- the work ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start what this member coordinates and has not started."""
        if self.tools.is_live:
            for key, request in self.open.items():
                if request.coordinator == self.tools.process and key not in self._tasks:
                    self._tasks[key] = asyncio.create_task(self._do(key, request.payload))

    async def _do(self, key: Key, payload: bytes) -> None:
        result, error = b"", ""
        async with self._working:
            try:
                result = await self._work(payload)
                if not isinstance(result, bytes):
                    raise TypeError(f"the work gave {type(result).__name__}, and a result is bytes")
            except Exception as failure:  # goes to the caller
                log_event(logging.DEBUG, "work_failed", str(failure), caller=key[0], exc_info=failure)
                result, error = b"", f"{type(failure).__name__}: {failure}"[:ERROR_CHARACTERS_MAX]
        try:
            self._tell(key, result, error)
        except MessageTooLargeError as failure:
            self._tell(key, b"", f"the result cannot be told: {failure}")

    def _tell(self, key: Key, result: bytes, error: str) -> None:
        self.tools.post(self, _ENCODER.encode(_WorkResult(to_wire(key[0]), key[1], result, error)), order="safe")
