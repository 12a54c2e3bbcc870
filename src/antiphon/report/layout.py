"""Where everything in a space-time diagram stands.

Each process is a lane; each drawn row is a mark on its lane. Along the *order* axis each mark stands as far left as its
lane and its causes allow, but never far behind what happened before it elsewhere. So every arrow leads to the right,
also where clocks disagree, marks never overlap, and processes that took turns stand side by side. Along the *time* axis
a mark stands where its clock says, and marks may well clump: that is what one looks at this axis for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from antiphon.pipeline.explain import process_name
from antiphon.report.rows import LogRow, by_process
from antiphon.report.window import Missing, Window
from antiphon.report.words import message_name, numbers

LANE_HEIGHT: Final = 64
TOP: Final = 8
BOTTOM: Final = 44
MARK_HEIGHT: Final = 20
DOT: Final = 9
MARGIN: Final = 16
CHARACTER: Final = 6.7
ARROW_WIDTH: Final = 46
LAG: Final = 300
MARK_GAP: Final = 12
BREAK_WIDTH: Final = 34
PAGE_WIDTH: Final = 1140
SHORT: Final = 4


@dataclass(kw_only=True, eq=False)
class LayoutMark:
    """One row, or a delivery that is missing, on its lane; `x` and `y` are its middle."""

    row: LogRow
    lane: int
    text: str
    missing: Missing | None = None
    hidden: int = 0
    x: float = 0.0
    width: float = 0.0

    @property
    def y(self) -> float:
        return float(TOP + LANE_HEIGHT // 2 + self.lane * LANE_HEIGHT)

    @property
    def room(self) -> float:
        """How much of its lane the mark takes, with the break before it."""
        return self.width + (BREAK_WIDTH if self.hidden else 0)


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """Messages `first` to `last` on their way from one mark to another."""

    source: LayoutMark
    target: LayoutMark
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A diagram with all places fixed."""

    lanes: list[str]
    marks: list[LayoutMark]
    arrows: list[Arrow]
    left: float
    width: float
    height: float
    from_ns: int
    until_ns: int


def lay_out(window: Window, axis: str, left: float) -> Layout:
    """All places along `axis`: "order" or "time". Lanes begin at `left`; what stands before is for their names."""
    lanes = [process for process, _ in by_process(list(window.rows))]
    sequences = [list(_marks(log, lane, window)) for lane, (_, log) in enumerate(by_process(list(window.rows)))]
    marks = [mark for sequence in sequences for mark in sequence]
    arrows = _arrows(marks)
    times = [row.time_ns for row in window.rows]
    from_ns, until_ns = min(times), max(times)
    right = left + MARGIN
    if axis == "time":
        width = PAGE_WIDTH - right - MARGIN
        for mark in marks:
            mark.width = DOT
            mark.x = right + (mark.row.time_ns - from_ns) * width / max(1, until_ns - from_ns)
            mark.x -= 18 if mark.missing else 0  # it has no time of its own: just before the row that needed it
        right += width
    else:
        right = _place_in_order(sequences, arrows, right)
    height = float(TOP + LANE_HEIGHT * len(lanes) + BOTTOM)
    return Layout(
        lanes=lanes, marks=marks, arrows=arrows, left=left, width=right + MARGIN, height=height,
        from_ns=from_ns, until_ns=until_ns,
    )  # fmt: skip


def _marks(log: list[LogRow], lane: int, window: Window) -> Iterator[LayoutMark]:
    """The marks of one lane, in the log's order."""
    named = all(len(process_name(row.process)) <= SHORT for row in window.rows)
    for row in log:
        hidden = window.hidden.get(row.place, 0)
        for lack in window.missing:
            if (lack.process, lack.before) == row.place:
                yield _mark(_lacking_row(lack, row), lane, named, missing=lack, hidden=hidden)
                hidden = 0
        yield _mark(row, lane, named, hidden=hidden)


def _lacking_row(lack: Missing, before: LogRow) -> LogRow:
    return LogRow(
        process=lack.process, index=before.index, time_ns=before.time_ns, kind="missing", group=lack.group,
        sender=lack.sender, number=lack.first, count=lack.last - lack.first + 1,
    )  # fmt: skip


def _mark(row: LogRow, lane: int, named: bool, *, missing: Missing | None = None, hidden: int = 0) -> LayoutMark:
    if row.sender is None:
        text = f"view {row.view}" if row.kind == "view" else row.kind
    else:
        text = message_name(row.sender, row.number, row.last) if named else numbers(row.number, row.last)
    width = max(24.0, len(text) * CHARACTER + 14)
    return LayoutMark(row=row, lane=lane, text=text, missing=missing, hidden=hidden, width=width)


def _arrows(marks: list[LayoutMark]) -> list[Arrow]:
    """From each send to each delivery of any of its messages, and to where one is missing."""
    sends = [mark for mark in marks if mark.row.kind == "send"]
    arrows: list[Arrow] = []
    for target in marks:
        if target.row.kind not in ("deliver", "missing"):
            continue
        for source in sends:
            if source.row.overlaps(target.row):
                first = max(source.row.number, target.row.number)
                last = min(source.row.last, target.row.last)
                arrows.append(Arrow(source=source, target=target, first=first, last=last))
    return arrows


def _place_in_order(sequences: list[list[LayoutMark]], arrows: list[Arrow], left: float) -> float:
    """Give every mark its place along the order axis; returns where the last one ends."""
    causes: dict[LayoutMark, list[LayoutMark]] = {}
    for arrow in arrows:
        causes.setdefault(arrow.target, []).append(arrow.source)
    ends = [left] * len(sequences)
    front = left
    placed: set[LayoutMark] = set()
    for mark in _merged(sequences, causes):
        after = [cause.x + ARROW_WIDTH for cause in causes.get(mark, ()) if cause in placed]
        mark.x = max(ends[mark.lane] + mark.room - mark.width / 2, front - LAG, *after)
        ends[mark.lane] = mark.x + mark.width / 2 + MARK_GAP
        front = max(front, mark.x)
        placed.add(mark)
    return max(ends)


def _merged(sequences: list[list[LayoutMark]], causes: dict[LayoutMark, list[LayoutMark]]) -> Iterator[LayoutMark]:
    """The marks of all lanes in one order: by time, but causes first."""
    placed: set[LayoutMark] = set()
    heads = [0] * len(sequences)
    while True:
        waiting = [sequence[head] for sequence, head in zip(sequences, heads, strict=True) if head < len(sequence)]
        if not waiting:
            return
        # In a broken history an effect may stand before its cause in one log; then time alone decides.
        ready = [mark for mark in waiting if placed.issuperset(causes.get(mark, ()))] or waiting
        mark = min(ready, key=lambda mark: (mark.row.time_ns, mark.lane))
        placed.add(mark)
        heads[mark.lane] += 1
        yield mark
