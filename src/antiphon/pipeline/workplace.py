"""Where the passes of an audit run: on Spark, or in this process.

An audit is two passes of one function over numbered tasks, with knowledge that all of them share, and a comparison of
view rows over all logs. A workplace does these three things; what is computed is the same wherever it is. That on Spark
is `antiphon.pipeline.on_spark`; the one here needs no Java and starts at once, for histories that one process can read
in the time that Spark takes to start.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from antiphon.history.reader import Unit
from antiphon.pipeline import view_counts
from antiphon.pipeline.audit.pieces import HeldTask, Task
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.view_rows import GroupCounts, Logs

Work = Callable[[int, Task], Iterator[pa.RecordBatch]]
"""What is done for one task, which comes with its place."""


class Workplace(ABC):
    """Runs the passes of an audit."""

    @abstractmethod
    def over_tasks(self, chosen: Sequence[int] | None, work: Work, schema: pa.Schema) -> pa.Table:
        """Run `work` over some tasks, by their places, or over all; all that it yields, in no particular order."""

    @abstractmethod
    def unit(self, place: int, number: int) -> Unit:
        """A row group of a task that reads files."""

    @abstractmethod
    def leave_out(self, units: Collection[Unit]) -> None:
        """Read these row groups no more: they are damaged."""

    @abstractmethod
    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        """A function that gives `content` where `work` calls it, as long as the context lasts."""

    @abstractmethod
    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        """view_agreement and primary in all groups that are held to them; groups by name."""


class InProcess(Workplace):
    """One task after the other, here."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)

    def over_tasks(self, chosen: Sequence[int] | None, work: Work, schema: pa.Schema) -> pa.Table:
        places = range(len(self._tasks)) if chosen is None else chosen
        return pa.Table.from_batches([batch for place in places for batch in work(place, self._tasks[place])], schema)

    def unit(self, place: int, number: int) -> Unit:
        return unit_of(self._tasks[place], number)

    def leave_out(self, units: Collection[Unit]) -> None:
        self._tasks = tasks_without(self._tasks, units)

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return nullcontext(lambda: content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_counts.count_views(logs, promises)


def tasks_without(tasks: Sequence[Task], units: Collection[Unit]) -> list[Task]:
    """The tasks, each without these row groups."""
    return [task if isinstance(task, HeldTask) else tuple(unit for unit in task if unit not in units) for task in tasks]


def unit_of(task: Task, number: int) -> Unit:
    """A row group of a task."""
    assert not isinstance(task, HeldTask), "a task that holds its pieces reads no row group"
    return task[number]
