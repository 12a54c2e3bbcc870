"""The results as plain SVG: one panel for each load, one line for each system, a dot at the median, a bar from the
least to the greatest run. Logarithmic, so that equal distances are equal ratios.
"""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.peers.plan import Result
from bench.plots import Axis, decades, number, text

WIDTH: Final = 760
NAMES: Final = 190
VALUES: Final = 90
LINE: Final = 22
HEAD: Final = 66
FOOT: Final = 40
COLOURS: Final = {"antiphon": "#1b6ca8", "peer": "#c4572b", "limit": "#777777"}
LIMITS: Final = ("bare-", "raw-")
STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.head{font-size:14px;font-weight:600}.title{font-weight:600}"
    ".grid{stroke:#ddd;stroke-width:1}"
)


def kind(name: str) -> str:
    if name.startswith("antiphon"):
        return "antiphon"
    return "limit" if name.startswith(LIMITS) else "peer"


def draw_line(result: Result, y: float, x_axis: Axis) -> list[str]:
    colour = COLOURS[kind(result.case.system.name)]
    low, high = x_axis.place(min(result.rates)), x_axis.place(max(result.rates))
    x = x_axis.place(result.value)
    system = result.case.system
    title = escape(f"{system.name} ({system.version()}): {result.value:,.0f}, spread {result.spread:.0%}")
    return [
        text(NAMES - 10, y + 4, f"{system.name}", "end"),
        f'<line x1="{low}" y1="{y}" x2="{high}" y2="{y}" stroke="{colour}" stroke-width="5" stroke-opacity="0.4"/>',
        f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"><title>{title}</title></circle>',
        text(WIDTH - VALUES + 80, y + 4, f"{result.value:,.0f}", "end"),
    ]


def draw_panel(results: Sequence[Result], top: float) -> list[str]:
    ranked = sorted(results, key=lambda result: -result.value)
    x_axis = decades([rate for result in ranked for rate in result.rates], NAMES, WIDTH - VALUES)
    bottom = top + HEAD - 20 + LINE * len(ranked)
    case = ranked[0].case
    parts = [text(NAMES, top + 20, f"{case.size:,} bytes, {case.members} members", "start", ' class="title"')]
    for value in x_axis.ticks():
        x = x_axis.place(value)
        parts.append(f'<line x1="{x}" y1="{top + 30}" x2="{x}" y2="{bottom}" class="grid"/>')
        parts.append(text(x, bottom + 15, number(value)))
    for place, result in enumerate(ranked):
        parts += draw_line(result, top + 46 + LINE * place, x_axis)
    return parts


def draw(results: Sequence[Result]) -> str:
    """The whole picture."""
    loads = dict.fromkeys((result.case.size, result.case.members) for result in results)
    title = "Messages of others received per second, by each of the members that all send"
    top = 30.0
    parts = []
    for load in loads:
        chosen = [result for result in results if (result.case.size, result.case.members) == load]
        parts += draw_panel(chosen, top)
        top += HEAD + LINE * len(chosen) + 8
    height = round(top + FOOT)
    x = 12.0
    for name, words in (("antiphon", "Antiphon"), ("peer", "other systems"), ("limit", "limits of the machine")):
        parts.append(f'<circle cx="{x + 5}" cy="{height - 18}" r="4.5" fill="{COLOURS[name]}"/>')
        parts.append(text(x + 15, height - 14, words, "start"))
        x += 150
    parts.append(text(x + 15, height - 14, "dot: median; bar: least to greatest run", "start"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            text(12, 20, title, "start", ' class="head"'),
            *parts,
            "</svg>",
            "",
        ]
    )
