"""What `audit` and `demo` share: an audit on Spark, from the path of a history to the exit code of its verdict."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from antiphon.cli.console import one_line, quiet_standard_output, steps
from antiphon.history.reader import History
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.promises import gather
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN, Audit
from antiphon.report.html import write_report

if TYPE_CHECKING:
    from antiphon.pipeline.increment import Reuse

EXIT_CODES: Final = {KEPT: 0, BROKEN: 1, UNKNOWN: 3}


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
) -> Audited:
    """Audit `history` and, if asked, write the report; says meanwhile what it is doing, on standard error."""
    _refuse_early(history, promise, report)
    # Spark prints what it likes wherever it likes; standard output belongs to the result alone.
    with quiet_standard_output(), steps("starting Spark") as step:
        result = _audit_on_spark(history, master, promise, incremental, step)
        if report is not None:
            step(f"writing {report}")
            write_report(result.audit, history, report)
    return result


def _refuse_early(history: Path, promise: tuple[str, ...] | None, report: Path | None) -> None:
    """Raise for what cannot work anyhow, before Spark is started, which takes seconds."""
    gather((), promise)
    History.open(history)
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise UsageError(f"the report cannot be written to {report}; name a file in a directory that exists")
    if find_spec("pyspark") is None:
        raise UsageError("the audit runs on Spark, which is not installed; pip install 'antiphon[spark]'")


def _audit_on_spark(
    history: Path, master: str | None, promise: tuple[str, ...] | None, incremental: bool, step: Callable[[str], None]
) -> Audited:
    # Imported here, since Spark is an extra and its import is slow.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from antiphon.pipeline.auditor import audit, audit_increment
    from antiphon.pipeline.cluster import check_workers
    from antiphon.pipeline.session import is_local, make_session

    try:
        session = make_session(master)
        if not is_local(master):
            step("asking the workers of the cluster")
            check_workers(session, history)
        if incremental:
            return Audited(*audit_increment(history, session, promise=promise, progress=step))
        return Audited(audit(history, session, promise=promise, progress=step), None)
    except (Py4JError, PySparkException) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        hint = "" if master is None else f"; see whether the master {master} can be reached from here"
        raise UsageError(f"Spark failed: {one_line(_java_message(error))}{hint}") from error


def _was_interrupted(error: BaseException) -> bool:
    """Whether an interrupt set it off: Spark cancels its jobs then, and their failures cover the interrupt up."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _java_message(error: Exception) -> str:
    """What Java has to say, without the calls that led there."""
    lines = str(error).splitlines()
    said = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (said or lines or [type(error).__name__])[0]
