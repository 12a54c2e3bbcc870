"""The driver of one engine: input in, effects out, in the order that `kernel.effects` demands, and one timer.

Everything happens in the thread of the event loop, one step at a time. A step is never entered from within another:
what an effect sets off follows when the step is done.

An exception out of the engine, or out of the history, is a mistake of ours or a broken disk. Then the node fails as a
whole and at once: everyone who waits on it gets a NodeFailedError, and the socket is closed, so that to the others it
has crashed. A node that went on after that might break a promise.

A group can be over before its node is: left, or gone on without this process. The engine has no way to forget it, so
what it still says about that group, after the step that ended it, is dropped here.
"""

import asyncio
import logging
import socket
from collections import deque
from typing import Final, Protocol

from antiphon.engine import Engine
from antiphon.kernel.effects import (
    NEVER,
    Accepted,
    Delivered,
    Effects,
    Ended,
    Event,
    Installed,
    Received,
    Sent,
    Stalled,
    Suspected,
    Writable,
)
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Input, Join, Leave, Receive, Tick
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.address_book import AddressBook
from antiphon.runtime.clock import Clock
from antiphon.runtime.errors import NodeFailedError
from antiphon.runtime.events import Batch, ViewChange
from antiphon.runtime.tap import HistoryTap
from antiphon.runtime.transport import Transport

log: Final = logging.getLogger("antiphon")


class Member(Protocol):
    """This process as a member of one group: what the driver tells it."""

    def install(self, event: Installed) -> None:
        """The group has a new view."""

    def deliver(self, event: Delivered) -> None:
        """Messages for the application."""

    def accept(self, event: Accepted) -> None:
        """Messages were taken by the engine."""

    def unblock(self) -> None:
        """The engine takes messages again."""

    def stall(self) -> None:
        """The group stands still for want of a majority."""

    def part(self, event: Ended) -> None:
        """This process is no longer a member; nothing more will be told but `end`."""

    def outstanding(self) -> int:
        """What was sent here and is not yet known to be everywhere."""

    def end(self, error: Exception | None) -> None:
        """It is over: by `close`, or by an error."""


class Driver:
    """One engine, with its socket, its clock, its timer and its history."""

    def __init__(
        self,
        process: ProcessId,
        engine: Engine,
        clock: Clock,
        tap: HistoryTap | None,
        family: int = socket.AF_INET,
    ) -> None:
        self.process = process
        self.engine = engine
        self.tap = tap
        self.clock = clock
        self.transport: Transport | None = None
        self.error: NodeFailedError | None = None
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._members: dict[str, Member] = {}
        self._family = family
        self._joins: dict[str, Join] = {}
        self._books: dict[str, AddressBook] = {}
        self._first_views: dict[str, int] = {}
        self._silenced: set[str] = set()
        self._left: set[str] = set()
        self._excluded = False
        self._followers: deque[Input] = deque()
        self._deadline_ns = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER
        self._delivered_ns = 0
        self._settling: list[tuple[Member, asyncio.Future[None]]] = []

    def receive(self, datagrams: list[bytes]) -> None:
        self.step(Receive(datagrams))

    def join(self, input: Join, member: Member, addresses: dict[ProcessId, SocketAddress]) -> None:
        """Join a group; `addresses` are those known from the start. What the engine refuses here is the caller's
        mistake, and changes nothing."""
        now_ns = self.clock.now_ns()
        effects = self.engine.step(input, now_ns)
        self._members[input.group] = member
        self._joins[input.group] = input
        self._books[input.group] = AddressBook(self.process, self._family, addresses)
        try:
            self._carry_out(effects, now_ns)
        except Exception as error:
            raise self.fail(error) from error

    def leave(self, group: str) -> None:
        """Ask the others to go on without this process."""
        if self.tap is not None and not self._stopped:
            try:
                self.tap.leaves(self.clock.now_ns())
            except Exception as error:
                self.fail(error)
        self.step(Leave(group))

    def step(self, input: Input) -> None:
        """Put one input in and carry out what follows. After a failure or the end this does nothing."""
        self._followers.append(input)
        while self._followers and not self._stopped:
            now_ns = self.clock.now_ns()
            try:
                self._carry_out(self.engine.step(self._followers.popleft(), now_ns), now_ns)
            except Exception as error:
                self.fail(error)

    def follow(self, input: Input) -> None:
        """Have `input` put in as soon as the step that is being carried out is done."""
        self._followers.append(input)

    def record_taken(self, batch: Batch, number: int, count: int, size: int) -> None:
        """The application is being handed these messages."""
        if self.tap is not None:
            try:
                self.tap.deliver(batch, number, count, size, self.clock.now_ns())
            except Exception as error:
                raise self.fail(error) from error

    def record_view(self, change: ViewChange) -> None:
        """The application is being told of a view, or has nothing left to read before it when all ends."""
        if self.tap is not None and change.view.id != self._first_views[change.group]:
            stopping = self._stopped
            try:
                self.tap.view(change.group, change.view, self.clock.now_ns())
            except Exception as error:
                failure = self.fail(error)
                if not stopping:
                    raise failure from error

    def silence(self, group: str) -> None:
        """Take no more part in `group`: to its members, this process is dead from here on if it has not left."""
        self._silenced.add(group)
        for member, settled in self._settling:
            if member is self._members[group] and not settled.done():
                settled.set_result(None)

    def _carry_out(self, effects: Effects, now_ns: int) -> None:
        ended: list[str] = []
        for event in effects.events:
            if event.group in self._silenced or event.group in ended:
                continue
            if isinstance(event, Ended):
                ended.append(event.group)
            self._hand_over(event, now_ns)
        transport = self.transport
        assert transport is not None
        for transmit in effects.transmits:
            if transmit.group not in self._silenced:
                book = self._books[transmit.group]
                transport.send(transmit.packets, book.find(transmit.destination, transmit.address))
        for group in ended:
            self.silence(group)
        self._arm(effects.deadline_ns, now_ns)
        for member, settled in self._settling:
            if not settled.done() and member.outstanding() == 0:
                settled.set_result(None)

    def _hand_over(self, event: Event, now_ns: int) -> None:
        tap = self.tap
        if isinstance(event, Delivered):
            self._members[event.group].deliver(event)
            if event.sender != self.process:
                self._delivered_ns = now_ns
        elif isinstance(event, Sent):
            if tap is not None:
                tap.send(event, now_ns)
        elif isinstance(event, Accepted):
            self._members[event.group].accept(event)
        elif isinstance(event, Received):
            if tap is not None:
                tap.receive(event, now_ns)
        elif isinstance(event, Installed):
            self._install(event, now_ns)
        elif isinstance(event, Writable):
            self._members[event.group].unblock()
        elif isinstance(event, Suspected):
            if tap is not None:
                tap.suspect(event, now_ns)
        elif isinstance(event, Stalled):
            if tap is not None:
                tap.note(f"group {event.group!r} has no majority and stands still", now_ns)
            self._members[event.group].stall()
        else:
            assert isinstance(event, Ended)
            self._end(event, now_ns)

    def _install(self, event: Installed, now_ns: int) -> None:
        group = event.group
        if group not in self._first_views:
            self._first_views[group] = event.view.id
            if self.tap is not None:
                self.tap.start(group, self._joins[group].stack, self._joins[group].policy, now_ns)
                self.tap.view(group, event.view, now_ns)
        self._books[group].install(event.view)
        self._members[group].install(event)

    def _end(self, event: Ended, now_ns: int) -> None:
        if not event.excluded:
            self._left.add(event.group)
        elif event.group in self._first_views:  # else it was never in: nothing has ended
            self._excluded = True
            if self.tap is not None:
                self.tap.note(f"excluded from group {event.group!r}", now_ns)
        self._members[event.group].part(event)

    def _arm(self, deadline_ns: int, now_ns: int) -> None:
        # Deadlines move with almost every step, mostly to later. A timer that goes off too early costs less than one
        # that is replaced each time: it looks at the deadline and goes to sleep again.
        self._deadline_ns = deadline_ns
        if deadline_ns >= self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = deadline_ns
        self._timer = self._loop.call_later(max(0, deadline_ns - now_ns) / 1e9, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ns = NEVER
        now_ns = self.clock.now_ns()
        if now_ns >= self._deadline_ns:
            self.step(Tick())
        else:
            self._arm(self._deadline_ns, now_ns)

    async def settle(self, member: Member, linger_s: float) -> bool:
        """Wait until nothing that `member` sent is outstanding, at most `linger_s`; whether that came about."""
        if self.error is None and member.outstanding() > 0:
            entry = (member, self._loop.create_future())
            self._settling.append(entry)
            try:
                async with asyncio.timeout(linger_s):
                    await entry[1]
            except TimeoutError:
                return False
            finally:
                self._settling.remove(entry)
        return self.error is None and member.outstanding() == 0

    async def farewell(self, stay_s: float) -> None:
        """Stay until `stay_s` after the last delivery of somebody else's message."""
        until_ns = 0
        while self.error is None and until_ns != self._delivered_ns:
            until_ns = self._delivered_ns
            left_ns = until_ns + int(stay_s * 1e9) - self.clock.now_ns()
            await asyncio.sleep(max(0, left_ns) / 1e9)

    def fail(self, cause: Exception) -> NodeFailedError:
        """Stop for good because of `cause`; the error that everyone gets from now on."""
        if self.error is None:
            self.error = NodeFailedError(self.process.name, cause)
            self.error.__cause__ = cause
            log.error("%s", self.error, exc_info=cause)
            self.stop(f"failed: {type(cause).__name__}: {cause}")
        return self.error

    def stop(self, why: str | None) -> None:
        """Let go of the socket and the timer, write the last row, and end all streams. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self.transport.close()
        for _, settled in self._settling:
            if not settled.done():
                settled.set_result(None)
        for member in self._members.values():
            member.end(self.error)
        if self.tap is not None:
            try:
                self._record_end(self.tap, why)
            except Exception as error:
                self.fail(error)

    def _record_end(self, tap: HistoryTap, why: str | None) -> None:
        """The last row. Who was excluded from a group is dead to it; who has left all its groups owes nothing."""
        now_ns = self.clock.now_ns()
        if self.error is None and self._excluded:
            tap.crash("excluded", now_ns)
        elif self.error is None and self._left and self._left == self._first_views.keys():
            tap.leave(now_ns)
        else:
            tap.stop(why, now_ns)
