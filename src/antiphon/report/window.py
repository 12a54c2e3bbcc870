"""Which rows of a history make the picture of a counterexample.

A picture that shows everything shows nothing, so a window is small: a few processes, a few dozen rows each. It holds
the steps of the counterexample, their neighbours in the same logs, and what became of the message in question
elsewhere; rows left out in between are counted.
"""

from bisect import bisect
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from antiphon.pipeline.result import Example, Finding
from antiphon.report.fold import join_own
from antiphon.report.rows import LogRow, Place, by_process
from antiphon.report.words import message_name

PROCESSES_MAX: Final = 8
ROWS_PER_PROCESS_MAX: Final = 24
STEPS_MAX: Final = 60
NEIGHBOURS: Final = 3

# The guarantees whose violation is that something was not there when it should have been.
LACKING: Final = frozenset({"fifo", "causal", "settled", "safe", "view_synchrony"})


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Messages that `process` had not delivered when it came to its row `before`, although it was owed them."""

    process: str
    before: int
    group: str | None
    sender: str
    first: int
    last: int
    late: Place | None
    """Where it delivered them after all, if it did."""

    @property
    def name(self) -> str:
        return message_name(self.sender, self.first, self.last)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Rows to draw, and what to point at."""

    caption: str
    rows: tuple[LogRow, ...]
    processes: int
    """How many processes the rows were chosen from; the rows may show fewer."""
    steps: tuple[Place, ...] = ()
    """The counterexample, in causal order."""
    missing: tuple[Missing, ...] = ()
    hidden: dict[Place, int] = field(default_factory=dict)
    """How many rows of the same log were left out just before this one."""


def example_window(rows: list[LogRow], finding: Finding) -> Window | None:
    """The counterexample of a broken guarantee; None if it has none, or its rows are not among `rows`."""
    example = finding.example
    if example is None:
        return None
    drawable = [row for row in rows if row.kind != "receive"]
    found = {row.place: row for row in drawable}
    places = [place for place in step_places(example) if place in found]
    if not places:
        return None
    steps = [found[place] for place in places]
    missing = _missing(steps, drawable) if finding.guarantee in LACKING else ()
    around = _around(steps, missing, drawable)
    kept_apart = frozenset(places) | {lack.late for lack in missing if lack.late is not None}
    drawn = join_own([row for row in rows if row.kind == "receive" or row.place in around], kept_apart)
    return Window(
        caption=f"How {finding.guarantee} was broken in run “{example.run}”, group “{example.group}”",
        rows=tuple(sorted(drawn, key=lambda row: (row.time_ns, row.place))),
        processes=len({row.process for row in rows}),
        steps=tuple(places),
        missing=missing,
        hidden=_hidden(drawn, rows),
    )


def step_places(example: Example) -> list[Place]:
    """The steps to draw: of a very long chain its beginning and its end."""
    places = list(dict.fromkeys(example.events))
    return places if len(places) <= STEPS_MAX else places[: STEPS_MAX // 2] + places[-STEPS_MAX // 2 :]


def breaking_step(steps: list[LogRow]) -> LogRow:
    """The step that breaks the guarantee: the last one, unless that delivers, too late, what the chain began with."""
    *_, before, last = [steps[0], *steps]
    is_late = before.kind == last.kind == "deliver" and before.process == last.process and last.overlaps(steps[0])
    return before if is_late and before.index < last.index else last


def in_question(steps: list[LogRow]) -> list[LogRow]:
    """The messages that the example is about: those that were wanting, and those of the step that breaks it."""
    end = breaking_step(steps)
    return [*_wanted(steps), end] if end.carries else _wanted(steps)


def _wanted(steps: list[LogRow]) -> list[LogRow]:
    """The messages that the process should have had by the breaking step, each as a row narrowed to them.

    A send row may stand for a long run of which only a part matters: the part that the next steps hand on, and, of the
    run that the breaking step itself delivers from, the part before it.
    """
    end = breaking_step(steps)
    narrowed: list[LogRow] = []
    for position, step in enumerate(steps):
        if step.kind != "send":
            continue
        first, last = step.number, step.last
        for later in steps[position + 1 :]:
            if later.kind != "deliver" or not later.overlaps(step):
                continue
            if later is end:
                last = min(last, later.number - 1)
            elif later.process != end.process:
                first, last = max(first, later.number), min(last, later.last)
        if first <= last:
            narrowed.append(_part(step, first, last))
    return narrowed


def _part(row: LogRow, first: int, last: int) -> LogRow:
    return LogRow(
        process=row.process, index=row.index, time_ns=row.time_ns, kind=row.kind, group=row.group, view=row.view,
        sender=row.sender, number=first, count=last - first + 1, level=row.level,
    )  # fmt: skip


def _missing(steps: list[LogRow], rows: list[LogRow]) -> tuple[Missing, ...]:
    """What the process of the breaking step had not delivered by then, of what the steps say it should have."""
    end = breaking_step(steps)
    deliveries = [row for row in rows if row.process == end.process and row.kind == "deliver"]
    result: list[Missing] = []
    for part in _wanted(steps):
        matching = sorted((row for row in deliveries if row.overlaps(part)), key=lambda row: row.index)
        gap = _first_gap(part, [row for row in matching if row.index < end.index])
        if gap is None or part.sender is None:
            continue
        lost = _part(part, *gap)
        late = next((row.place for row in matching if row.index > end.index and row.overlaps(lost)), None)
        result.append(
            Missing(
                process=end.process,
                before=end.index,
                group=part.group,
                sender=part.sender,
                first=gap[0],
                last=gap[1],
                late=late,
            )
        )
    return tuple(result)


def _first_gap(part: LogRow, deliveries: list[LogRow]) -> tuple[int, int] | None:
    """The first stretch of the part's numbers that none of the deliveries covers."""
    first = part.number
    for row in sorted(deliveries, key=lambda row: row.number):
        if row.number > first:
            return first, min(part.last, row.number - 1)
        first = max(first, row.last + 1)
    return (first, part.last) if first <= part.last else None


def _around(steps: list[LogRow], missing: tuple[Missing, ...], rows: list[LogRow]) -> set[Place]:
    """The steps, their neighbours as far as there is room, and the fate of the messages in question elsewhere."""
    keep = {row.place for row in steps} | {lack.late for lack in missing if lack.late is not None}
    shown = {row.process for row in steps}
    for process, log in by_process(rows):
        if process in shown or len(shown) < PROCESSES_MAX:
            for part in in_question(steps):
                fate = [row.place for row in log if row.carries and row.overlaps(part)][:2]
                keep.update(fate)
                shown.update({process} if fate else ())
    neighbours: set[Place] = set()
    for reach in range(NEIGHBOURS + 1):
        wider = {(row.process, row.index + offset) for row in steps for offset in (-reach, reach)} | neighbours
        if max(Counter(process for process, _ in wider | keep).values()) > ROWS_PER_PROCESS_MAX:
            break
        neighbours = wider
    return keep | neighbours


def _hidden(drawn: list[LogRow], rows: list[LogRow]) -> dict[Place, int]:
    """Rows of a log that lie between two drawn ones; receives are never drawn and do not count."""
    received: dict[str, list[int]] = {}
    for process, index in sorted(row.place for row in rows if row.kind == "receive"):
        received.setdefault(process, []).append(index)
    result: dict[Place, int] = {}
    for process, log in by_process(drawn):
        indices = received.get(process, [])
        for before, after in pairwise(log):
            between = bisect(indices, after.index) - bisect(indices, before.index_last)
            if hidden := after.index - before.index_last - 1 - between:
                result[after.place] = hidden
    return result
