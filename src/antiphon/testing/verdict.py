"""What became of a run: its histories audited in this process, its programs' own errors, and the user's check."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from antiphon.history.log import MemoryLog
from antiphon.history.schema import QUIET, Row
from antiphon.pipeline.campaign.judge import Judgement, judge
from antiphon.testing.recording import ProgramLog
from antiphon.testing.simulation import Simulation


@dataclass
class _Run:
    """A simulation in the shape that `judge` takes."""

    logs: Sequence[MemoryLog]
    groups: Sequence[str]
    excused: Sequence[str]
    restless: Sequence[str]
    mistake: str
    failures: int
    resilience: int = 0
    time_ns: int = 0
    coverage: dict[str, int] = field(default_factory=dict)


def judge_simulation(simulation: Simulation) -> Judgement:
    """Hold the histories to what their start rows promise."""
    logs = [log for log in simulation.logs() if any(True for _ in log.rows())]
    groups = list(dict.fromkeys(row.group for log in logs for row in log.rows() if row.kind == "start" and row.group))
    excused = [group for group in groups if _is_stalled(group, logs)]
    run = _Run(
        logs=cast(Sequence[MemoryLog], logs),
        groups=groups,
        excused=excused,
        restless=[group for group in groups if group not in excused and _is_restless(group, logs)],
        mistake="; ".join(simulation.problems()),
        failures=simulation.kills,
        time_ns=simulation.timeline.now_ns,
    )
    return judge(run)


def _is_stalled(group: str, logs: Sequence[ProgramLog]) -> bool:
    """Whether somebody ended in this group without a majority."""
    for log in logs:
        rows = list(log.rows())
        if rows[-1].kind == "stop" and rows[-1].label == "stalled" and any(row.group == group for row in rows):
            return True
    return False


def _is_restless(group: str, logs: Sequence[ProgramLog]) -> bool:
    """Whether those who went on to the end are not all in one view, made up of them."""
    last: dict[str, tuple[int | None, Any]] = {}
    for log in logs:
        rows = list(log.rows())
        if any(row.kind == "start" and row.group == group and '"policy":"static"' in str(row.label) for row in rows):
            return False  # its members are the same for good, dead or alive
        if rows[-1].kind == "stop" and rows[-1].label == QUIET:
            view = _last_view(rows, group)
            if view is not None:
                last[f"{log.process}/{log.incarnation}"] = (view.view, tuple(view.members or ()))
    return len(set(last.values())) > 1 or any(set(members) != set(last) for _, members in last.values())


def _last_view(rows: Sequence[Row], group: str) -> Row | None:
    """The view that a process ended in; None if it left."""
    view = None
    for row in rows:
        if row.group == group:
            if row.kind == "view":
                view = row
            elif row.kind == "note":
                view = None
    return view
