"""The audit in this process: the same passes as on Spark (`antiphon.pipeline.audit_run`), one task after the other.

For histories that are read sooner than Spark starts. It needs neither Java nor pyspark, and one core. A short history
is read once and held; of a longer one, or one with damaged row groups, each pass reads what it needs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from antiphon.history.errors import DamagedRowGroupError
from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import Task, plan, read_whole_logs
from antiphon.pipeline.audit_run import Progress, run_audit
from antiphon.pipeline.held import FileHistory
from antiphon.pipeline.promises import gather
from antiphon.pipeline.result import Audit
from antiphon.pipeline.workplace import InProcess

HELD_ROWS_MAX: Final = 500_000
"""A row takes some 200 bytes as it is read."""


def quick_audit(path: Path | str, promise: Sequence[str] | None = None, progress: Progress | None = None) -> Audit:
    """Audit the history at `path`; everything as `antiphon.pipeline.auditor.audit` has it, but without Spark."""
    gather((), promise)  # a wrong name is refused before anything is read
    history = HistoryFiles.open(Path(path))
    return run_audit(InProcess(_tasks(history)), FileHistory(history), promise, progress)


def _tasks(history: HistoryFiles) -> Sequence[Task]:
    if history.rows <= HELD_ROWS_MAX:
        try:
            return read_whole_logs(history)
        except DamagedRowGroupError:
            pass  # the first pass finds out which, and goes on without them
    return plan(history)
