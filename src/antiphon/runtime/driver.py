"""The driver of one engine: input in, effects out, in the order that `kernel.effects` demands, and one timer.

Everything happens in the thread of the event loop, one step at a time. A step is never entered from within another:
what an effect sets off follows when the step is done.

What the application sends and the engine refuses (UsageError, before anything has changed) is counted and raised to
whoever offered it. Any other exception out of the engine, or out of the history, is a mistake of ours or a broken
disk. Then the node fails as a whole and at once: everyone who waits on it gets a NodeFailedError, and the socket is
closed, so that to the others it has crashed. A node that went on after that might break a promise.

A group can be over before its node is: left, abandoned, or gone on without this process. It is forgotten here at the
end of the step that ended it; what the engine still says about it is dropped.

A process that was excluded from a group is dead, in all its groups; lives.py has what follows.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast

from antiphon.engine import Engine
from antiphon.kernel.effects import (
    NEVER,
    Announced,
    AskApplication,
    BarrierReached,
    Delivered,
    Effects,
    Ended,
    Event,
    Installed,
    MajorityLost,
    Received,
    RecoveryAsked,
    Sent,
    Suspected,
    Transitional,
    Transmit,
    Writable,
)
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import (
    Close,
    Create,
    Forget,
    Input,
    Join,
    Leave,
    Open,
    Receive,
    Recover,
    Send,
    SendBarrier,
    StackRequest,
    Tick,
)
from antiphon.kernel.outcomes import ApplicationAnswer
from antiphon.runtime.address import SocketAddress
from antiphon.runtime.address_book import AddressBook
from antiphon.runtime.clock import Clock
from antiphon.runtime.devices import NodeDevices
from antiphon.runtime.driver_recording import RecordingDriver
from antiphon.runtime.errors import NodeFailedError
from antiphon.runtime.handlers import DriverMeter, GroupHandler, RoleHandler
from antiphon.runtime.identified_transport import IdentifiedTransport
from antiphon.runtime.membership_log import log_membership
from antiphon.runtime.tap import HistoryTap
from antiphon.runtime.transport import Transport
from antiphon.runtime.trust import Trust
from antiphon.runtime.waiting import Settling, Waiting

log: Final = logging.getLogger("antiphon")

_ABOUT_A_GROUP: Final = (Send, SendBarrier, Leave, Recover)
"""Inputs that the engine refuses for a group that is over."""


class Driver(RecordingDriver):
    """One engine, with its socket, its clock, its timer and its history."""

    def __init__(
        self,
        process: ProcessId,
        engine: Engine,
        clock: Clock,
        tap: HistoryTap | None,
        family: int = socket.AF_INET,
    ) -> None:
        super().__init__(clock, tap)
        self.process = process
        self.engine = engine
        self.transport: Transport | None = None
        self.devices: NodeDevices | None = None
        self.roles: dict[str, RoleHandler] = {}
        """By stack. What concerns a role has the name of its stack and "/" before its own; no group is called so."""
        self.outside: dict[str, RoleHandler] = {}
        """The groups that this process sends to without being in them."""
        self._asked = 0
        self.trust = Trust()
        self.identities: IdentifiedTransport | None = None
        """The transport, where it knows others by their names."""
        self.on_stop: Callable[[Exception | None], None] | None = None
        """Told of the end, after all groups."""
        self.meter: DriverMeter | None = None
        self._loop = asyncio.get_running_loop()
        self._members: dict[str, GroupHandler] = {}
        self._family = family
        self._joins: dict[str, Join] = {}
        self._addresses = AddressBook(family)
        self._silenced: set[str] = set()
        self._returning: dict[str, bool] = {}
        """After an exclusion, the groups to join again, and whether the application has read all of this life there."""
        self._followers: deque[Input] = deque()
        self.stepping = False
        self._afterwards: deque[Callable[[], None]] = deque()
        self._deadline_ns = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER
        self._delivered_ns = 0
        self._receiving = False
        """Whether the step that is being carried out took in what others sent."""
        self._waiting = Waiting()
        self.messages_forbidden = 0
        """What others sent that may not send."""
        self.sends_refused = 0
        """What was sent and the engine refused."""

    def receive(self, datagrams: list[bytes]) -> None:
        self.step(Receive(datagrams))

    def receive_from(self, datagrams: list[bytes], authors: list[str]) -> None:
        """Take datagrams whose authors are known."""
        self.step(Receive(datagrams, authors))

    def join(self, input: Join, member: GroupHandler, contacts: Sequence[SocketAddress] = ()) -> None:
        """Join a group; `contacts` are those to ask. What the engine refuses here is the caller's mistake, and changes
        nothing."""
        now_ns = self.clock.now_ns()
        effects = self.engine.step(input, now_ns)
        self._left.discard(input.group)  # if it was here before
        self._members[input.group] = member
        self._joins[input.group] = input
        self._addresses.join(input.group, contacts)
        self.guard(partial(self._carry_out, effects, now_ns))

    def meet(self, group: str, contacts: Sequence[SocketAddress]) -> None:
        """These may know the group too."""
        if group in self._members:
            self._addresses.meet(group, contacts)

    def found(self, group: str) -> None:
        """Nobody lets this process into `group`: ask no more, and begin it, alone."""
        if group not in self._joins or group in self._silenced:
            return  # it is over, or waits for the next incarnation
        join = self._joins[group]
        self.step(Forget(group))
        create = Create(
            group=group, stack=join.stack, policy=join.policy, address=join.address, domain=join.domain,
            stream=join.stream, last_view=join.last_view,
        )  # fmt: skip
        self.step(create)

    def leave(self, group: str) -> None:
        """Ask the others to go on without this process."""
        if self.tap is not None and not self._stopped:
            try:
                self.tap.recorder.leaves(group, self.clock.now_ns())
            except Exception as error:
                self.fail(error)
        self.step(Leave(group))

    def step(self, input: Input) -> int:
        """Put one input in and carry out what follows; how many messages of this input the engine has taken. After a
        failure or the end, or for a group that is over, this does nothing. Raises UsageError for messages that the
        engine refuses."""
        self._followers.append(input)
        if self.stepping:
            return 0
        self.stepping = True
        clock = self.clock
        accepted = 0
        refusal: UsageError | None = None
        try:
            while self._followers and not self._stopped:
                following = self._followers.popleft()
                if (
                    isinstance(following, _ABOUT_A_GROUP)
                    and (following.group not in self._members or following.group in self._silenced)
                    and not (isinstance(following, Send) and following.group in self.outside)
                ):
                    continue
                now_ns = clock.offset_ns + clock.monotonic_ns()
                self._receiving = isinstance(following, Receive)
                try:
                    effects = self.engine.step(following, now_ns)
                except UsageError as error:
                    if not isinstance(following, (Send, SendBarrier)):
                        raise
                    self.sends_refused += 1
                    log.error("%s: a message to group %r is refused: %s", self.process, following.group, error)
                    refusal = error if following is input else refusal
                    continue
                if following is input:
                    accepted = effects.accepted
                if self.tap is None and isinstance(following, Send) and Installed not in map(type, effects.events):
                    # What the application sends goes to the others before it comes back to itself. Nothing has to be
                    # on record here, and unless a view is installed, nobody's address changes. What answers a packet,
                    # acks for the most part, can wait until the application has what that packet brought.
                    self._transmit(effects.transmits)
                    effects.transmits = []
                self._carry_out(effects, now_ns)
        except Exception as error:
            self.fail(error)
        finally:
            self.stepping = False
        while self._afterwards:  # what is called may step, and come here itself
            self._afterwards.popleft()()
        if refusal is not None:
            raise refusal
        return accepted

    def ask(self, input: Open | Close | StackRequest) -> None:
        """Ask something of a role. What its stack refuses is the caller's mistake: it raises, and changes nothing."""
        if self._stopped:
            raise self.error or ClosedError(f"node {self.process.name!r} was closed")
        now_ns = self.clock.now_ns()
        effects = self.engine.step(input, now_ns)
        self._asked += 1
        self.guard(partial(self._carry_out, effects, now_ns))

    def answer(self, engine: Engine, outcome: ApplicationAnswer) -> None:
        """Give a stack the answer to its question, from any thread; `engine` is the one that asked. That of a life that
        is over is asked nothing any more."""
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if not is_here:
            self._loop.call_soon_threadsafe(self.answer, engine, outcome)
        elif engine is self.engine:
            self.step(outcome)

    def afterwards(self, call: Callable[[], None]) -> bool:
        """Call this as soon as the step that is being carried out is done; false, and it is not called, if there is
        none."""
        if self.stepping:
            self._afterwards.append(call)
        return self.stepping

    def follow(self, input: Input) -> None:
        """Have `input` put in as soon as the step that is being carried out is done."""
        self._followers.append(input)

    def abandon(self, group: str) -> None:
        """Stop being a member of `group` without a word to the others: to them, this process has failed there."""
        self.step(Forget(group))
        if group in self._members:
            self._silence(group)
            self._forget(group)

    def recover(self, group: str) -> None:
        """Go on in `group` with those that can be reached, though they are no majority. Does nothing where there is no
        need by now: the group goes on by itself, or this process, in its next life, only asks to be let in."""
        if self._stopped or not self.engine.is_stalled(group):
            return
        now_ns = self.clock.now_ns()
        effects = self.engine.step(Recover(group), now_ns)
        self._asked += 1
        if self.tap is not None:
            self.guard(partial(self.tap.recorder.recovers, group, now_ns))
        self.guard(partial(self._carry_out, effects, now_ns))

    def _forget(self, group: str) -> None:
        """Let go of all that is kept for a group that is over."""
        self._silenced.discard(group)
        del self._members[group]
        del self._joins[group]
        self._addresses.forget(group)
        if self.identities is not None:
            self.identities.install(group, None)
        if self.tap is None:  # else what is still to be read is recorded by it
            self._first_views.pop(group, None)
            self._left.discard(group)

    def _silence(self, group: str) -> None:
        """Take no more part in `group`."""
        self._silenced.add(group)
        self._waiting.silence(group, self._members[group], self.process)

    def _carry_out(self, effects: Effects, now_ns: int) -> None:
        ended: list[str] = []
        asked = self._asked
        for event in effects.events:
            member = self._members.get(event.group)
            if member is None:
                if event.group in self.outside:
                    self.outside[event.group].take(event)
                elif isinstance(event, Announced):
                    log_membership(self.process, event)
                else:
                    self._note_untold(event)
                    self._tell_role(event, now_ns)
                continue
            if event.group in self._silenced or event.group in ended:
                if isinstance(event, Ended) and event.retires and self.tap is not None:
                    self.tap.recorder.leaves(event.group, now_ns)
                self._note_untold(event)
                continue
            if isinstance(event, Delivered):
                if self.identities is not None and not self.identities.may_send(event.sender.name):
                    self.messages_forbidden += len(event.payloads)
                    continue
                member._deliver(event)
                if self.meter is not None:
                    self.meter.delivered(event, self.process, now_ns)
                if self._receiving:
                    self._delivered_ns = now_ns
            elif not isinstance(event, Sent):
                if isinstance(event, Ended):
                    ended += self._members if self._can_return(event) else (event.group,)
                self._emit(event, member, now_ns)
            else:
                if self.tap is not None:
                    self.tap.recorder.depart(event, now_ns)
                if self.meter is not None:
                    self.meter.sent(event, now_ns)
        if effects.transmits:
            self._transmit(effects.transmits)
        if effects.calls is not None and self.devices is not None:
            self.devices.carry_out(effects.calls)
        for group in ended:
            self._silence(group)
            if group not in self._returning:
                self._forget(group)
        if asked == self._asked:  # else somebody was told something and has asked for more: that deadline counts
            self._deadline_ns = effects.deadline_ns
            if effects.deadline_ns < self._timer_ns:
                self._arm(effects.deadline_ns, now_ns)
        if self._waiting.somebody:
            self._waiting.check(self.engine)

    def _tell_role(self, event: Event, now_ns: int) -> None:
        stack, slash, _ = event.group.partition("/")
        if slash and stack in self.roles:
            if self.tap is not None:
                self.tap.recorder.role(event, now_ns)
            self.roles[stack].take(event)

    def _transmit(self, transmits: list[Transmit]) -> None:
        transport = self.transport
        assert transport is not None
        if self.identities is not None:
            for transmit in transmits:
                names = [process.name for process in transmit.route.processes]
                self.identities.send_to(transmit.packets, self._addresses.find(transmit.route), names)
            return
        for transmit in transmits:
            known = cast("list[SocketAddress] | None", transmit.route.resolved)
            transport.send(transmit.packets, self._addresses.find(transmit.route) if known is None else known)

    def _emit(self, event: Event, member: GroupHandler, now_ns: int) -> None:
        tap = self.tap
        if isinstance(event, Received):
            if tap is not None:
                tap.recorder.receive(event, now_ns)
        elif isinstance(event, BarrierReached):
            member._reach(event)
        elif isinstance(event, Writable):
            member._unblock()
        elif isinstance(event, AskApplication):
            member._ask(event, now_ns)
        else:
            log_membership(self.process, event)
            if self.meter is not None:
                self.meter.membership(event)
            if isinstance(event, Installed):
                self._install(event, now_ns)
            elif isinstance(event, Suspected) and tap is not None:
                tap.recorder.suspect(event, now_ns)
            elif isinstance(event, MajorityLost):
                if tap is not None:
                    tap.recorder.stalled(event.group, now_ns)
                member._stall()
            elif isinstance(event, Transitional):
                member._transit(event)
            elif isinstance(event, Ended):
                self._end(event, now_ns)
            elif isinstance(event, RecoveryAsked):
                self.recover(event.group)

    def _install(self, event: Installed, now_ns: int) -> None:
        group = event.group
        if group not in self._first_views:
            self._first_views[group] = event.view.id
            if self.tap is not None:
                join = self._joins[group]
                self.tap.recorder.start(group, join.stack, join.policy, join.domain.name, now_ns)
                self.tap.recorder.view(group, event.view, now_ns)
        else:
            self._note_untold(event)
        self._addresses.install(group, event.view)
        if self.identities is not None:
            self.identities.install(group, event.view)
        self._members[group]._install(event)

    def _end(self, event: Ended, now_ns: int) -> None:
        if not event.excluded:
            self._left.add(event.group)
            if self.tap is not None:
                self.tap.recorder.left(event.group, now_ns)
        elif event.group in self._first_views:  # else it was never in: nothing has ended
            self._excluded = True
            if self.tap is not None and event.retires:
                self.tap.recorder.leaves(event.group, now_ns)
            elif self.tap is not None:
                self.tap.recorder.note(f"excluded from group {event.group!r}", now_ns)
        if self._can_return(event):
            self._lapse()
        else:
            self._members[event.group]._part(event)

    def _can_return(self, event: Ended) -> bool:
        """Whether another incarnation may follow (lives.py)."""
        return False

    def _lapse(self) -> None:
        """This incarnation is over in all groups, and another one may follow."""
        raise NotImplementedError

    def return_to(self, group: str) -> None:
        """The application has read all of the incarnation that is over in `group`, or reads there no more."""

    async def close_logs(self) -> None:
        """Wait until everything that was recorded is on disk."""
        if self.tap is not None:
            await asyncio.to_thread(self.tap.close)

    def _arm(self, deadline_ns: int, now_ns: int) -> None:
        """Have the timer go off earlier. Deadlines move with almost every step, mostly to later. A timer that goes off
        too early costs less than one that is replaced each time: it looks at the deadline and goes to sleep again."""
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
        elif self._deadline_ns != NEVER:
            self._arm(self._deadline_ns, now_ns)

    async def settle(self, member: Settling, linger_s: float) -> bool:
        """Wait until nothing that `member` sent is outstanding, at most `linger_s`; whether that came about."""
        if self.error is None and member.outstanding() > 0 and not await self._waiting.settle(member, linger_s):
            return False
        return self.error is None and member.outstanding() == 0

    async def flush(self, groups: Sequence[str], k: int) -> None:
        """Wait until all that was sent or delivered in `groups` until now is delivered at all members, or received by
        `k` others."""
        await self._waiting.flush(self.engine, groups, k)

    async def retire(self, linger_s: float) -> None:
        """Wait until a process that was excluded has parted from its other groups, at most `linger_s`."""
        if self.error is None and not self._stopped and self.engine.is_retiring():
            parted = asyncio.Event()
            self._waiting.when_retired(parted.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(linger_s):
                    await parted.wait()

    async def farewell(self, stay_s: float) -> None:
        """Stay until `stay_s` after the last delivery of what others sent."""
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
        self._waiting.stop(self.error or ClosedError(f"node {self.process.name!r} was closed"))
        for member in self._members.values():
            member._end(self.error)
        if self.on_stop is not None:
            self.on_stop(self.error)
        for role in [*self.roles.values(), *self.outside.values()]:
            role.end(self.error)
        if self.tap is not None:
            try:
                self._record_end(self.tap, why)
            except Exception as error:
                self.fail(error)
            self._log_ended = True
