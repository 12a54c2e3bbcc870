"""The operations of a Jepsen history in JSON, paired and checked.

An operation is a map with `type` (invoke, ok, fail, info), `process` and `f`, with `value`, and perhaps with `time`, in
ns, and `index`. A process has one operation open at a time: an invoke, and what became of it: it happened (ok), it did
not (fail), or nobody knows (info, or no completion at all). After an info the process is never used again. Operations
of processes that are no number, such as the nemesis, are left out.

Both workloads come out as transactions of appends and reads: a broadcast of v is an append of v to the one list that a
read reads.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.json_scan import json_values

TYPES: Final = ("invoke", "ok", "fail", "info")
BROADCAST: Final = "broadcast"
APPEND: Final = "append"
WORKLOAD_BY_FUNCTION: Final = {"broadcast": BROADCAST, "read": BROADCAST, "txn": APPEND}
OPERATIONS_MAX: Final = 1_000_000

Value = int | str


class Append(NamedTuple):
    """Adds a value to the list of a group."""

    group: str
    value: Value


class JepsenRead(NamedTuple):
    """Finds these values in the list of a group."""

    group: str
    values: list[Value]


@dataclass
class JepsenOperation:
    """One operation, from its invocation to what became of it."""

    process: int
    line: int
    function: str
    time_ns: int
    end_ns: int
    steps: list[Append | JepsenRead]
    outcome: str = "info"
    end_line: int = 0


@dataclass(frozen=True)
class JepsenHistory:
    """All operations of clients, in the order in which they began."""

    workload: str
    operations: list[JepsenOperation]


def read_history(file: Path) -> JepsenHistory:
    """Read and check a history."""
    reader = _Reader(file)
    for line, operation in json_values(file):
        reader.take(line, operation)
    if not reader.operations:
        raise MalformedLogError(file, 0, "the history holds no operations of clients")
    return JepsenHistory(reader.workload or BROADCAST, reader.operations)


class _Reader:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: dict[int, JepsenOperation] = {}
        self._retired: dict[int, int] = {}
        """Processes after an info, and its line."""
        self._appended: dict[Append, int] = {}
        """The line of each append, to tell the values of a list apart."""
        self._key_of: dict[str, str] = {}
        self._time_ns = 0
        self._index = -1
        self._count = 0
        self.workload: str | None = None
        self.operations: list[JepsenOperation] = []

    def take(self, line: int, operation: Any) -> None:
        """One map of the file."""
        if not isinstance(operation, dict):
            raise self._error(line, "an operation must be a JSON object")
        kind, process, function = (operation.get(name) for name in ("type", "process", "f"))
        if kind not in TYPES:
            raise self._error(line, f"type {kind!r} is none of {', '.join(TYPES)}")
        self._check_place(line, operation)
        if isinstance(process, str):
            return
        if type(process) is not int or process < 0:
            raise self._error(line, f"process {process!r} is no number of a process")
        if not isinstance(function, str) or function not in WORKLOAD_BY_FUNCTION:
            raise self._error(line, f"f {function!r} is none of {', '.join(WORKLOAD_BY_FUNCTION)}")
        workload = WORKLOAD_BY_FUNCTION[function]
        if self.workload not in (None, workload):
            raise self._error(
                line, f"f {function!r} belongs to a workload {workload}, but this is one of {self.workload}"
            )
        self.workload = workload
        if kind == "invoke":
            self._invoke(line, process, function, operation.get("value"))
        else:
            self._complete(line, process, function, kind, operation.get("value"))

    def _check_place(self, line: int, operation: dict[str, Any]) -> None:
        """Time and index, where they are given, tell the same order as the file."""
        index, time_ns = operation.get("index"), operation.get("time", self._time_ns + 1)
        if index is not None and (type(index) is not int or index <= self._index):
            raise self._error(line, f"index {index!r} does not follow {self._index}")
        if type(time_ns) is not int or not self._time_ns <= time_ns <= 2**62:
            raise self._error(line, f"time {time_ns!r} does not follow {self._time_ns}")
        self._index = self._index if index is None else index
        self._time_ns = time_ns

    def _invoke(self, line: int, process: int, function: str, value: Any) -> None:
        if process in self._open:
            other = self._open[process].line
            raise self._error(line, f"process {process} invokes while its operation of line {other} is open")
        if process in self._retired:
            other = self._retired[process]
            raise self._error(line, f"process {process} goes on after the info on line {other}; Jepsen never does that")
        steps = list(self._steps(line, function, value, completed=False))
        for step in steps:
            if isinstance(step, Append):
                if step in self._appended:
                    other = self._appended[step]
                    reason = f"value {step.value!r} was used on line {other} already; values must be told apart"
                    raise self._error(line, reason)
                self._appended[step] = line
        operation = JepsenOperation(process, line, function, self._time_ns, self._time_ns, steps)
        self._open[process] = operation
        self.operations.append(operation)
        if len(self.operations) > OPERATIONS_MAX:
            raise self._error(line, f"there are more than {OPERATIONS_MAX} operations; cut the history short")

    def _complete(self, line: int, process: int, function: str, kind: str, value: Any) -> None:
        operation = self._open.pop(process, None)
        if operation is None:
            raise self._error(line, f"process {process} completes an operation that it never invoked")
        if operation.function != function:
            reason = f"process {process} invoked {operation.function} on line {operation.line}, not {function}"
            raise self._error(line, reason)
        operation.outcome = kind
        operation.end_ns = self._time_ns
        operation.end_line = line
        if kind == "info":
            self._retired[process] = line
        if kind == "ok" and not (function == "broadcast" and value is None):
            steps = list(self._steps(line, function, value, completed=True))
            if [_shape(step) for step in steps] != [_shape(step) for step in operation.steps]:
                raise self._error(line, f"what completes is not what was invoked on line {operation.line}")
            operation.steps = steps

    def _steps(self, line: int, function: str, value: Any, *, completed: bool) -> Iterator[Append | JepsenRead]:
        if function == "broadcast":
            yield Append(BROADCAST, self._value(line, value))
        elif function == "read":
            yield JepsenRead(BROADCAST, self._values(line, value, completed=completed))
        elif not isinstance(value, list) or not value:
            raise self._error(line, 'the value of a txn must be a list of ["append", key, value] and ["r", key, list]')
        else:
            for step in value:
                match step:
                    case ["append", key, appended]:
                        yield Append(self._group(line, key), self._value(line, appended))
                    case ["r", key, values]:
                        yield JepsenRead(self._group(line, key), self._values(line, values, completed=completed))
                    case _:
                        told = json.dumps(step)[:80]
                        raise self._error(line, f'{told} is neither ["append", key, value] nor ["r", key, list]')

    def _group(self, line: int, key: Any) -> str:
        """The group that stands for a key. Keys of different types that look alike are refused."""
        if type(key) not in (int, str) or key == "":
            raise self._error(line, f"key {key!r} is neither a whole number nor a text")
        group = str(key)
        if self._key_of.setdefault(group, type(key).__name__) != type(key).__name__:
            raise self._error(line, f"key {group} is a number here and a text elsewhere")
        return group

    def _value(self, line: int, value: Any) -> Value:
        if type(value) not in (int, str):
            raise self._error(line, f"value {json.dumps(value)[:80]} is neither a whole number nor a text")
        result: Value = value
        return result

    def _values(self, line: int, values: Any, *, completed: bool) -> list[Value]:
        """A list that was read; null is an empty one, and what an invocation says of it means nothing."""
        if values is None or not completed:
            return []
        if not isinstance(values, list):
            raise self._error(line, f"a read must give a list, not {json.dumps(values)[:80]}")
        return [self._value(line, value) for value in values]

    def _error(self, line: int, reason: str) -> MalformedLogError:
        return MalformedLogError(self._file, line, reason)


def _shape(step: Append | JepsenRead) -> tuple[str, Value | None]:
    return (step.group, step.value) if isinstance(step, Append) else (step.group, None)
