"""Line plots as plain SVG: panels side by side, both axes logarithmic, every point marked, every line labelled.

Logarithmic, because what matters is how a cost grows: a straight line is a power, its slope the exponent.
"""

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 340
HEIGHT: Final = 300
LEFT: Final = 58
RIGHT: Final = 14
TOP: Final = 66
BOTTOM: Final = 44
COLOURS: Final = ("#1b6ca8", "#c4572b", "#3a7d44", "#7a4fa3")
DASHES: Final = ("", "7 3", "2 3", "9 3 2 3")
"""Beside colours, for those who do not tell them apart."""
FLOOR: Final = 0.01


@dataclass(frozen=True)
class Series:
    """One line."""

    name: str
    xs: list[int]
    ys: list[float]


@dataclass(frozen=True)
class Panel:
    """One plot. Values below `FLOOR` are drawn there."""

    title: str
    x_name: str
    series: list[Series]


@dataclass(frozen=True)
class Axis:
    """From value to place, along one logarithmic axis; `low` and `high` are powers of ten."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (log10(max(value, FLOOR)) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The whole powers of ten."""
        return [10.0**power for power in range(ceil(self.low), floor(self.high) + 1)]


def axis(values: list[float], start: float, end: float) -> Axis:
    """From the least value to the greatest."""
    logs = [log10(max(value, FLOOR)) for value in values]
    return Axis(min(logs), max(max(logs), min(logs) + 1), start, end)


def decades(values: list[float], start: float, end: float) -> Axis:
    """In whole powers of ten."""
    tight = axis(values, start, end)
    return Axis(floor(tight.low), max(ceil(tight.high), floor(tight.low) + 1), start, end)


def number(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:.3g}"


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def draw_panel(panel: Panel, left: float) -> list[str]:
    x_axis = axis([float(x) for series in panel.series for x in series.xs], left + LEFT, left + WIDTH - RIGHT)
    y_axis = decades([y for series in panel.series for y in series.ys], HEIGHT - BOTTOM, TOP)
    parts = [text(left + WIDTH / 2, 44, panel.title, more=' class="title"')]
    for value in y_axis.ticks():
        y = y_axis.place(value)
        parts.append(f'<line x1="{x_axis.start}" y1="{y}" x2="{x_axis.end}" y2="{y}" class="grid"/>')
        parts.append(text(left + LEFT - 6, y + 4, number(value), "end"))
    for value in sorted({*x_axis.ticks(), 10**x_axis.low, 10**x_axis.high}):
        x = x_axis.place(value)
        parts.append(f'<line x1="{x}" y1="{y_axis.start}" x2="{x}" y2="{y_axis.end}" class="grid"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 16, number(value)))
    parts.append(text(left + WIDTH / 2, HEIGHT - 8, panel.x_name))
    for rank, series in enumerate(panel.series):
        parts += draw_series(series, rank, x_axis, y_axis)
    return parts


def draw_series(series: Series, rank: int, x_axis: Axis, y_axis: Axis) -> list[str]:
    colour = COLOURS[rank]
    dash = f' stroke-dasharray="{DASHES[rank]}"' if DASHES[rank] else ""
    points = [(x_axis.place(x), y_axis.place(y)) for x, y in zip(series.xs, series.ys, strict=True)]
    path = " ".join(f"{x},{y}" for x, y in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>']
    for (x, y), value_x, value_y in zip(points, series.xs, series.ys, strict=True):
        title = escape(f"{series.name}: {value_y:g} at {value_x}")
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.6" fill="{colour}"><title>{title}</title></circle>')
    key_x, key_y = x_axis.start + 8, TOP + 12 + 15 * rank
    parts.append(
        f'<line x1="{key_x}" y1="{key_y - 4}" x2="{key_x + 22}" y2="{key_y - 4}" stroke="{colour}" '
        f'stroke-width="1.8"{dash}/>'
    )
    parts.append(text(key_x + 28, key_y, series.name, "start"))
    return parts


def draw(title: str, panels: list[Panel]) -> str:
    """The whole picture."""
    width = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        "<style>text{font:11px sans-serif;fill:#222}.head{font-size:14px;font-weight:600}.title{font-size:12px}"
        ".grid{stroke:#ddd;stroke-width:1}</style>",
        f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>',
        text(12, 20, title, "start", ' class="head"'),
    ]
    for rank, panel in enumerate(panels):
        parts += draw_panel(panel, WIDTH * rank)
    return "\n".join([*parts, "</svg>", ""])
