"""The audit on Spark (`antiphon.pipeline.audit_run`, its tasks spread over the workers of a session)."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import plan
from antiphon.pipeline.audit_run import Progress, run_audit
from antiphon.pipeline.held import FileHistory
from antiphon.pipeline.increment import Reuse, opened
from antiphon.pipeline.on_spark import OnSpark
from antiphon.pipeline.promises import gather
from antiphon.pipeline.result import Audit


def audit(
    path: Path | str, spark: SparkSession, promise: Sequence[str] | None = None, progress: Progress | None = None
) -> Audit:
    """Audit the history at `path`; `promise` names guarantees in place of those that were promised.

    `progress` is told, in words, what begins. Raises UnusableHistoryError if the input is no history, and
    UnknownGuaranteeError for a guarantee that cannot be checked.
    """
    gather((), promise)  # a wrong name is refused before anything is read
    history = HistoryFiles.open(Path(path).resolve())  # workers may run elsewhere
    return run_audit(OnSpark(spark, plan(history)), FileHistory(history), promise, progress)


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
