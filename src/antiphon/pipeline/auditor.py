"""The audit on Spark: Spark reads the history, brings each run to one task, or a long run to many, and has it judged.

Runs that one task can hold go by `antiphon.pipeline.by_run`. A longer run goes by the two passes of
`antiphon.pipeline.audit_run`, over packed pieces that Spark keeps (`antiphon.pipeline.on_spark`).
"""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import plan
from antiphon.pipeline.audit_run import Progress, judge_runs, run_audit
from antiphon.pipeline.by_run import ROWS_MAX, audit_by_run
from antiphon.pipeline.held import FileHistory
from antiphon.pipeline.increment import Reuse, opened
from antiphon.pipeline.jobs import described
from antiphon.pipeline.on_spark import OnSpark, OverPieces, PiecesHistory
from antiphon.pipeline.output import write_tables
from antiphon.pipeline.promises import gather
from antiphon.pipeline.reading import ReadHistory, read_history
from antiphon.pipeline.result import Audit
from antiphon.pipeline.run_results import OBSERVATION, PROBLEM, RESULTS, SIZE, VERDICT, combine, rows_of
from antiphon.pipeline.source import HistoryAddress, file_name

DRIVEN = (SIZE, VERDICT, OBSERVATION, PROBLEM)
"""What the driver is told of every run."""


def audit(
    path: Path | str | HistoryAddress,
    spark: SparkSession,
    promise: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    output: str | None = None,
    whole_run_rows_max: int = ROWS_MAX,
) -> Audit:
    """Audit the history at `path`; `promise` names guarantees in place of those that were promised.

    `progress` is told, in words, what begins. `output`: a URI to write tables of results to
    (`antiphon.pipeline.output`). Runs of more than `whole_run_rows_max` rows are spread over many tasks. Raises
    UnusableHistoryError if the input is no history, and UnknownGuaranteeError for a guarantee that cannot be checked.
    """
    gather((), promise)  # a wrong name is refused before anything is read
    place = path if isinstance(path, HistoryAddress) else HistoryAddress(str(path))
    tell = progress or _say_nothing
    with read_history(spark, place, tell) as history:
        tell(f"checking {history.rows:,} rows of {len(history.runs):,} run{'' if len(history.runs) == 1 else 's'}")
        results = judge_history(history, promise, listing=output is not None, rows_max=whole_run_rows_max)
        if output is None:
            with described(spark, f"judge {len(history.runs):,} runs"):
                found = results.toArrow().cast(RESULTS)
            tell("adding up")
            return combine(found, promise, _files_of_problems(found))
        results = results.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with described(spark, f"judge {len(history.runs):,} runs"):
                found = results.where(f.col("kind").isin(*DRIVEN)).toArrow().cast(RESULTS)
            result = combine(found, promise, _files_of_problems(found))
            tell(f"writing {output}")
            write_tables(spark, results, output)
        finally:
            results.unpersist()
        return result


def judge_history(history: ReadHistory, promise: Sequence[str] | None, *, listing: bool, rows_max: int) -> DataFrame:
    """Rows of RESULTS of all runs."""
    spark = history.spark
    tell_runs = len(history.runs) > 1
    long = sorted(run for run, rows in history.runs.items() if rows > rows_max)
    results: list[DataFrame] = []
    if len(long) < len(history.runs):
        rest = history.pieces.where(~f.col("run").isin(*long)) if long else history.pieces
        results.append(audit_by_run(rest, promise, history.cut_short, tell_runs=tell_runs, listing=listing))
    for run in long:
        known = PiecesHistory(history, run)
        with described(spark, f"judge the long run {run}"), known:
            judged = judge_runs(OverPieces(spark, known), known, promise, tell_runs=tell_runs, listing=listing)
        results.append(spark.createDataFrame(rows_of(run, judged)))
    return reduce(DataFrame.unionAll, results)


def _files_of_problems(found: pa.Table) -> dict[str, str]:
    """In which files the problems show, in words, where they are several."""
    rows = [row for row in found.to_pylist() if row["kind"] == PROBLEM and row["files"]]
    return {row["problem"]: f" (in {', '.join(sorted(map(file_name, row['files'])))})" for row in rows}


def audit_increment(
    path: Path | str, spark: SparkSession, promise: Sequence[str] | None = None, progress: Progress | None = None
) -> tuple[Audit, Reuse]:
    """The same result as that of `audit`, built on what the last such audit kept beside the history."""
    gather((), promise)
    history = HistoryFiles.open(Path(path).resolve())  # workers may run elsewhere
    tasks = plan(history)
    with opened(history, tasks) as increment:
        place = OnSpark(spark, tasks)
        return run_audit(place, FileHistory(history), promise, progress, increment), increment.reuse


def _say_nothing(_: str) -> None:
    pass
