"""The engine: one per process. All inputs come in by `step`, which routes them to the groups; all outputs leave as
effects.

Sans-I/O: no sockets, no clock, no randomness of its own. The same inputs at the same times with the same generator
give the same effects, byte for byte, in pure Python and compiled.

Groups of one causality domain depend on each other: what happens in one may free what waits in another. So after
whatever a step did to one group, the others of its domain are looked at, until nothing moves any more. Exclusion from
one group ends this process's life in all of its domain.

The caller's mistakes raise UsageError before anything has changed. Nothing that comes from the network raises: bad
packets are counted by reason and dropped.
"""

from random import Random
from typing import final

from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Effects, Ended
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Input, Join, Leave, Pause, Receive, Resume, Send, SendBarrier, Tick
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.options import Options
from antiphon.parts.membership.agreement import JOINING
from antiphon.parts.membership.group import GroupMember, StabilityMark
from antiphon.stacks.conversation.group.member import ConversationMember
from antiphon.stacks.registry import CONVERSATION, Capabilities, offer
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.member import VectorMember


@final
class Engine:
    """All groups of one process."""

    __slots__ = (
        "_crossed",
        "_crossings",
        "_deadlines_ns",
        "_dropped",
        "_groups",
        "_groups_by_id",
        "_offers",
        "_options",
        "_random",
        "_touched",
        "process",
    )

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        self.process = process
        self._random = random
        self._options = options
        self._crossings: dict[str, InterGroupOrder] = {}
        self._groups: dict[str, GroupMember] = {}
        self._groups_by_id: dict[int, GroupMember] = {}
        self._crossed: list[VectorMember] = []
        """The groups that are kept in order with each other."""
        self._offers: dict[str, Capabilities] = {}
        """What the stack of each group offers."""
        self._dropped: dict[str, int] = {}
        self._deadlines_ns: dict[int, int] = {}
        self._touched: list[GroupMember] = []
        """The groups that this step has done something to."""

    def step(self, input: Input, now_ns: int) -> Effects:
        """Take one input at time `now_ns`, which never goes back."""
        effects = Effects()
        for crossing in self._crossings.values():
            crossing.now_ns = now_ns
        if isinstance(input, Receive):
            self._receive(input, effects, now_ns)
        elif isinstance(input, Tick):
            self._tick(effects, now_ns)
        elif isinstance(input, Join):
            self._join(input, effects, now_ns)
        else:
            self._act(input, self._group(input.group), effects, now_ns)
        if len(self._crossed) > 1:
            self._move_on(effects, now_ns)
        for group in self._touched:
            self._deadlines_ns[group.group_id] = group.deadline_ns()
        self._touched.clear()
        for deadline_ns in self._deadlines_ns.values():
            if deadline_ns < effects.deadline_ns:
                effects.deadline_ns = deadline_ns
        for crossing in self._crossings.values():
            effects.deadline_ns = min(effects.deadline_ns, crossing.deadline_ns())
        return effects

    def _act(
        self, input: Send | SendBarrier | Pause | Resume | Leave, group: GroupMember, effects: Effects, now_ns: int
    ) -> None:
        """What the application wants of one group."""
        self._touch(group)
        if isinstance(input, Send):
            self._offers[input.group].check_level(LEVEL_NAMES[input.level])
            group.send(input.payloads, input.level, input.destination, effects, now_ns)
        elif isinstance(input, SendBarrier):
            group.barrier(input.payload, effects, now_ns)
        elif isinstance(input, Pause):
            group.pause()
            return
        elif isinstance(input, Resume):
            group.resume(effects, now_ns)
        else:
            group.leave(now_ns)
        group.finish(effects, now_ns)

    def _tick(self, effects: Effects, now_ns: int) -> None:
        for crossing in self._crossings.values():
            if crossing.deadline_ns() <= now_ns:
                crossing.tick(now_ns)
        for group in self._groups.values():
            if self._deadlines_ns[group.group_id] <= now_ns:
                self._touch(group)
                group.tick(effects, now_ns)
                group.finish(effects, now_ns)

    def _touch(self, group: GroupMember) -> None:
        if group not in self._touched:
            self._touched.append(group)

    def _receive(self, input: Receive, effects: Effects, now_ns: int) -> None:
        for data in input.datagrams:
            try:
                kind, group_id, tag, sender, flags, level = unseal(data)
                group = self._groups_by_id.get(group_id)
                if group is None:
                    raise MalformedError("group")
                group.receive(kind, tag, sender, flags, level, data, effects, now_ns)
            except MalformedError as error:
                self._dropped[error.reason] = self._dropped.get(error.reason, 0) + 1
                continue
            if group not in self._touched:
                self._touched.append(group)
        for group in self._touched:
            group.finish(effects, now_ns)

    def _move_on(self, effects: Effects, now_ns: int) -> None:
        """Let the groups of each domain follow each other until nothing moves."""
        for event in effects.events:
            if isinstance(event, Ended) and event.excluded:
                excluded = self._groups[event.group]
                if isinstance(excluded, VectorMember):
                    self._expel(excluded.crossing, effects)
                    break
        progress = True
        while progress:
            progress = False
            for group in self._crossed:
                if group.waits() and not group.crossing.is_alone():
                    self._touch(group)
                    if group.retry_blocked(effects, now_ns):
                        progress = True
        for crossing in self._crossings.values():
            for group_id in crossing.take_acks_requested():
                for group in self._crossed:
                    if group.group_id == group_id:
                        group.collect(effects)

    def _expel(self, crossing: InterGroupOrder, effects: Effects) -> None:
        for group in self._crossed:
            if group.crossing is crossing:
                self._touch(group)
                group.expel(effects)

    def _join(self, input: Join, effects: Effects, now_ns: int) -> None:
        if input.group in self._groups:
            raise UsageError(f"{self.process} is a member of group {input.group!r} already")
        offered = offer(input.stack)
        if wire_id(input.group) in self._groups_by_id:
            raise UsageError(f"the name {input.group!r} collides with that of another group here; choose another name")
        group: GroupMember
        if offered is CONVERSATION:
            group = ConversationMember(input, self.process, self._options)
        else:
            group = self._join_crossed(input)
        self._offers[input.group] = offered
        self._groups[input.group] = group
        self._groups_by_id[group.group_id] = group
        self._touch(group)
        group.start(input.contacts, effects, now_ns)
        group.finish(effects, now_ns)

    def _join_crossed(self, input: Join) -> VectorMember:
        """A group that is kept in order with the others of its domain."""
        crossing = self._crossings.get(input.domain.name)
        if crossing is None:
            crossing = InterGroupOrder(input.domain, self._random, self._options)
        elif crossing.domain != input.domain:
            raise UsageError(
                f"group {input.group!r} declares the causality domain {input.domain.name!r} as {input.domain}, but "
                f"another group here declares it as {crossing.domain}; declare it alike"
            )
        group = VectorMember(input, self.process, crossing, self._random, self._options)
        self._crossings[input.domain.name] = crossing
        self._crossed.append(group)
        return group

    def _group(self, name: str) -> GroupMember:
        group = self._groups.get(name)
        if group is None:
            raise UsageError(f"{self.process} is not a member of group {name!r}; join it first")
        return group

    def outstanding(self, group: str) -> int:
        """Own messages and packets that are not yet known to be stable at every member."""
        return self._group(group).outstanding()

    def held(self, group: str) -> int:
        """Packets that have arrived and wait for their place."""
        return self._group(group).held()

    def phase(self, group: str) -> int:
        """The phase that the membership of this group is in (parts/membership/agreement.py)."""
        joined = self._groups.get(group)
        return JOINING if joined is None else joined.phase()

    def mark(self, groups: list[str]) -> list[StabilityMark]:
        """All that was sent or delivered in these groups until now, for `is_stable` to ask about later."""
        return [self._group(group).mark() for group in groups]

    def is_stable(self, marks: list[StabilityMark], copies: int = 0) -> bool:
        """Whether all that the marks stand for has reached so many members beside its sender (0: all of them)."""
        return all(self._group(mark.group).is_stable(mark, copies) for mark in marks)

    def groups_of(self, domain: str) -> list[str]:
        """The groups of a causality domain that this process is in."""
        return [group.group for group in self._crossed if group.crossing.domain.name == domain and not group.over]

    def statistics(self) -> dict[str, int]:
        """Counters, over all groups; `dropped_<reason>` for packets that were no good."""
        total: dict[str, int] = {}
        for group in self._groups.values():
            for name, value in group.statistics().items():
                total[name] = total.get(name, 0) + value
        for reason, count in self._dropped.items():
            total[f"dropped_{reason}"] = count
        return total
