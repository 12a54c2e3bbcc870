"""The send queue of one causality domain: messages that the application has sent and the engine has not yet accepted.

Promise: what a process sends to the groups of one domain enters the engine in the order of the calls, whatever the
groups, also under back-pressure. The engine keeps that order on the wire. Groups
that are in order with no other group have an outbox each.

Rule: one queue of runs, first in first out. The first message of a turn of the event loop enters the engine at once;
what else is sent in that turn follows at its end, consecutive messages to one group in one step, so that packets are
full when there is much to send. What is sent while a step is being carried out, by a listener for one, follows when
that step is done. If the engine accepts only part of a run, that run stays in front and everything behind it waits
until the engine has room in that group again. A call that finds the outbox full waits in a queue of calls, and later
calls wait behind it.

What the engine refuses (UsageError; calls are checked before, so this takes a mistake of ours) is dropped. The call
that offered it gets the error; if that has returned, the next call to this group does, or who waits for it to drain.
Where calls are recorded, what was refused has its numbers in the history already, so nothing more can be sent to this
group in this life: every call gets the error.

Limits: MESSAGES_MAX messages or BYTES_MAX bytes; at either the outbox is full and calls wait. One message may pass the
limit by its own length, so that a long one can go at all.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

from antiphon.kernel.errors import MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId

MESSAGES_MAX: Final = 4096
BYTES_MAX: Final = 1024 * 1024
NOT_MEASURED: Final = -1


@dataclass(frozen=True, slots=True)
class SendMode:
    """How messages are to go: at a level to all members or to `destinations` alone, or as barriers."""

    level: int
    destinations: tuple[ProcessId, ...] = ()
    barrier: bool = False
    label: str | None = None
    """A short text that the history keeps with the message; on a stack that has labels, it may order it."""


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


Offer = Callable[[list[bytes], SendMode], int]
"""Offers payloads to the engine, which accepts so many of them from the front. Raises UsageError if it refuses them."""
Called = Callable[[Sequence[bytes], SendMode, int], None]
"""Told of messages as they are put in: payloads, mode, bytes together."""
MayWait = Callable[[object], None]
"""Asked whether a caller may wait for room; raises if it would wait for ever."""


class Steps(Protocol):
    """Whoever puts what is offered into the engine."""

    stepping: bool
    """Whether a step is being carried out."""

    def afterwards(self, call: Callable[[], None]) -> bool:
        """Call something when the step is done that is being carried out; false, and it is not called, if none is."""


@final
class OutboxLane:
    """What the outbox knows of one group: how it offers messages to the engine, and how many wait."""

    __slots__ = (
        "accepted",
        "blocked",
        "called",
        "drains",
        "error",
        "may_wait",
        "messages",
        "offer",
        "over",
        "refusal",
        "waits",
    )

    def __init__(self, offer: Offer, called: Called | None = None, may_wait: MayWait | None = None) -> None:
        self.offer = offer
        self.called = called
        self.may_wait = may_wait
        self.messages = 0
        """Messages that wait in the outbox."""
        self.accepted = 0
        """Messages that the engine has accepted since the start."""
        self.blocked = False
        """The engine has accepted less than it was offered, and will tell when it has room."""
        self.error: Exception | None = None
        """Why nothing more can be sent."""
        self.refusal: UsageError | None = None
        """Why the engine has refused what was sent, and nobody has been told."""
        self.over = False
        """What was left here has been dropped."""
        self.waits = 0
        """Calls that have had to wait for room since the start."""
        self.drains: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits until so many messages have been accepted."""

    def check(self) -> None:
        """Raise why nothing more can be sent, if so, or why what was sent before was refused."""
        if self.error is not None:
            raise self.error
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal


@final
class OutboxRun:
    """Consecutive messages to one group in one mode, and their bytes."""

    __slots__ = ("lane", "mode", "payloads", "size")

    def __init__(self, lane: OutboxLane, mode: SendMode, payloads: list[bytes], size: int) -> None:
        self.lane = lane
        self.mode = mode
        self.payloads = payloads
        self.size = size


@final
class WaitingCall:
    """A call that waits for room; `turn` is done when there may be some."""

    __slots__ = ("caller", "lane", "turn")

    def __init__(self, lane: OutboxLane, caller: object, turn: asyncio.Future[None]) -> None:
        self.lane = lane
        self.caller = caller
        self.turn = turn


@final
class Outbox:
    """Runs of messages, each to one group in one mode, first in first out."""

    def __init__(self, steps: Steps) -> None:
        self.messages = 0
        self.lanes = 0
        """How many groups send through this."""
        self._bytes = 0
        self._steps = steps
        self._loop = asyncio.get_running_loop()
        self._runs: deque[OutboxRun] = deque()
        self._waiting: deque[WaitingCall] = deque()
        self._scheduled = False
        self._flushing = False

    def open(self, offer: Offer, called: Called | None = None, may_wait: MayWait | None = None) -> OutboxLane:
        """A lane for one more group."""
        self.lanes += 1
        return OutboxLane(offer, called, may_wait)

    async def send(
        self, lane: OutboxLane, payloads: Sequence[bytes], mode: SendMode, size: int, caller: object = None
    ) -> None:
        """Put all of `payloads` in; `size` is their bytes together. Waits while the outbox is full. Raises the lane's
        error, or that this caller would wait for ever. If it raises, or is cancelled, it has put in some from the
        front."""
        start = self.put(lane, payloads, mode, size)
        if start == len(payloads):
            return
        call = WaitingCall(lane, caller, self._loop.create_future())
        self._waiting.append(call)
        lane.waits += 1
        try:
            while start < len(payloads):
                lane.check()  # to send may have been the end
                if lane.may_wait is not None:
                    lane.may_wait(caller)
                await call.turn
                call.turn = self._loop.create_future()
                lane.check()
                start += self._put(lane, payloads[start:], mode, NOT_MEASURED)
        finally:
            self._waiting.remove(call)
            self._wake()

    def put(self, lane: OutboxLane, payloads: Sequence[bytes], mode: SendMode, size: int) -> int:
        """Put messages in from the front while there is room and no earlier call waits; how many."""
        if lane.refusal is not None:
            lane.check()
        if self._waiting:
            return 0
        if lane.called is not None or self._scheduled or self._runs or lane.blocked or self._steps.stepping:
            count = self._put(lane, payloads, mode, size)
            if lane.refusal is not None:
                lane.check()
            return count
        # The first of its turn, with nothing before it, enters the engine at once. Where calls are recorded, how many
        # are taken has to be known before.
        self._scheduled = True
        self._loop.call_soon(self._end_turn)
        lane.blocked = True
        try:
            count = lane.offer(list(payloads), mode)
        except UsageError:
            lane.blocked = False
            raise
        lane.accepted += count
        if count == len(payloads) or lane.over:
            lane.blocked = False
            return count
        return count + self._put(lane, payloads[count:], mode, NOT_MEASURED)

    def _put(self, lane: OutboxLane, payloads: Sequence[bytes], mode: SendMode, size: int) -> int:
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
        if lane.called is not None:
            lane.called(taken, mode, size)
        last = self._runs[-1] if self._runs else None
        if last is not None and last.lane is lane and last.mode == mode and not mode.barrier:  # barriers go one by one
            last.payloads.extend(taken)
            last.size += size
        else:
            self._runs.append(OutboxRun(lane, mode, taken, size))
        self.messages += len(taken)
        self._bytes += size
        lane.messages += len(taken)
        self._schedule()
        return len(taken)

    def waiting(self, lane: OutboxLane) -> int:
        """Calls that wait for room to send to this group."""
        return sum([call.lane is lane for call in self._waiting])

    def record_waiting(self) -> None:
        """Record everything that is in here as called for, in order: a new incarnation will send it."""
        for run in self._runs:
            if run.lane.called is not None:
                run.lane.called(run.payloads, run.mode, run.size)

    async def drain(self, lane: OutboxLane) -> None:
        """Wait until the engine has accepted what is in here for this group now. Raises the lane's error."""
        if not lane.messages:
            if lane.refusal is not None:
                lane.check()
            return
        entry = (lane.accepted + lane.messages, self._loop.create_future())
        lane.drains.append(entry)
        try:
            await entry[1]
        finally:
            lane.drains.remove(entry)

    def unblock(self, lane: OutboxLane) -> None:
        """The engine has room for this group again."""
        lane.blocked = False
        self._schedule()

    def refuse(self, lane: OutboxLane, caller: object, error: Exception) -> None:
        """The calls of this caller that wait to send to this group get `error`: they would wait for ever."""
        for call in self._waiting:
            if call.lane is lane and call.caller is caller and not call.turn.done():
                call.turn.set_exception(error)

    def close(self, lane: OutboxLane, error: Exception) -> None:
        """Whoever waits to send to this group, or for its messages to leave, gets `error`, and so does who comes later.
        What is in here already still leaves."""
        lane.error = error
        for call in self._waiting:
            if call.lane is lane and not call.turn.done():
                call.turn.set_result(None)  # it sees the error
        for _, waiter in lane.drains:
            if not waiter.done():
                waiter.set_exception(error)

    def discard(self, lane: OutboxLane) -> None:
        """Drop what is in here for this group, which is over: what stands behind it goes on."""
        if not lane.over:
            lane.over = True
            self.lanes -= 1
        for run in self._runs:
            if run.lane is lane:
                self._bytes -= run.size
        self.messages -= lane.messages
        lane.messages = 0
        self._runs = deque([run for run in self._runs if run.lane is not lane])
        lane.blocked = False
        self._schedule()
        self._wake()

    def _schedule(self) -> None:
        if not self._scheduled and self._runs and not self._runs[0].lane.blocked:
            self._scheduled = True
            if not self._steps.afterwards(self._end_turn):
                self._loop.call_soon(self._end_turn)
                self._flush()

    def _end_turn(self) -> None:
        self._scheduled = False
        if self._runs:
            self._flush()

    def _flush(self) -> None:
        if self._flushing:
            return  # called by what an offer set off; whoever made that offer goes on
        self._flushing = True
        try:
            while self._runs and not self._runs[0].lane.blocked:
                self._offer(self._runs.popleft())
        finally:
            self._flushing = False
        self._wake()

    def _offer(self, run: OutboxRun) -> None:
        lane = run.lane
        lane.blocked = True  # and `unblock` may come within the offer, when the engine sends at once what it accepted
        try:
            count = lane.offer(run.payloads, run.mode)
        except UsageError as error:
            self._drop(run, error)
            return
        if lane.over:  # the group ended in that step
            lane.blocked = False
            self._bytes -= run.size
            return
        if count == len(run.payloads):
            lane.blocked = False
            self._bytes -= run.size
        else:
            for payload in run.payloads[:count]:
                run.size -= len(payload)
                self._bytes -= len(payload)
            run.payloads = run.payloads[count:]
            self._runs.appendleft(run)
        self.messages -= count
        lane.messages -= count
        lane.accepted += count
        for accepted, waiter in lane.drains:
            if accepted <= lane.accepted and not waiter.done():
                waiter.set_result(None)

    def _drop(self, run: OutboxRun, error: UsageError) -> None:
        """Let go of what the engine has refused, and tell."""
        lane = run.lane
        lane.blocked = False
        self._bytes -= run.size
        self.messages -= len(run.payloads)
        lane.messages -= len(run.payloads)
        lane.refusal = error
        if lane.called is not None:
            self.close(lane, error)
            return
        for _, waiter in lane.drains:
            if not waiter.done():
                waiter.set_exception(error)
                lane.refusal = None  # somebody is told

    def _wake(self) -> None:
        """Tell the first call that waits that there is room."""
        if self._waiting and self.messages < MESSAGES_MAX and self._bytes < BYTES_MAX:
            turn = self._waiting[0].turn
            if not turn.done():
                turn.set_result(None)
