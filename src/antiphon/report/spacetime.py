"""The space-time diagram: a pure function from a window of a history to an SVG tree.

Each process is a horizontal line and time runs to the right. A filled mark is a send, an outlined one a delivery in the
sender's colour, an arrow a message (or a run of them) on its way. The steps of a counterexample are numbered in causal
order and everything else steps back; a delivery that is missing is drawn where it should have been, crossed out.
Elements that stand for messages carry data-stream (a sender in a group), data-first and data-last, by which the page
lights them up together.
Colours come from the page's style sheet: class s0, s1… is the sender, `again` that the palette has begun anew.
"""

import xml.etree.ElementTree as ET
from typing import Final

from antiphon.pipeline.explain import process_name
from antiphon.report.layout import (
    CHARACTER,
    DOT,
    LANE_HEIGHT,
    MARGIN,
    MARK_HEIGHT,
    TOP,
    Arrow,
    Layout,
    LayoutMark,
    lay_out,
)
from antiphon.report.markup import Attribute, tag
from antiphon.report.rows import LogRow, reading_order
from antiphon.report.window import Window
from antiphon.report.words import clipped, duration, message_name

COLOURS: Final = 8
NAME_LENGTH_MAX: Final = 20
NAME_CHARACTER: Final = 7.6
TICKS: Final = 8


def spacetime(window: Window, axis: str) -> ET.Element:
    """The diagram along `axis`: "order" (evenly spaced) or "time" (to scale)."""
    longest = max(len(clipped(process_name(row.process), NAME_LENGTH_MAX)) for row in window.rows)
    layout = lay_out(window, axis, left=longest * NAME_CHARACTER + 30)
    painter = _SpacetimePainter(window, layout, axis)
    size: dict[str, Attribute] = {
        "viewBox": f"0 0 {layout.width:.0f} {layout.height:.0f}",
        "width": layout.width,
        "height": layout.height,
        "role": "img",
        "aria-label": window.caption,
        "class": f"spacetime {axis}" + (" example" if window.steps else ""),
    }
    return tag(
        "svg",
        size,
        painter.heads(),
        painter.axis_marks(),
        painter.lanes(),
        painter.views(),
        tag("g", {"class": "arrows"}, *(painter.arrow(arrow) for arrow in layout.arrows)),
        tag("g", {"class": "marks"}, *(painter.mark(mark) for mark in layout.marks)),
        painter.names(),
    )


def colours_of(window: Window) -> dict[str, int]:
    """The colour number of each process that is drawn or whose messages are."""
    processes = {row.process for row in window.rows} | {row.sender for row in window.rows if row.sender is not None}
    shown = {row.process for row in window.rows}
    ordered = sorted(processes, key=lambda process: (process not in shown, reading_order(process)))
    return {process: colour for colour, process in enumerate(ordered)}


def colour_class(colour: int) -> str:
    return f"s{colour % COLOURS}" + (" again" if colour >= COLOURS else "")


class _SpacetimePainter:
    """Draws one layout; holds what all parts of the drawing need to know."""

    def __init__(self, window: Window, layout: Layout, axis: str) -> None:
        self.window = window
        self.layout = layout
        self.axis = axis
        self.colours = colours_of(window)
        self.step_of = {place: number for number, place in enumerate(window.steps, start=1)}
        self.late = {lack.late for lack in window.missing}
        self.labelled = _labelled(layout)
        streams = {(row.sender, row.group) for row in window.rows}
        self.stream_of = {stream: number for number, stream in enumerate(sorted(streams, key=repr))}
        self.sent_ns: dict[LayoutMark, int] = {}
        for arrow in layout.arrows:
            self.sent_ns.setdefault(arrow.target, arrow.source.row.time_ns)

    def heads(self) -> ET.Element:
        """One arrow head per colour; markers cannot take their colour from the line in all browsers."""
        markers = []
        for name in [*(f"s{colour}" for colour in range(COLOURS)), "alarm"]:
            attributes: dict[str, Attribute] = {
                "id": f"{self.axis}-{name}", "class": name, "viewBox": "0 0 10 10", "refX": 9, "refY": 5,
                "markerWidth": 7, "markerHeight": 7, "markerUnits": "userSpaceOnUse", "orient": "auto",
            }  # fmt: skip
            markers.append(tag("marker", attributes, tag("path", {"d": "M0 1 L10 5 L0 9 z"})))
        return tag("defs", None, *markers)

    def axis_marks(self) -> ET.Element:
        """Along the time axis, ticks at round times since the window began; along the order axis only its name."""
        layout = self.layout
        bottom = layout.height - 30
        group = tag("g", {"class": "axis"})
        if self.axis == "order":
            words = "order of events: causes stand left of effects, distances mean nothing"
            group.append(tag("text", {"x": layout.left + MARGIN, "y": bottom + 18}, words))
            return group
        span_ns = layout.until_ns - layout.from_ns
        step_ns = _round_step_ns(span_ns)
        scale = (layout.width - layout.left - 2 * MARGIN) / max(1, span_ns)
        for at_ns in range(0, span_ns + 1, step_ns):
            x = layout.left + MARGIN + at_ns * scale
            group.append(tag("line", {"x1": x, "x2": x, "y1": TOP, "y2": bottom}))
            text = f"+{duration(at_ns)}" if at_ns else "0"
            group.append(tag("text", {"x": x, "y": bottom + 18, "text-anchor": "middle"}, text))
        return group

    def lanes(self) -> ET.Element:
        """A line per process, to its end if it ends here; dotted where rows were left out."""
        group = tag("g", {"class": "lanes"})
        for lane in range(len(self.layout.lanes)):
            marks = [mark for mark in self.layout.marks if mark.lane == lane]
            y = marks[0].y
            ended = marks[-1].row.kind in ("crash", "stop")
            end = marks[-1].x if ended else self.layout.width - 10
            group.append(tag("line", {"x1": self.layout.left, "x2": end, "y1": y, "y2": y}))
            if self.axis == "order":
                group.extend(self._break(mark) for mark in marks if mark.hidden)
        return group

    def _break(self, mark: LayoutMark) -> ET.Element:
        x = mark.x - mark.width / 2 - 20
        rows = "1 row" if mark.hidden == 1 else f"{mark.hidden:,} rows"
        return tag(
            "g",
            {"class": "break"},
            tag("title", None, f"{rows} of {process_name(mark.row.process)} not drawn here"),
            tag("rect", {"x": x - 12, "y": mark.y - 9, "width": 24, "height": 18}),
            tag("text", {"x": x, "y": mark.y + 4, "text-anchor": "middle"}, "⋯"),
        )

    def views(self) -> ET.Element:
        """A dashed line through the marks at which the members install the same view."""
        group = tag("g", {"class": "views"})
        installed: dict[tuple[str | None, int | None], list[LayoutMark]] = {}
        for mark in self.layout.marks:
            if mark.row.kind == "view":
                installed.setdefault((mark.row.group, mark.row.view), []).append(mark)
        for marks in installed.values():
            points = " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in marks)
            if len(marks) > 1:
                group.append(tag("polyline", {"points": points}))
        return group

    def arrow(self, arrow: Arrow) -> ET.Element:
        source, target = arrow.source.row, arrow.target.row
        words = f"{message_name(source.process, arrow.first, arrow.last)} to {process_name(target.process)}"
        kind, head = "arrow", f"s{self.colours[source.process] % COLOURS}"
        if arrow.target.missing is not None:
            kind, head, words = "arrow missing", "alarm", f"{words}: not delivered by then"
        else:
            if target.time_ns >= source.time_ns:
                words = f"{words}, {duration(target.time_ns - source.time_ns)}"
            if {source.place, target.place} <= self.step_of.keys():
                kind = "arrow step"
        path: dict[str, Attribute] = {
            "d": _path(arrow.source, arrow.target),
            "marker-end": f"url(#{self.axis}-{head})",
        }
        attributes = self._message(source, kind, arrow.first, arrow.last)
        return tag("g", attributes, tag("title", None, words), tag("path", path))

    def mark(self, mark: LayoutMark) -> ET.Element:
        row = mark.row
        kind = " late" if row.place in self.late and mark.missing is None else ""
        step = self.step_of.get(row.place) if mark.missing is None else None
        own = " own" if row.own else ""
        names = f"mark {row.kind}{own}{kind}" + (" step" if step is not None else "")
        attributes: dict[str, Attribute] = {"class": names}
        if row.sender is not None:
            attributes = self._message(row, names, row.number, row.last)
        height = MARK_HEIGHT if self.axis == "order" else DOT
        corner = 3 if row.kind == "send" else height / 2
        box: dict[str, Attribute] = {
            "x": mark.x - mark.width / 2, "y": mark.y - height / 2, "width": mark.width, "height": height, "rx": corner,
        }  # fmt: skip
        children = [tag("title", None, self.describe(mark)), tag("rect", box)]
        if self.axis == "order":
            children.append(tag("text", {"x": mark.x, "y": mark.y + 4, "text-anchor": "middle"}, mark.text))
        elif mark in self.labelled:
            children.append(tag("text", {"x": mark.x, "y": mark.y - 9, "text-anchor": "middle"}, mark.text))
        if step is not None or mark.missing is not None:
            # Where marks are small, their names stand above them, and so the badge below.
            x, y = (mark.x + mark.width / 2 - 1, mark.y - 13) if self.axis == "order" else (mark.x, mark.y + 14)
            sign = "✕" if step is None else str(step)
            children.append(tag("circle", {"cx": x, "cy": y, "r": 8, "class": "badge"}))
            children.append(tag("text", {"x": x, "y": y + 3.5, "text-anchor": "middle", "class": "badge"}, sign))
        return tag("g", attributes, *children)

    def names(self) -> ET.Element:
        """The processes' names; the page keeps them in sight while the diagram scrolls beneath."""
        layout = self.layout
        group = tag("g", {"class": "names"})
        group.append(tag("rect", {"x": 0, "y": 0, "width": layout.left - 4, "height": layout.height, "class": "cover"}))
        for lane, process in enumerate(layout.lanes):
            y = TOP + LANE_HEIGHT // 2 + lane * LANE_HEIGHT
            swatch = tag("rect", {"x": 6, "y": y - 6, "width": 12, "height": 12, "rx": 3})
            label = tag("text", {"x": 25, "y": y + 4}, clipped(process_name(process), NAME_LENGTH_MAX))
            names = f"name {colour_class(self.colours[process])}"
            group.append(tag("g", {"class": names}, tag("title", None, process), swatch, label))
        return group

    def describe(self, mark: LayoutMark) -> str:
        """What a mark stands for, in words."""
        row = mark.row
        if mark.missing is not None:
            after = "delivered only later" if mark.missing.late else "never delivered in what was read"
            return f"{process_name(row.process)} should have delivered {mark.missing.name} here: {after}"
        words = deed(row)
        if row.own:
            words += " and delivered it at once"
        sent_ns = self.sent_ns.get(mark)
        if sent_ns is not None and row.time_ns >= sent_ns:
            words += f", {duration(row.time_ns - sent_ns)} after it was sent"
        place = f"row {row.index}" if row.span == 1 else f"rows {row.index} to {row.index_last}"
        return f"{words} ({place}, +{duration(row.time_ns - self.layout.from_ns)})"

    def _message(self, row: LogRow, names: str, first: int, last: int) -> dict[str, Attribute]:
        assert row.sender is not None
        return {
            "class": f"{names} {colour_class(self.colours[row.sender])}",
            "data-stream": self.stream_of[row.sender, row.group],
            "data-first": first,
            "data-last": last,
        }


def deed(row: LogRow) -> str:
    """What the process did, in words."""
    group = "" if row.group is None else f" in {clipped(row.group, 40)}"
    if row.sender is not None:
        message = message_name(row.sender, row.number, row.last)
        verb = {"send": "sent", "deliver": "delivered", "receive": "received"}.get(row.kind, row.kind)
        level = "" if row.level is None else f" ({row.level})"
        label = "" if row.label is None else f", labelled “{clipped(row.label, 64)}”"
        return f"{process_name(row.process)} {verb} {message}{group}{level}{label}"
    if row.kind == "view":
        members = ", ".join(process_name(member) for member in row.members)
        return f"{process_name(row.process)} installed view {row.view}{group}: {clipped(members, 200)}"
    if row.kind == "transitional":
        members = ", ".join(process_name(member) for member in row.members)
        return f"{process_name(row.process)} was told that view {row.view}{group} ends, with {clipped(members, 200)}"
    verb = {"start": "joined", "suspect": "suspected", "crash": "crashed", "stop": "stopped"}.get(row.kind, "noted")
    label = "" if row.label is None else f": {clipped(row.label, 120)}"
    return f"{process_name(row.process)} {verb}{group}{label}"


def _labelled(layout: Layout) -> set[LayoutMark]:
    """The sends that have room for their name above them where marks may clump."""
    ends: dict[int, float] = {}
    labelled: set[LayoutMark] = set()
    for mark in sorted(layout.marks, key=lambda mark: mark.x):
        half = len(mark.text) * CHARACTER / 2
        if mark.row.kind == "send" and mark.x - half > ends.get(mark.lane, layout.left):
            labelled.add(mark)
            ends[mark.lane] = mark.x + half + 4
    return labelled


def _path(source: LayoutMark, target: LayoutMark) -> str:
    """A straight line between the marks' edges, or an arc over the lane where both are on it."""
    half = MARK_HEIGHT / 2 if source.width > DOT else DOT / 2
    if source.lane == target.lane:
        middle, y = (source.x + target.x) / 2, source.y - half
        return f"M{source.x:.1f} {y:.1f} Q{middle:.1f} {y - 26:.1f} {target.x:.1f} {y - 1:.1f}"
    x1, y1 = _edge(source, target, half)
    x2, y2 = _edge(target, source, half + 1)
    return f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"


def _edge(mark: LayoutMark, other: LayoutMark, half_height: float) -> tuple[float, float]:
    """Where the line from the middle of `mark` to `other` leaves its box."""
    dx, dy = other.x - mark.x, other.y - mark.y
    share = min(mark.width / 2 / abs(dx) if dx else 1.0, half_height / abs(dy), 1.0)
    return mark.x + dx * share, mark.y + dy * share


def _round_step_ns(span_ns: int) -> int:
    """The smallest of 1, 2, 5, 10, 20… nanoseconds that cuts the span into at most TICKS parts."""
    step_ns = 1
    while True:
        for factor in (1, 2, 5):
            if span_ns <= TICKS * step_ns * factor:
                return step_ns * factor
        step_ns *= 10
