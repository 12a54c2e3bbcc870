"""Import of Jepsen histories: lists in, multicasts out.

    workload broadcast    one group, level reliable: a read gives a set, whose order means nothing
    workload append       one group per key, level safe: a read gives the list as all must see it
    append v              the process sends a message to the group, the next by number; unless the append failed
    read                  the process delivers, in the order of the list, what its reads of it had not shown before
    info, or no end       the message may have gone out: it is sent, and then the process crashes
    group members         the processes that append to the list or read it, in one view for ever

A read that does not extend what its process read of the same list before (append: the old list is not the beginning
of the new one; broadcast: an element is gone) cannot be said by deliveries, which are never taken back. The process
goes on as a new incarnation, which delivers the whole list again: two orders that contradict each other are found by
`total`. What was lost from a set is told in a remark only. What is read but was never appended, or in an append that
failed, is a message of a process `nobody`, which sent none: `creation` is broken.

A client delivers when it reads, and of the lists that it reads. So `causal` over several lists, `settled` and `safe`
say nothing here and are not promised. That transactions are atomic, and real time, are not expressed either.

Memory: all operations, at most OPERATIONS_MAX of them, and all that they read.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from antiphon.history.formats.importing import Imported, ImportOptions, begin
from antiphon.history.formats.jepsen_text import (
    APPEND,
    BROADCAST,
    Append,
    JepsenHistory,
    JepsenOperation,
    JepsenRead,
    Value,
    read_history,
)
from antiphon.history.log import Log
from antiphon.history.recorder import Recorder
from antiphon.history.schema import LEFT

LEVELS: Final = {BROADCAST: "reliable", APPEND: "safe"}
STACK: Final = "jepsen"
NOBODY: Final = "nobody"
RESTARTED: Final = "its next read does not extend what it has read"
UNKNOWN_OUTCOME: Final = "the outcome of its last operation is unknown"


@dataclass(frozen=True)
class ImportedIncarnation:
    """One incarnation of a process."""

    process: int
    incarnation: int

    @property
    def name(self) -> str:
        return f"p{self.process}"


@dataclass(frozen=True)
class ImportedMessage:
    """Who sent a value, and as which number."""

    sender: str
    incarnation: int
    number: int


@dataclass
class Sending:
    """A message on its way into a log."""

    group: str
    number: int


@dataclass
class ImportedDelivery:
    """Values that a read showed for the first time."""

    group: str
    values: list[Value]


@dataclass
class LifeRows:
    """What one incarnation did, before it is known who sent what it delivered."""

    life: ImportedIncarnation
    events: list[tuple[int, Sending | ImportedDelivery]] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    ending: str = LEFT


def import_jepsen(source: Path, directory: Path, options: ImportOptions) -> Imported:
    """Write the history of the Jepsen history `source` into `directory`."""
    history = read_history(source)
    level = options.level or LEVELS[history.workload]
    plan = _Plan(history)
    plan.add_nobody()
    members = {
        group: [f"{rows.life.name}/{rows.life.incarnation}" for rows in plan.lives if group in rows.groups]
        for group in sorted({group for rows in plan.lives for group in rows.groups})
    }
    for rows in plan.lives:
        life = rows.life
        with Recorder(directory, run=options.run, process=life.name, incarnation=life.incarnation) as log:
            _write(log, rows, level, members, plan)
    logs = len(plan.lives)
    if plan.unknown:
        with Recorder(directory, run=options.run, process=NOBODY) as log:
            for group, names in members.items():
                begin(log, group, STACK, level, names)
            log.stop(0, LEFT)
        logs += 1
    return Imported(runs=1, logs=logs, events=len(history.operations), remarks=tuple(plan.remarks()))


class _Plan:
    """Cuts processes into incarnations and numbers their messages."""

    def __init__(self, history: JepsenHistory) -> None:
        self._ordered = history.workload == APPEND
        self.lives: list[LifeRows] = []
        self.messages: dict[tuple[str, Value], ImportedMessage] = {}
        self.unknown: list[tuple[str, Value]] = []
        """Values that were read and never appended."""
        self._restarts = 0
        by_process: dict[int, list[JepsenOperation]] = {}
        for operation in history.operations:
            by_process.setdefault(operation.process, []).append(operation)
        for process, operations in sorted(by_process.items()):
            self._cut(process, operations)

    def add_nobody(self) -> None:
        """Give each value that was read and never appended to `nobody`."""
        numbers: Counter[str] = Counter()
        for rows in self.lives:
            for _, event in rows.events:
                for value in event.values if isinstance(event, ImportedDelivery) else ():
                    if (event.group, value) not in self.messages:
                        numbers[event.group] += 1
                        self.messages[event.group, value] = ImportedMessage(NOBODY, 1, numbers[event.group])
                        self.unknown.append((event.group, value))

    def remarks(self) -> list[str]:
        remarks = []
        if self._restarts:
            remarks.append(
                f"{self._restarts} reads do not extend what their process had read; each began an incarnation"
            )
        if self.unknown:
            group, value = self.unknown[0]
            told = f"{len(self.unknown)} values were read that were never appended, first {value!r} in {group}"
            remarks.append(f"{told}; they are messages of {NOBODY!r}")
        return remarks

    def _cut(self, process: int, operations: list[JepsenOperation]) -> None:
        rows = self._begin(process, 1)
        seen: dict[str, list[Value]] = {}
        numbers: Counter[str] = Counter()
        for operation in operations:
            if operation.outcome == "fail":
                continue
            time_ns = operation.time_ns
            for step in operation.steps:
                if isinstance(step, Append):
                    rows.groups.add(step.group)
                    numbers[step.group] += 1
                    number = numbers[step.group]
                    self.messages[step] = ImportedMessage(rows.life.name, rows.life.incarnation, number)
                    rows.events.append((time_ns, Sending(step.group, number)))
                elif operation.outcome == "ok":
                    time_ns = operation.end_ns
                    new = self._new(seen.get(step.group, []), step)
                    if new is None:
                        rows.ending = RESTARTED
                        rows = self._begin(process, rows.life.incarnation + 1)
                        self._restarts += 1
                        seen.clear()
                        numbers.clear()
                        new = step.values
                    rows.groups.add(step.group)
                    seen[step.group] = step.values
                    if new:
                        rows.events.append((time_ns, ImportedDelivery(step.group, new)))
            if operation.outcome == "info":
                rows.ending = UNKNOWN_OUTCOME

    def _begin(self, process: int, incarnation: int) -> LifeRows:
        rows = LifeRows(ImportedIncarnation(process, incarnation))
        self.lives.append(rows)
        return rows

    def _new(self, before: list[Value], read: JepsenRead) -> list[Value] | None:
        """What a read shows beyond the one before it, or None if it does not extend that."""
        if self._ordered:
            return read.values[len(before) :] if read.values[: len(before)] == before else None
        left = Counter(before)
        new = []
        for value in read.values:
            if left[value]:
                left[value] -= 1
            else:
                new.append(value)
        return None if left.total() else new


def _write(log: Log, rows: LifeRows, level: str, members: dict[str, list[str]], plan: _Plan) -> None:
    for group in sorted(rows.groups):
        begin(log, group, STACK, level, members[group])
    time_ns = 0
    for time_ns, event in rows.events:
        if isinstance(event, Sending):
            log.send(time_ns, event.group, 1, event.number, 1, level, 0)
        else:
            for value in event.values:
                message = plan.messages[event.group, value]
                sender, incarnation = message.sender, message.incarnation
                log.deliver(time_ns, event.group, 1, sender, incarnation, message.number, 1, level, 0)
    if rows.ending == UNKNOWN_OUTCOME:
        log.crash(time_ns, UNKNOWN_OUTCOME)
    else:
        log.stop(time_ns, rows.ending)
