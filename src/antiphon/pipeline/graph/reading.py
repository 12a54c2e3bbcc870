"""From a history to the causal order of its runs: the audit's first pass on Spark
(`antiphon.pipeline.first_pass`), then vectors on the driver.

Memory: a task holds its row group; the driver holds one line per send run and one column per sender and group.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import Task, plan
from antiphon.pipeline.first_pass import read_logs
from antiphon.pipeline.graph.causal import CausalRun, causal_run
from antiphon.pipeline.held import FileHistory
from antiphon.pipeline.on_spark import OnSpark


@dataclass(frozen=True)
class CausalHistory:
    """All runs of a history, and how its rows are cut up for a further pass."""

    history: HistoryFiles
    tasks: list[Task]
    runs: Mapping[str, CausalRun]


def read_causal_history(history: HistoryFiles, spark: SparkSession) -> CausalHistory:
    """Raises UnusableHistoryError for what is no history, or has no causal order."""
    place = OnSpark(spark, plan(history))
    read = read_logs(place, FileHistory(history))
    assert isinstance(read.history, FileHistory)
    return CausalHistory(
        read.history.files, place.tasks, {name: causal_run(name, of_run) for name, of_run in read.logs.items()}
    )
