"""From a history to the causal order of its runs: one pass over the rows on Spark, then vectors on the driver.

This is the audit's first pass (`antiphon.pipeline.audit.summary`, `antiphon.pipeline.audit.order`), so that the graph
and the audit never differ in what came before what.

Memory: a task holds its row group; the driver holds one line per send run and one column per sender and group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import History
from antiphon.pipeline.audit.logs import gather_logs
from antiphon.pipeline.audit.order import never_sent
from antiphon.pipeline.audit.pieces import Task, plan, read_pieces
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import SUMMARY, Summary, summaries_of, summarise
from antiphon.pipeline.graph.causal import CausalRun, causal_run

Work = Callable[[int], Iterator[pa.RecordBatch]]
"""From the number of a task to what it gives."""

PARTITIONS_PER_CORE = 4


@dataclass(frozen=True)
class CausalHistory:
    """All runs of a history, and how its rows are cut up for a further pass."""

    history: History
    tasks: list[Task]
    runs: Mapping[str, CausalRun]


def read_causal_history(history: History, spark: SparkSession) -> CausalHistory:
    """Raises UnusableHistoryError for what is no history, or has no causal order."""
    tasks = plan(history)
    unfinished = history.unfinished()
    logs = gather_logs(_summarise(spark, tasks, {}), unfinished)
    limits = {run: beyond for run, of_run in logs.items() if (beyond := never_sent(of_run))}
    if limits:
        logs = gather_logs(_summarise(spark, tasks, limits), unfinished)
    return CausalHistory(history, tasks, {name: causal_run(name, of_run) for name, of_run in logs.items()})


def over_tasks(spark: SparkSession, tasks: int, work: Work, schema: pa.Schema) -> DataFrame:
    """Run `work` over the numbers of so many tasks."""

    def batches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    partitions = max(1, min(tasks, PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism))
    return spark.range(0, tasks, 1, partitions).mapInArrow(batches, from_arrow_schema(schema))


def _summarise(spark: SparkSession, tasks: list[Task], limits: Mapping[str, Mapping[Key, int]]) -> list[Summary]:
    def work(place: int) -> Iterator[pa.RecordBatch]:
        # What makes the history unusable travels as a row, since exceptions travel badly.
        try:
            for piece in read_pieces(tasks[place]):
                yield summarise(piece, place, limits.get(piece.run, {}))
        except UnusableHistoryError as error:
            yield pa.RecordBatch.from_pylist([{"problem": str(error)}], SUMMARY)

    summaries = summaries_of(over_tasks(spark, len(tasks), work, SUMMARY).toArrow())
    problems = sorted(summary["problem"] for summary in summaries if summary["problem"] is not None)
    if problems:
        raise UnusableHistoryError(None, problems[0])
    return summaries
