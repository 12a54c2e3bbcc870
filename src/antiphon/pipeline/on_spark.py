"""The passes of an audit on Spark: tasks as partitions, knowledge shipped to the workers, view rows as frames."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from antiphon.history.reader import Unit
from antiphon.pipeline import view_frames
from antiphon.pipeline.audit.pieces import Task
from antiphon.pipeline.passes import over_numbers
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.shipping import shipped
from antiphon.pipeline.view_rows import GroupCounts, Logs
from antiphon.pipeline.workplace import Work, Workplace, tasks_without, unit_of


def over_tasks(
    spark: SparkSession, chosen: Sequence[int], work: Callable[[int], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Run `work` over some tasks, by their places."""

    def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(chosen[number])

    return over_numbers(spark, len(chosen), work_on, schema)


class OnSpark(Workplace):
    """The row groups of a history, each read by the worker that gets it; the files lie where all workers see them."""

    def __init__(self, spark: SparkSession, tasks: Sequence[Task]) -> None:
        self._spark = spark
        self.tasks = list(tasks)

    def over_tasks(self, chosen: Sequence[int] | None, work: Work, schema: pa.Schema) -> pa.Table:
        tasks = self.tasks
        places = range(len(tasks)) if chosen is None else chosen
        return over_tasks(self._spark, places, lambda place: work(place, tasks[place]), schema).toArrow()

    def unit(self, place: int, number: int) -> Unit:
        return unit_of(self.tasks[place], number)

    def leave_out(self, units: Collection[Unit]) -> None:
        self.tasks = tasks_without(self.tasks, units)

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return shipped(self._spark, content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_frames.count_views(self._spark, logs, promises)
