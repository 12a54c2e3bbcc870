"""Which rows of a run the explorer gets: all of them between two moments, as many as a page can hold.

The stretch lies around what one wants to see: the steps of the first counterexample; else the moment at which most
changes at once (views, crashes, suspicions); else the middle of the run, counted in rows, since a run may pause. All
rows in between are taken, so that past and future within the stretch are whole. Receives are never drawn.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from antiphon.history.schema import SCHEMA
from antiphon.pipeline.explain import process_name
from antiphon.pipeline.intervals import Ints
from antiphon.report.rows import COLUMNS, LogRow, Place, by_process, rows_of
from antiphon.report.survey import Survey
from antiphon.report.words import clipped, duration, printable

EVENTS_MAX: Final = 8_000
LANES_MAX: Final = 64
READ_FACTOR: Final = 3
SAMPLE_MIN: Final = 4
"""Times of the sample that a stretch spans at least; where that is too much, it is made smaller by counting."""
CHANGE_SHARE: Final = 64
"""Changes within this part of the run's time count as one moment."""
TEXT_LENGTH_MAX: Final = 120
MEMBERS_SHOWN: Final = 24


@dataclass(frozen=True, kw_only=True)
class Focus:
    """What the stretch is around."""

    from_ns: int
    until_ns: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The rows of the explorer, by process and in each log's own order."""

    rows: tuple[LogRow, ...]
    focus: Focus
    processes: int
    """How many processes have rows in it; the rows may be of fewer."""
    whole: bool
    """Whether the run has no other rows."""


def focus_of(survey: Survey, steps_ns: Iterable[int], what: str) -> Focus:
    """Where to look: at these steps, if there are any."""
    times = sorted(steps_ns)
    if times:
        return Focus(from_ns=times[0], until_ns=times[-1], words=f"around {what}")
    changes = np.sort(np.array(survey.lives.changes_ns, np.int64))
    if len(changes):
        near_ns = max(1, (survey.last_ns - survey.first_ns) // CHANGE_SHARE)
        together = np.searchsorted(changes, changes + near_ns, side="right") - np.arange(len(changes))
        most = int(np.argmax(together))
        last = most + int(together[most]) - 1
        words = "around the moment at which most changed"
        return Focus(from_ns=int(changes[most]), until_ns=int(changes[last]), words=words)
    rows = np.sort(survey.times.rows()[:, 0])
    middle_ns = int(rows[len(rows) // 2]) if len(rows) else survey.first_ns
    return Focus(from_ns=middle_ns, until_ns=middle_ns, words="from its middle")


def extent(survey: Survey, focus: Focus, events_max: int) -> tuple[int, int]:
    """From when until when about `events_max` rows lie, around the focus, or around its end where it is longer."""
    times = np.sort(survey.times.rows()[:, 0])
    room = max(SAMPLE_MIN, events_max // survey.times.stride)
    if len(times) <= room:
        return survey.first_ns, survey.last_ns
    first, end = (int(np.searchsorted(times, at)) for at in (focus.from_ns, focus.until_ns))
    if end - first > room * 3 // 4:  # the beginning does not fit; what matters is how it ends
        first = end
    start = min(max(0, (first + end - room) // 2), len(times) - room)
    return min(int(times[start]), focus.until_ns), max(int(times[start + room - 1]), focus.until_ns)


def read_stretch(files: list[str], run: str, survey: Survey, focus: Focus, first: Iterable[str] = ()) -> Stretch:
    """Read the rows around `focus`; the processes in `first` are shown before others where not all can be."""
    dataset = ds.dataset(files, schema=SCHEMA, format="parquet")
    from_ns, until_ns = extent(survey, focus, EVENTS_MAX)
    chosen = _between(run, from_ns, until_ns)
    middle_ns = (max(from_ns, focus.from_ns) + min(until_ns, focus.until_ns)) // 2
    # The estimate is rough where the sample of times is thin: come closer until the rows can be read at once.
    while until_ns > from_ns and dataset.count_rows(filter=chosen) > READ_FACTOR * EVENTS_MAX:
        from_ns, until_ns = (from_ns + middle_ns) // 2, (until_ns + middle_ns) // 2
        chosen = _between(run, from_ns, until_ns)
    rows = rows_of(dataset.scanner(columns=list(COLUMNS), filter=chosen).head(READ_FACTOR * EVENTS_MAX))
    processes = [process for process, _ in by_process(rows)]
    shown = frozenset(_preferred(processes, first, rows)[:LANES_MAX])
    kept = [row for row in rows if row.process in shown]
    if len(kept) > EVENTS_MAX:
        kept = _nearest(kept, middle_ns)
    ordered = tuple(row for _, log in by_process(kept) for row in log)
    return Stretch(
        rows=ordered, focus=focus, processes=len(processes), whole=len(ordered) == len(rows) >= survey.drawn_rows
    )


def _between(run: str, from_ns: int, until_ns: int) -> pc.Expression:
    time = pc.field("time_ns")
    return (pc.field("run") == run) & (pc.field("kind") != "receive") & (time >= from_ns) & (time <= until_ns)


def _preferred(processes: list[str], first: Iterable[str], rows: list[LogRow]) -> list[str]:
    sent: dict[str, int] = {}
    for row in rows:
        if row.kind == "send":
            sent[row.process] = sent.get(row.process, 0) + 1
    wanted = frozenset(first)
    return sorted(processes, key=lambda process: (process not in wanted, -sent.get(process, 0)))


def _nearest(rows: list[LogRow], middle_ns: int) -> list[LogRow]:
    """The rows nearest to a moment: of each log still all between two rows, since a log's times do not go back."""
    distance: Ints = np.abs(np.array([row.time_ns for row in rows], np.int64) - middle_ns)
    reach = int(np.partition(distance, EVENTS_MAX - 1)[EVENTS_MAX - 1])
    return [row for row, away in zip(rows, distance, strict=True) if away < reach][:EVENTS_MAX]


def explorer_data(stretch: Stretch, survey: Survey, steps: tuple[Place, ...]) -> dict[str, Any]:
    """The stretch as the page's script reads it: a column per field, names by number, times since the run began."""
    names = _Names()
    logs = list(by_process(list(stretch.rows)))
    lanes = [process for process, _ in logs]
    lane_of = {process: lane for lane, process in enumerate(lanes)}
    for process in lanes:
        names.process(process)
    events = [_event(row, lane_of[row.process], survey.first_ns, names) for row in stretch.rows]
    columns = ("lane", "index", "time", "kind", "group", "sender", "number", "count", "level", "text")
    place_of = {row.place: number for number, row in enumerate(stretch.rows)}
    times = [row.time_ns for row in stretch.rows] or [survey.first_ns]
    from_ns, until_ns = min(times) - survey.first_ns, max(times) - survey.first_ns
    focus = [stretch.focus.from_ns - survey.first_ns, stretch.focus.until_ns - survey.first_ns]
    if focus[0] < from_ns:  # the whole of it does not fit
        focus[0] = focus[1]
    return {
        "lanes": len(lanes),
        "lines": _lines(logs),
        "colours": _colours(list(names.processes)),
        "processes": [printable(clipped(process_name(name), 40)) for name in names.processes],
        "groups": [printable(clipped(name, 60)) for name in names.groups],
        "levels": [printable(name) for name in names.levels],
        "texts": list(names.texts),
        "events": {name: [event[at] for event in events] for at, name in enumerate(columns)},
        "steps": [place_of[place] for place in steps if place in place_of],
        "from": from_ns,
        "until": until_ns,
        "focus": focus,
        "caption": _caption(stretch, survey, len(lanes), from_ns, until_ns),
    }


def _lines(logs: list[tuple[str, list[LogRow]]]) -> list[int]:
    """On which line each lane is drawn: incarnations of one name share one, unless they overlap in time."""
    lines: list[int] = []
    for at, (process, log) in enumerate(logs):
        before = logs[at - 1] if at else None
        follows = before is not None and _name(before[0]) == _name(process)
        apart = before is None or not follows or before[1][-1].time_ns > log[0].time_ns
        lines.append((lines[-1] if lines else -1) + (1 if apart else 0))
    return lines


def _colours(processes: list[str]) -> list[int]:
    """The colour of each process: one per name."""
    known: dict[str, int] = {}
    return [known.setdefault(_name(process), len(known)) for process in processes]


def _name(process: str) -> str:
    return process.rpartition("/")[0]


def _caption(stretch: Stretch, survey: Survey, lanes: int, from_ns: int, until_ns: int) -> str:
    if stretch.whole:
        return f"All {len(stretch.rows):,} rows of the run."
    parts = f"{len(stretch.rows):,} of {survey.drawn_rows:,} rows, {stretch.focus.words}: "
    parts += f"from {duration(from_ns)} to {duration(until_ns)} after the run began"
    others = stretch.processes - lanes
    return parts + (f"; {others} other processes are left out." if others else ".")


class _Names:
    """Names by number, each kept once."""

    def __init__(self) -> None:
        self.processes: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.levels: dict[str, int] = {}
        self.texts: dict[str, int] = {}

    def process(self, name: str | None) -> int:
        return -1 if name is None else self.processes.setdefault(name, len(self.processes))

    def group(self, name: str | None) -> int:
        return -1 if name is None else self.groups.setdefault(name, len(self.groups))

    def level(self, name: str | None) -> int:
        return -1 if name is None else self.levels.setdefault(name, len(self.levels))

    def text(self, text: str) -> int:
        return self.texts.setdefault(printable(clipped(text, TEXT_LENGTH_MAX)), len(self.texts)) if text else -1


def _event(row: LogRow, lane: int, origin_ns: int, names: _Names) -> tuple[Any, ...]:
    return (
        lane, row.index, row.time_ns - origin_ns, row.kind, names.group(row.group), names.process(row.sender),
        row.number, row.count, names.level(row.level), names.text(_words(row)),
    )  # fmt: skip


def _words(row: LogRow) -> str:
    if row.kind in ("view", "transitional"):
        shown = ", ".join(process_name(member) for member in row.members[:MEMBERS_SHOWN])
        more = f" and {len(row.members) - MEMBERS_SHOWN} more" if len(row.members) > MEMBERS_SHOWN else ""
        return f"view {row.view}: {shown}{more}" if row.kind == "view" else f"view {row.view} ends, with {shown}{more}"
    if row.kind in ("suspect", "note", "crash", "stop") or row.carries:
        return row.label or ""
    return ""
