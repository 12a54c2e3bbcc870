"""What commands that audit share: an audit, from the path of a history to the exit code of its verdict."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from antiphon.cli.console import quiet_standard_output, steps
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.promises import gather
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit
from antiphon.report.html import write_report

if TYPE_CHECKING:
    from antiphon.pipeline.increment import Reuse

QUICK_ROWS_MAX: Final = 500_000
"""Up to so many rows, one process is done before Spark has started."""
EXIT_CODES: Final = {KEPT: 0, BROKEN: 1, UNKNOWN: 3, UNCHECKED: 3}


class Audited(NamedTuple):
    """A result, and, where the audit was incremental, what it could build on."""

    audit: Audit
    reuse: "Reuse | None"


def audit_history(
    history: Path,
    *,
    master: str | None,
    promise: tuple[str, ...] | None,
    report: Path | None,
    incremental: bool = False,
    quick: bool = False,
) -> Audited:
    """Audit `history` and, if asked, write the report; says meanwhile what it is doing, on standard error."""
    rows = _refuse_early(history, promise, report)
    if quick:
        if master is not None or incremental:
            raise UsageError("--quick audits in this process: leave out --master and --incremental, or --quick")
        with steps("reading the history") as step:
            result = Audited(quick_audit(history, promise, step), None)
            _write_report(result, history, report, step)
        return result
    refuse_without_spark("the audit", instead="audit with --quick, or ")
    short = master is None and rows < QUICK_ROWS_MAX
    starting = "starting Spark" + (f" for {rows:,} rows; --quick judges so few at once, without it" if short else "")
    # Spark prints what it likes wherever it likes; standard output belongs to the result alone.
    with quiet_standard_output(), steps(starting) as step:
        result = _audit_on_spark(history, master, promise, incremental, step)
        _write_report(result, history, report, step)
    return result


def _write_report(result: Audited, history: Path, report: Path | None, step: Callable[[str], None]) -> None:
    if report is not None:
        step(f"writing {report}")
        write_report(result.audit, history, report)


def _refuse_early(history: Path, promise: tuple[str, ...] | None, report: Path | None) -> int:
    """Raise for what cannot work anyhow, before Spark is started, which takes seconds; the number of rows."""
    gather((), promise)
    rows = HistoryFiles.open(history).rows
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise UsageError(f"the report cannot be written to {report}; name a file in a directory that exists")
    return rows


def refuse_without_spark(what: str, *also: str, instead: str = "") -> None:
    """Raise where Spark is missing, or a module that is installed with it."""
    if any(find_spec(module) is None for module in ("pyspark", *also)):
        raise UsageError(f"{what} runs on Spark, which is not installed; {instead}pip install 'antiphon[spark]'")


def _audit_on_spark(
    history: Path, master: str | None, promise: tuple[str, ...] | None, incremental: bool, step: Callable[[str], None]
) -> Audited:
    # Imported here, since Spark is an extra and its import is slow.
    from antiphon.pipeline.auditor import audit, audit_increment
    from antiphon.pipeline.cluster import check_workers
    from antiphon.pipeline.failures import spark_failures
    from antiphon.pipeline.session import is_local, make_session

    with spark_failures(unreachable_hint(master)):
        session = make_session(master)
        if not is_local(master):
            step("asking the workers of the cluster")
            check_workers(session, history)
        if incremental:
            return Audited(*audit_increment(history, session, promise=promise, progress=step))
        return Audited(audit(history, session, promise=promise, progress=step), None)


def unreachable_hint(master: str | None) -> str | None:
    """What may be at fault when Spark fails."""
    return None if master is None else f"see whether the master {master} can be reached from here"
