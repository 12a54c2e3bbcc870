"""The engine: one per process. All inputs come in by `step`; all outputs leave as effects.

It routes between the application, packets, time and stacks, and knows stacks by their interface alone
(stacks/stack.py). Packets go to the stack whose number they bear, inputs about a group to its member, and time to
whatever is due.

Sans-I/O: no sockets, no clock, no randomness of its own. The same inputs at the same times with the same generator
give the same effects, byte for byte, in pure Python and compiled.

A step costs nothing for a group that it does not touch. Deadlines stand in a heap, at most one live entry for each
member: an entry that comes up before its member is due is put back with the later time, and entries of members that
are gone are dropped when they come up.

A group that is over is forgotten when the next step begins, so that questions about its end can still be asked. Of
the groups that were left in good order the last few stay to answer members that are still in the view that was left
(parts/membership). A group that was left can be joined again: message numbers go on where they ended, so that none is
used twice. For that the engine keeps one number for each of the groups that were left; beyond `_NUMBERS_MAX` groups the
oldest are dropped, and whatever is joined later starts above all of theirs.

The caller's mistakes raise UsageError before anything has changed. Nothing that comes from the network raises: bad
packets are counted by reason and dropped.
"""

from heapq import heappop, heappush, heapreplace
from random import Random
from typing import Final, final

from antiphon.kernel.calls import stack_of_token
from antiphon.kernel.codec import STACK_AT, unseal
from antiphon.kernel.credentials import Credentials
from antiphon.kernel.effects import NEVER, Effects, Flushed
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import (
    Close,
    Create,
    Flush,
    Forget,
    Input,
    Join,
    Leave,
    Open,
    Pause,
    Receive,
    Recover,
    Resume,
    Send,
    SendBarrier,
    StackRequest,
    Tick,
)
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.options import Options
from antiphon.kernel.outcomes import CallOutcome
from antiphon.parts.member import Member, PeerState, StabilityMark, add_statistics
from antiphon.parts.membership.phases import JOINING
from antiphon.stacks.registry import DEFAULT, check_level, check_options, has_number, kind, unasked_stack
from antiphon.stacks.stack import Stack

_LINGERING_MAX: Final = 64
"""Groups that were left in good order and still answer."""
_NUMBERS_MAX: Final = 100_000
"""Groups that were left of which the last message's number is kept."""


@final
class PendingFlush:
    """Somebody waits until all that the marks stand for is where it is to be."""

    __slots__ = ("input", "marks")

    def __init__(self, input: Flush, marks: list[StabilityMark]) -> None:
        self.input = input
        self.marks = marks


@final
class Engine:
    """All groups of one process."""

    __slots__ = (
        "_by_serial",
        "_credentials",
        "_deadlines",
        "_dropped",
        "_ended",
        "_flushes",
        "_groups",
        "_last_numbers",
        "_lingering",
        "_names",
        "_number_floor",
        "_options",
        "_paused",
        "_random",
        "_serial",
        "_stack_of",
        "_stacks",
        "_stacks_by_name",
        "_stacks_by_number",
        "_streams",
        "_totals",
        "_touched",
        "process",
    )

    def __init__(
        self, process: ProcessId, random: Random, options: Options, credentials: Credentials | None = None
    ) -> None:
        check_options(options)
        self.process = process
        self._credentials = credentials or Credentials()
        self._random = random
        self._options = options
        self._stacks: list[Stack] = []
        self._stacks_by_name: dict[str, Stack] = {}
        self._stacks_by_number: dict[int, Stack] = {}
        self._groups: dict[str, Member] = {}
        self._names: dict[int, str] = {}
        """The names of groups, by the number that stands for each in packets."""
        self._stack_of: dict[int, Stack] = {}
        """The stack of each member, by its serial number."""
        self._by_serial: dict[int, Member] = {}
        self._serial = 0
        self._deadlines: list[tuple[int, int]] = []
        """A heap: when a member may be due, and its serial number."""
        self._streams: dict[str, dict[int, Member]] = {}
        """The members whose events are read by one stream, by serial number."""
        self._paused: set[str] = set()
        self._flushes: list[PendingFlush] = []
        self._touched: list[Member] = []
        """The members that this step has done something to; all stacks share it."""
        self._ended: list[Member] = []
        """Members whose group is over, to be forgotten when the next step begins."""
        self._lingering: dict[str, Member] = {}
        self._last_numbers: dict[str, int] = {}
        self._number_floor = 0
        self._totals: dict[str, int] = {}
        """Statistics of groups that were forgotten."""
        self._dropped: dict[str, int] = {}

    def step(self, input: Input, now_ns: int) -> Effects:
        """Take one input at time `now_ns`, which never goes back."""
        effects = Effects()
        if self._ended:
            self._forget_ended()
        if isinstance(input, Receive):
            self._receive(input, effects, now_ns)
        elif isinstance(input, Tick):
            self._tick(effects, now_ns)
        elif isinstance(input, Join):
            self._join(input, effects, now_ns)
        elif isinstance(input, Send):
            self._send(input, effects, now_ns)
        elif isinstance(input, StackRequest):
            self._stack(input.stack).request(input, effects, now_ns)
        elif isinstance(input, CallOutcome):
            self._stack_by_number(stack_of_token(input.token)).take_outcome(input, effects, now_ns)
        else:
            self._act(input, effects, now_ns)
        for member in self._touched:
            if member.unfinished:
                member.finish(effects, now_ns)
        for stack in self._stacks:
            if not stack.groups_apart:
                stack.end_step(effects, now_ns)
        if self._flushes:
            self._look_at_flushes(effects)
        self._note_deadlines(effects)
        return effects

    # ---- what the application wants --------------------------------------------------------------------------------

    def _send(self, input: Send, effects: Effects, now_ns: int) -> None:
        member = self._groups.get(input.group)
        if member is None:
            if not input.stack:
                self._group(input.group)
            stack = self._stack(input.stack)
        else:
            stack = self._stack_of[member.serial]
        if not stack.offers.level_bits >> input.level & 1:
            check_level(stack.offers, LEVEL_NAMES[input.level])
        if input.label and not stack.offers.labels:
            raise UsageError(f"stack {stack.offers.name!r} knows no labels; send without one")
        if input.destinations and not stack.offers.private:
            raise UsageError(f"stack {stack.offers.name!r} sends every message to all members; name no destination")
        if member is None:
            effects.accepted = stack.send_outside(input, effects, now_ns)
            return
        if not member.touched:
            self._begin(member, stack, now_ns)
        effects.accepted = member.send(input, effects, now_ns)
        member.unfinished = True

    def _act(
        self,
        input: SendBarrier | Pause | Resume | Leave | Create | Forget | Recover | Flush | Open | Close,
        effects: Effects,
        now_ns: int,
    ) -> None:
        if isinstance(input, Pause):
            self._pause(input.stream, now_ns)
        elif isinstance(input, Resume):
            self._resume(input.stream, effects, now_ns)
        elif isinstance(input, SendBarrier):
            member = self._touch(self._group(input.group), now_ns)
            effects.accepted = member.barrier(input.payload, effects, now_ns)
            member.unfinished = True
        elif isinstance(input, Leave):
            member = self._touch(self._group(input.group), now_ns)
            member.leave(now_ns)
            member.unfinished = True
        elif isinstance(input, Create):
            view = View(input.last_view + 1, (self.process,), (input.address,) if input.address else ())
            join = Join(
                group=input.group, stack=input.stack, view=view, policy=input.policy, address=input.address,
                domain=input.domain, stream=input.stream, last_view=input.last_view,
            )  # fmt: skip
            self._join(join, effects, now_ns)
        elif isinstance(input, Forget):
            self._drop(input.group, now_ns)
        elif isinstance(input, Recover):
            member = self._touch(self._group(input.group), now_ns)
            member.recover(effects, now_ns)
            member.unfinished = True
        elif isinstance(input, Flush):
            self._flushes.append(PendingFlush(input, self.mark(list(input.groups))))
        elif isinstance(input, Open):
            self._stack(input.stack).open(input, effects, now_ns)
        else:
            self._stack(input.stack).close(input, effects, now_ns)

    def _begin(self, member: Member, stack: Stack, now_ns: int) -> None:
        """Note that this step does something to a member; a stack whose groups depend on each other does so itself."""
        if stack.groups_apart:
            member.touched = True
            self._touched.append(member)
        else:
            stack.touch(member, now_ns)

    def _touch(self, member: Member, now_ns: int) -> Member:
        self._stack_of[member.serial].touch(member, now_ns)
        return member

    def _pause(self, stream: str, now_ns: int) -> None:
        if stream in self._streams:
            self._paused.add(stream)
            for member in self._streams[stream].values():
                self._touch(member, now_ns).pause()

    def _resume(self, stream: str, effects: Effects, now_ns: int) -> None:
        """Let the groups of a stream deliver again, each to its end before the next: between them the stack keeps the
        order."""
        self._paused.discard(stream)
        for member in list(self._streams.get(stream, {}).values()):
            self._touch(member, now_ns).resume(effects, now_ns)
            member.finish(effects, now_ns)

    def _look_at_flushes(self, effects: Effects) -> None:
        for flush in [flush for flush in self._flushes if self.is_stable(flush.marks, flush.input.copies)]:
            self._flushes.remove(flush)
            effects.events.append(Flushed(flush.input.request))

    def _receive(self, input: Receive, effects: Effects, now_ns: int) -> None:
        stacks = self._stacks_by_number
        authors = input.authors
        for place, data in enumerate(input.datagrams):
            try:
                kind, group_id, tag, sender, flags, level = unseal(data)
                stack = stacks.get(data[STACK_AT])
                member = None if stack is None else stack.members.get(group_id)
                if member is None and group_id in self._names:
                    author = "" if authors is None else authors[place]
                    self._answer_astray(data[STACK_AT], kind, group_id, flags, data, author, effects, now_ns)
                if stack is None:
                    unasked = unasked_stack(data[STACK_AT], kind)
                    if not unasked:
                        raise MalformedError("group" if has_number(data[STACK_AT]) else "stack")
                    stack = self._stack(unasked)
                if member is None:
                    stack.receive(kind, group_id, tag, sender, flags, level, data, effects, now_ns)
                else:
                    if not member.touched:
                        self._begin(member, stack, now_ns)
                    if authors is not None:
                        member.author = authors[place]
                    member.receive(kind, tag, sender, flags, level, data, effects, now_ns)
                    member.unfinished = True
            except MalformedError as error:
                self._dropped[error.reason] = self._dropped.get(error.reason, 0) + 1

    def _answer_astray(
        self, stack: int, kind: int, group_id: int, flags: int, data: bytes, author: str, effects: Effects, now_ns: int
    ) -> None:
        """A packet is for a group that this process is in, but for another stack than the group is on."""
        member = self._groups.get(self._names[group_id])
        if member is not None and not member.over and has_number(stack):
            member.author = author
            self._touch(member, now_ns).answer_other_stack(stack, kind, flags, data, effects)

    # ---- time ------------------------------------------------------------------------------------------------------

    def _tick(self, effects: Effects, now_ns: int) -> None:
        for stack in self._stacks:
            if not stack.groups_apart and stack.deadline_ns() <= now_ns:
                stack.tick(effects, now_ns)
        due: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            at_ns, serial = heappop(self._deadlines)
            member = self._by_serial.get(serial)
            if member is not None and member.armed_ns == at_ns:
                member.armed_ns = NEVER
                if member.due_ns <= now_ns:
                    due.append(serial)
                elif member.due_ns != NEVER:
                    self._arm(member)
        for serial in sorted(due):
            member = self._by_serial[serial]
            self._stack_of[serial].touch(member, now_ns)
            member.tick(effects, now_ns)
            member.finish(effects, now_ns)

    def _arm(self, member: Member) -> None:
        member.armed_ns = member.due_ns
        heappush(self._deadlines, (member.due_ns, member.serial))

    def _note_deadlines(self, effects: Effects) -> None:
        """Note when those are due that this step has touched, and find out who is due first."""
        for member in self._touched:
            member.touched = False
            member.due_ns = member.deadline_ns()
            if member.due_ns < member.armed_ns:
                self._arm(member)
            if member.over:
                self._ended.append(member)
        self._touched.clear()
        heap = self._deadlines
        while heap:
            at_ns, serial = heap[0]
            first = self._by_serial.get(serial)
            if first is None or first.armed_ns != at_ns:
                heappop(heap)
            elif first.due_ns == NEVER:
                first.armed_ns = NEVER
                heappop(heap)
            elif first.due_ns > at_ns:
                first.armed_ns = first.due_ns
                heapreplace(heap, (first.due_ns, serial))
            else:
                effects.deadline_ns = at_ns
                break
        for stack in self._stacks:
            if not stack.groups_apart:
                effects.deadline_ns = min(effects.deadline_ns, stack.deadline_ns())

    # ---- joining and forgetting ------------------------------------------------------------------------------------

    def _join(self, input: Join, effects: Effects, now_ns: int) -> None:
        if input.group in self._groups:
            raise UsageError(f"{self.process} is a member of group {input.group!r} already")
        other = self._names.get(wire_id(input.group), input.group)
        if other != input.group:
            raise UsageError(f"the name {input.group!r} collides with that of group {other!r} here; choose another")
        input.stack = input.stack or DEFAULT
        stack = self._stack(input.stack)
        stack.check_join(input)
        lingering = self._lingering.get(input.group)
        if lingering is not None:
            self._forget(lingering)
        member = stack.join(input, self._last_numbers.get(input.group, self._number_floor) + input.unsent)
        self._serial += 1
        member.serial = self._serial
        self._by_serial[self._serial] = member
        self._stack_of[self._serial] = stack
        self._groups[input.group] = member
        self._names[member.group_id] = input.group
        member.stream = input.stream or input.group
        member.credentials = self._credentials
        self._streams.setdefault(member.stream, {})[self._serial] = member
        stack.touch(member, now_ns)
        member.start(input.contacts, effects, now_ns)
        member.unfinished = True
        if member.stream in self._paused:
            member.pause()

    def _stack(self, name: str) -> Stack:
        """The one object of this stack that the process has; it is made when it is first asked for."""
        stack = self._stacks_by_name.get(name)
        if stack is None:
            stack = kind(name).make(self.process, self._random, self._options)
            stack.touched = self._touched
            self._stacks.append(stack)
            self._stacks_by_name[name] = stack
            self._stacks_by_number[stack.offers.number] = stack
        return stack

    def _stack_by_number(self, number: int) -> Stack:
        stack = self._stacks_by_number.get(number)
        if stack is None:
            raise UsageError(f"no stack of {self.process} has the number {number}, so it has asked for nothing")
        return stack

    def _forget_ended(self) -> None:
        """Forget groups that are over; those that were left in good order, or that refused this process, stay for a
        while, to answer others."""
        for member in self._ended:
            if self._groups.get(member.group) is not member:
                continue  # it answered somebody once more
            del self._groups[member.group]
            self._lingering[member.group] = member
            if member.abandoned or (member.excluded and not member.refused):
                self._forget(member)
        self._ended.clear()
        while len(self._lingering) > _LINGERING_MAX:
            self._forget(next(iter(self._lingering.values())))

    def _drop(self, group: str, now_ns: int) -> None:
        """Take no more part in a group, at once. It is forgotten when the next step begins: what waited for it in other
        groups goes on in this one."""
        member = self._groups.get(group)
        if member is not None:
            self._touch(member, now_ns).abandon()
        elif group in self._lingering:
            self._forget(self._lingering[group])

    def _forget(self, member: Member) -> None:
        """Drop all that is kept for a group that is over, but for the number of its last message."""
        del self._lingering[member.group]
        del self._by_serial[member.serial]
        del self._names[member.group_id]
        streamed = self._streams[member.stream]
        del streamed[member.serial]
        if not streamed:
            del self._streams[member.stream]
            self._paused.discard(member.stream)
        self._stack_of.pop(member.serial).forget(member)
        self._last_numbers.pop(member.group, None)
        self._last_numbers[member.group] = member.last_number()
        if len(self._last_numbers) > _NUMBERS_MAX:
            oldest = next(iter(self._last_numbers))
            self._number_floor = max(self._number_floor, self._last_numbers.pop(oldest))
        add_statistics(self._totals, member.statistics())

    # ---- questions -------------------------------------------------------------------------------------------------

    def _group(self, name: str) -> Member:
        member = self._groups.get(name)
        if member is None:
            longer = "no longer" if name in self._lingering or name in self._last_numbers else "not"
            raise UsageError(f"{self.process} is {longer} a member of group {name!r}; join it first")
        return member

    def is_member(self, group: str) -> bool:
        """Whether this process is in the group, or has asked to be let in."""
        return group in self._groups

    def is_retiring(self) -> bool:
        """Whether this process, whose life is over, still takes part in agreements by which it parts from groups."""
        return any(member.retiring for member in self._groups.values())

    def is_stalled(self, group: str) -> bool:
        """Whether a group stands still here for want of a majority: `Recover` is for such, and refused for others."""
        member = self._groups.get(group)
        return member is not None and not member.over and member.is_stalled()

    def outstanding(self, group: str) -> int:
        """Own messages and packets that are not yet known to be stable at every member."""
        return self._group(group).outstanding()

    def outstanding_outside(self, group: str, stack: str) -> int:
        """What was sent to a group without being in it, and is not acknowledged."""
        return self._stack(stack).outstanding_outside(group)

    def held(self, group: str) -> int:
        """Packets that have arrived and wait for their place."""
        return self._group(group).held()

    def phase(self, group: str) -> int:
        """The phase that the membership of this group is in (parts/membership/agreement.py)."""
        member = self._groups.get(group)
        return JOINING if member is None else member.phase()

    def waits_for(self, group: str) -> str:
        """What the join of this group waits for, in words; "" where nothing is known."""
        member = self._groups.get(group)
        return "" if member is None else member.waits_for()

    def mark(self, groups: list[str]) -> list[StabilityMark]:
        """All that was sent or delivered in these groups until now, for `is_stable` to ask about later."""
        return [self._group(group).mark() for group in groups]

    def is_stable(self, marks: list[StabilityMark], copies: int = 0) -> bool:
        """Whether all that the marks stand for has reached so many members beside its sender (0: all of them). What
        was sent in a group that is over is not waited for."""
        for mark in marks:
            member = self._groups.get(mark.group)
            if member is not None and not member.is_stable(mark, copies):
                return False
        return True

    def groups_of(self, domain: str) -> list[str]:
        """The groups of a causality domain that this process is in."""
        return [group for stack in self._stacks for group in stack.groups_of(domain)]

    def situations(self) -> dict[str, int]:
        """How often this process has been in each situation that its stacks name."""
        total: dict[str, int] = {}
        for stack in self._stacks:
            for name, count in stack.situations().items():
                total[name] = total.get(name, 0) + count
        return total

    def peers(self, group: str, now_ns: int) -> list[PeerState]:
        """What this process knows of each other member of its view, where the members know of each other."""
        member = self._groups.get(group)
        return [] if member is None else member.peers(now_ns)

    def group_statistics(self, group: str) -> dict[str, int]:
        """Counters of one group since it was joined, and how much waits there."""
        member = self._groups.get(group)
        return {} if member is None else member.statistics()

    def dropped(self) -> dict[str, int]:
        """Packets that were no good, by reason."""
        return self._dropped.copy()

    def statistics(self) -> dict[str, int]:
        """Counters, over all groups; `dropped_<reason>` for packets that were no good."""
        total = self._totals.copy()
        for member in self._by_serial.values():
            for name, value in member.statistics().items():
                total[name] = total.get(name, 0) + value
        for reason, count in self._dropped.items():
            total[f"dropped_{reason}"] = count
        return total
