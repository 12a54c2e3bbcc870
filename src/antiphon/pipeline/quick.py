"""The audit in this process: the same passes as on Spark (`antiphon.pipeline.audit_run`), one task after the other.

For histories that are read sooner than Spark starts. It needs neither Java nor pyspark, and one core.
"""

from collections.abc import Sequence
from pathlib import Path

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import plan
from antiphon.pipeline.audit_run import Progress, run_audit
from antiphon.pipeline.held import FileHistory
from antiphon.pipeline.promises import gather
from antiphon.pipeline.result import Audit
from antiphon.pipeline.workplace import InProcess


def quick_audit(path: Path | str, promise: Sequence[str] | None = None, progress: Progress | None = None) -> Audit:
    """Audit the history at `path`; everything as `antiphon.pipeline.auditor.audit` has it, but without Spark."""
    gather((), promise)  # a wrong name is refused before anything is read
    history = HistoryFiles.open(Path(path))
    return run_audit(InProcess(plan(history)), FileHistory(history), promise, progress)
