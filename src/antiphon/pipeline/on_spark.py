"""The passes of an audit on Spark: tasks as partitions, knowledge shipped to the workers, view rows as frames."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from antiphon.pipeline import view_frames
from antiphon.pipeline.passes import over_numbers
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.shipping import shipped
from antiphon.pipeline.view_rows import GroupCounts, Logs
from antiphon.pipeline.workplace import Work, Workplace


def over_tasks(spark: SparkSession, chosen: Sequence[int], work: Work, schema: pa.Schema) -> DataFrame:
    """Run `work` over some tasks, by their places."""

    def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(chosen[number])

    return over_numbers(spark, len(chosen), work_on, schema)


class OnSpark(Workplace):
    """The tasks of an audit, spread over the workers of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def over_tasks(self, chosen: Sequence[int], work: Work, schema: pa.Schema) -> pa.Table:
        return over_tasks(self._spark, chosen, work, schema).toArrow()

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return shipped(self._spark, content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_frames.count_views(self._spark, logs, promises)
