"""The engine: one per process. All inputs come in by `step`, which routes them to the groups; all outputs leave as
effects.

Sans-I/O: no sockets, no clock, no randomness of its own. The same inputs at the same times with the same generator
give the same effects, byte for byte, in pure Python and compiled.

The caller's mistakes raise UsageError before anything has changed. Nothing that comes from the network raises: bad
packets are counted by reason and dropped.
"""

from random import Random
from typing import final

from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Effects
from antiphon.kernel.errors import LevelNotOfferedError, MalformedError, UsageError
from antiphon.kernel.identity import ProcessId, wire_id
from antiphon.kernel.inputs import Input, Join, Leave, Pause, Receive, Resume, Send, Tick
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.options import Options
from antiphon.stacks.vector import stack as vector
from antiphon.stacks.vector.stack import VectorStack


@final
class Engine:
    """All groups of one process."""

    __slots__ = ("_dropped", "_groups", "_groups_by_id", "_options", "_random", "process")

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        self.process = process
        self._random = random
        self._options = options
        self._groups: dict[str, VectorStack] = {}
        self._groups_by_id: dict[int, VectorStack] = {}
        self._dropped: dict[str, int] = {}

    def step(self, input: Input, now_ns: int) -> Effects:
        """Take one input at time `now_ns`, which never goes back."""
        effects = Effects()
        if isinstance(input, Receive):
            self._receive(input, effects, now_ns)
        elif isinstance(input, Send):
            self._send(input, effects, now_ns)
        elif isinstance(input, Tick):
            for group in self._groups.values():
                if group.deadline_ns() <= now_ns:
                    group.tick(effects, now_ns)
                    group.finish(effects, now_ns)
        elif isinstance(input, Pause):
            self._group(input.group).pause()
        elif isinstance(input, Resume):
            group = self._group(input.group)
            group.resume(effects, now_ns)
            group.finish(effects, now_ns)
        elif isinstance(input, Leave):
            group = self._group(input.group)
            group.leave(now_ns)
            group.finish(effects, now_ns)
        else:
            self._join(input, effects, now_ns)
        for group in self._groups.values():
            deadline_ns = group.deadline_ns()
            if deadline_ns < effects.deadline_ns:
                effects.deadline_ns = deadline_ns
        return effects

    def _receive(self, input: Receive, effects: Effects, now_ns: int) -> None:
        touched: list[VectorStack] = []
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
            if group not in touched:
                touched.append(group)
        for group in touched:
            group.finish(effects, now_ns)

    def _send(self, input: Send, effects: Effects, now_ns: int) -> None:
        group = self._group(input.group)
        name = LEVEL_NAMES[input.level]
        if name not in vector.LEVELS_OFFERED:
            raise LevelNotOfferedError(name, vector.NAME, vector.LEVELS_OFFERED, ())
        group.send(input.payloads, input.level, effects, now_ns)
        group.finish(effects, now_ns)

    def _join(self, input: Join, effects: Effects, now_ns: int) -> None:
        if input.group in self._groups:
            raise UsageError(f"{self.process} is a member of group {input.group!r} already")
        if input.stack != vector.NAME:
            raise UsageError(f"there is no stack {input.stack!r}; the stacks are: {vector.NAME}")
        if wire_id(input.group) in self._groups_by_id:
            raise UsageError(f"the name {input.group!r} collides with that of another group here; choose another name")
        group = VectorStack(input, self.process, self._random, self._options)
        self._groups[input.group] = group
        self._groups_by_id[group.group_id] = group
        group.start(input.contacts, effects, now_ns)
        group.finish(effects, now_ns)

    def _group(self, name: str) -> VectorStack:
        group = self._groups.get(name)
        if group is None:
            raise UsageError(f"{self.process} is not a member of group {name!r}; join it first")
        return group

    def outstanding(self, group: str) -> int:
        """Own messages and packets that are not yet known to be stable at every member."""
        return self._group(group).outstanding()

    def statistics(self) -> dict[str, int]:
        """Counters, over all groups; `dropped_<reason>` for packets that were no good."""
        total: dict[str, int] = {}
        for group in self._groups.values():
            for name, value in group.statistics().items():
                total[name] = total.get(name, 0) + value
        for reason, count in self._dropped.items():
            total[f"dropped_{reason}"] = count
        return total
