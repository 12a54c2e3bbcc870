"""What became of a run: its histories audited in this process, its programs' own errors, and the user's check."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEAVES, LEFT, LEVELS, QUIET, READS_APART, RECOVERS, Row
from antiphon.pipeline.campaign.judge import REST, Judgement, Problem, judge
from antiphon.pipeline.guarantees import PRIMARY, VIEW_AGREEMENT, VIEW_SYNCHRONY
from antiphon.pipeline.result import BROKEN
from antiphon.testing.recording import STALLED, ProgramLog, stalled_groups
from antiphon.testing.simulation import Simulation

HISTORY: Final = "history"
"""What no auditor can read is a problem of its own."""


@dataclass(frozen=True)
class Expectations:
    """What a run is held to beside what its programs promise, and what is let pass."""

    check: Callable[[Any], object] | None = None
    """Called with the Result; an AssertionError that it raises is a problem."""
    apart: bool = False
    """The groups are in several causality domains: no order is promised between them."""
    may_stall: bool = False
    """A group may lose its majority for good and stand still to the end: then it need not come to rest, and neither
    need those groups that causal order makes wait for it."""
    may_be_unknown: Collection[str] = ()
    """Guarantees that may be left undecided."""


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

    def __init__(
        self,
        log: ProgramLog,
        groups: Sequence[str],
        excused: Sequence[str],
        recovered: Mapping[str | None, Collection[str]],
    ) -> None:
        self.process = log.process
        self.incarnation = log.incarnation
        rows = list(log.rows())
        last = rows[-1]
        if last.kind == "stop" and last.label in (QUIET, STALLED):  # whatever it says of itself
            waits = any(row.kind == "start" and row.group in excused and row.group in groups for row in rows)
            rows[-1] = replace(last, label=STALLED if waits else QUIET)
        kept = [
            _without(row, recovered[row.group]) if row.kind == "start" and row.group in recovered else row
            for row in rows
            if row.group is None or row.group in groups
        ]
        self._kept = [row if row.index == index else replace(row, index=index) for index, row in enumerate(kept)]

    def rows(self) -> Iterator[Row]:
        return iter(self._kept)


def _voided(group: str | None, logs: Sequence[ProgramLog]) -> tuple[str, ...]:
    """What is not promised in a group that somebody had go on without a majority: a chain of majorities; and if others
    had gone on as well, and there are two views of one id, what is said of views by their ids."""
    members: dict[int | None, tuple[str, ...] | None] = {}
    views = (row for log in logs for row in log.rows() if row.kind == "view" and row.group == group)
    if any(members.setdefault(row.view, row.members) != row.members for row in views):
        return PRIMARY, VIEW_AGREEMENT, VIEW_SYNCHRONY
    return (PRIMARY,)


def _without(start: Row, guarantees: Collection[str]) -> Row:
    """A start row that does not promise these."""
    facts = json.loads(start.label or "{}")
    facts["promises"] = [promise for promise in facts["promises"] if promise not in guarantees]
    return replace(start, label=json.dumps(facts, separators=(",", ":")))


def judge_simulation(simulation: Simulation, expected: Expectations) -> Judgement:
    """Hold the histories to what their start rows promise. Where somebody read each group by itself, or if the caller
    says so, no order between groups is promised, and each is judged by itself."""
    logs = [log for log in simulation.logs() if any(True for _ in log.rows())]
    groups = list(dict.fromkeys(row.group for log in logs for row in log.rows() if row.kind == "start" and row.group))
    apart = expected.apart or any(row.label == READS_APART for log in logs for row in log.rows() if row.kind == "note")
    parts = [[group] for group in groups] if apart and len(groups) > 1 else [groups]
    excused = _excused_groups(logs) if expected.may_stall else []
    recovered = {
        row.group: _voided(row.group, logs)
        for log in logs
        for row in log.rows()
        if row.kind == "note" and row.label == RECOVERS
    }
    stalled = [] if expected.may_stall else _stalls(logs)
    found = [
        _judge_part(simulation, [_Log(log, part, excused, recovered) for log in logs], part, excused) for part in parts
    ]
    delivered = {level: sum(each.delivered[level] for each in found) for level in found[0].delivered}
    return Judgement(
        problems=(*stalled, *dict.fromkeys(problem for each in found for problem in each.problems)),
        beyond_resilience=any(each.beyond_resilience for each in found),
        events=sum(each.events for each in found),
        rows=sum(each.rows for each in found),
        views=sum(each.views for each in found),
        delivered=delivered,
    )


def _judge_part(
    simulation: Simulation, logs: Sequence[_Log], groups: Sequence[str], all_excused: Sequence[str]
) -> Judgement:
    excused = [group for group in groups if group in all_excused]
    run = _Run(
        logs=cast(Sequence[MemoryLog], logs),
        groups=groups,
        excused=excused,
        restless=[group for group in groups if group not in excused and _is_restless(group, logs)],
        mistake="; ".join(simulation.problems()),
        failures=simulation.kills,
        time_ns=simulation.timeline.now_ns,
    )
    try:
        return judge(run)
    except UnusableHistoryError as error:
        unusable = Problem(HISTORY, BROKEN, str(error))
        return Judgement((unusable,), False, 0, 0, 0, dict.fromkeys(LEVELS, 0))


def _stalls(logs: Sequence[ProgramLog]) -> list[Problem]:
    """One problem for each group that stood still to the end at a process that had not begun to leave it. A process
    that leaves a group without a majority gives up waiting for the others, and ends."""
    waiting: dict[str, list[str]] = {}
    for log in logs:
        rows = list(log.rows())
        leaves = {row.group for row in rows if row.kind == "note" and row.label == LEAVES}
        for group in stalled_groups(rows) if rows[-1].kind == "stop" else ():
            if group not in leaves:
                waiting.setdefault(group, []).append(f"{log.process}/{log.incarnation}")
    return [
        Problem(
            REST,
            BROKEN,
            f"group {group} lost its majority and stands still to the end at {', '.join(members)}; have the program "
            "recover or leave it, or say may_stall=True",
        )
        for group, members in waiting.items()
    ]


def _excused_groups(logs: Sequence[ProgramLog]) -> list[str]:
    """Groups in which somebody stood still to the end for want of a majority, and groups that causal order makes wait
    for one of those: a process that is in both holds back there what may come after what it lacks here."""
    alive = []
    for log in logs:
        rows = list(log.rows())
        if rows[-1].kind == "stop":
            alive.append((stalled_groups(rows), {row.group for row in rows if row.kind == "start" and row.group}))
    excused = dict.fromkeys(group for stalled, _ in alive for group in stalled)
    before = -1
    while before != len(excused):
        before = len(excused)
        for _, groups in alive:
            if not groups.isdisjoint(excused):
                excused.update(dict.fromkeys(sorted(groups)))
    return list(excused)


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
            elif row.kind == "note" and row.label == LEFT:
                view = None
    return view
