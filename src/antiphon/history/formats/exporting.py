"""What all exports share: which logs, and the result."""

from dataclasses import dataclass

from antiphon.history.logs import LogFiles, by_run, find_logs
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What became of a history."""

    runs: int
    logs: int
    rows: int
    remarks: tuple[str, ...] = ()


def logs_by_run(history: HistoryFiles, run: str | None) -> dict[str, list[LogFiles]]:
    """The logs to export, by run: all, or those of the run that is named."""
    return by_run(find_logs(history, run))


def one_run(history: HistoryFiles, run: str | None, tool: str) -> list[LogFiles]:
    """The logs to export where the other tool's files hold one run."""
    runs = logs_by_run(history, run)
    if len(runs) > 1:
        names = ", ".join(sorted(runs)[:5])
        raise UsageError(f"{history.path} holds {len(runs)} runs, and a {tool} file one; choose by --run, of: {names}")
    return next(iter(runs.values()))
