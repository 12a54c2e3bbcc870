"""What commands that audit share: an audit, from the path of a history to the exit code of its verdict."""

from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from antiphon.cli.console import errors, quiet_standard_output, steps
from antiphon.history.errors import UnusableHistoryError
from antiphon.history.segments import SUFFIX
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.places import is_plain
from antiphon.pipeline.promises import gather
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit
from antiphon.report.html import write_report

if TYPE_CHECKING:
    from antiphon.pipeline.increment import Reuse

QUICK_BYTES_MAX: Final = 4_000_000
"""Up to so many bytes, about half a million rows, one process is done before Spark has started."""
EXIT_CODES: Final = {KEPT: 0, BROKEN: 1, UNKNOWN: 3, UNCHECKED: 3}


class Audited(NamedTuple):
    """A result, and, where the audit was incremental, what it could build on."""

    audit: Audit
    reuse: "Reuse | None"


def audit_history(
    history: Path | str,
    *,
    master: str | None,
    promise: tuple[str, ...] | None,
    report: Path | None,
    incremental: bool = False,
    quick: bool = False,
    table: bool = False,
    runs: tuple[str, ...] = (),
    output: str | None = None,
) -> Audited:
    """Audit `history` and, if asked, write report and tables; says meanwhile what it is doing, on standard error."""
    name = str(history)
    here = not table and is_plain(name)
    _refuse_early(Path(name) if here else None, promise, report)
    if quick:
        if master is not None or incremental:
            raise UsageError("--quick audits in this process: leave out --master and --incremental, or --quick")
        if not here or runs or output is not None:
            raise UsageError("--quick audits a directory of this machine: leave out --table, --run, --output and URIs")
        with steps("reading the history") as step:
            result = Audited(quick_audit(name, promise, step), None)
            _write_report(result, Path(name), report, step)
        return result
    if incremental and (not here or runs or output is not None):
        raise UsageError("--incremental keeps its state beside a directory of this machine, and writes no tables")
    refuse_without_spark("the audit", instead="audit with --quick, or ")
    short = master is None and here and _bytes(Path(name)) < QUICK_BYTES_MAX
    starting = "starting Spark" + ("; --quick judges so short a history at once, without it" if short else "")
    # Spark prints what it likes wherever it likes; standard output belongs to the result alone.
    with quiet_standard_output(), steps(starting) as step:
        result = _audit_on_spark(Wanted(name, table, runs, output, short), master, promise, incremental, step)
        _write_report(result, Path(name), report, step)
    return result


def _write_report(result: Audited, history: Path, report: Path | None, step: Callable[[str], None]) -> None:
    if report is not None:
        step(f"writing {report}")
        write_report(result.audit, history, report)


def _refuse_early(history: Path | None, promise: tuple[str, ...] | None, report: Path | None) -> None:
    """Raise for what cannot work anyhow, before Spark is started, which takes seconds. No file is opened."""
    gather((), promise)
    if history is None and report is not None:
        raise UsageError(
            "a report draws what a directory of this machine holds: copy the run here, or leave --report out"
        )
    if history is not None and not history.exists():
        raise UnusableHistoryError(history, "there is no such file or directory")
    if history is not None and history.is_dir() and not any(history.rglob(f"*{SUFFIX}*")):
        raise UnusableHistoryError(history, f"the directory holds no history: no file in it ends with {SUFFIX}")
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise UsageError(f"the report cannot be written to {report}; name a file in a directory that exists")


def _bytes(history: Path) -> int:
    """How long a history is, by the sizes of its files."""
    files = history.rglob(f"*{SUFFIX}") if history.is_dir() else [history]
    return sum(file.stat().st_size for file in files)


def refuse_without_spark(what: str, *also: str, instead: str = "") -> None:
    """Raise where Spark is missing, or a module that is installed with it."""
    if any(find_spec(module) is None for module in ("pyspark", *also)):
        raise UsageError(f"{what} runs on Spark, which is not installed; {instead}pip install 'antiphon[spark]'")


class Wanted(NamedTuple):
    """What to audit on Spark, and where tables of results go."""

    name: str
    is_table: bool
    runs: tuple[str, ...]
    output: str | None
    is_short: bool


def _audit_on_spark(
    wanted: Wanted, master: str | None, promise: tuple[str, ...] | None, incremental: bool, step: Callable[[str], None]
) -> Audited:
    # Imported here, since Spark is an extra and its import is slow.
    from antiphon.pipeline.auditor import audit, audit_increment
    from antiphon.pipeline.cluster import check_workers
    from antiphon.pipeline.failures import spark_failures
    from antiphon.pipeline.jobs import task_progress
    from antiphon.pipeline.session import is_local, make_session
    from antiphon.pipeline.source import HistoryAddress

    with spark_failures(unreachable_hint(master)):
        session = make_session(master, brief=wanted.is_short)
        if not is_local(master):
            step("asking the workers of the cluster")
            check_workers(session)
        if incremental:
            return Audited(*audit_increment(wanted.name, session, promise=promise, progress=step))
        place = HistoryAddress(wanted.name, wanted.is_table, wanted.runs)
        with task_progress(session, step) if errors.is_terminal else nullcontext(step) as tell:
            return Audited(audit(place, session, promise=promise, progress=tell, output=wanted.output), None)


def unreachable_hint(master: str | None) -> str | None:
    """What may be at fault when Spark fails."""
    return None if master is None else f"see whether the master {master} can be reached from here"
