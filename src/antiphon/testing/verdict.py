"""What became of a run: its histories audited in this process, its programs' own errors, and the user's check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from antiphon.history.log import MemoryLog
from antiphon.history.schema import QUIET, READS_APART, Row
from antiphon.pipeline.campaign.judge import Judgement, judge
from antiphon.testing.recording import STALLED, ProgramLog, stalled_groups
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


class _Log:
    """A log as far as some groups go."""

    def __init__(self, log: ProgramLog, groups: Sequence[str]) -> None:
        self.process = log.process
        self.incarnation = log.incarnation
        rows = list(log.rows())
        self.stalled = stalled_groups(rows)
        """Groups in which it stood still to the end, for want of a majority: it was not quiet, whatever it says."""
        last = rows[-1]
        if self.stalled and last.kind == "stop" and last.label == QUIET:
            rows[-1] = replace(last, label=STALLED)
        self._kept = [row for row in rows if row.group is None or row.group in groups]

    def rows(self) -> Iterator[Row]:
        for index, row in enumerate(self._kept):
            yield replace(row, index=index)


def judge_simulation(simulation: Simulation) -> Judgement:
    """Hold the histories to what their start rows promise. Where somebody read each group by itself, no order between
    groups is promised, and each is judged by itself."""
    logs = [log for log in simulation.logs() if any(True for _ in log.rows())]
    groups = list(dict.fromkeys(row.group for log in logs for row in log.rows() if row.kind == "start" and row.group))
    apart = any(row.label == READS_APART for log in logs for row in log.rows() if row.kind == "note")
    parts = [[group] for group in groups] if apart and len(groups) > 1 else [groups]
    found = [_judge_part(simulation, [_Log(log, part) for log in logs], part) for part in parts]
    delivered = {level: sum(each.delivered[level] for each in found) for level in found[0].delivered}
    return Judgement(
        problems=tuple(dict.fromkeys(problem for each in found for problem in each.problems)),
        beyond_resilience=any(each.beyond_resilience for each in found),
        events=sum(each.events for each in found),
        rows=sum(each.rows for each in found),
        views=sum(each.views for each in found),
        delivered=delivered,
    )


def _judge_part(simulation: Simulation, logs: Sequence[_Log], groups: Sequence[str]) -> Judgement:
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


def _is_stalled(group: str, logs: Sequence[_Log]) -> bool:
    """Whether somebody went on to the end in this group without a majority."""
    return any(group in log.stalled and list(log.rows())[-1].kind == "stop" for log in logs)


def _is_restless(group: str, logs: Sequence[_Log]) -> bool:
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
