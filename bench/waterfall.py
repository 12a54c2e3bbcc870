"""A picture of one idle message, from the traces of all members (bench/trace.py): who waited for which packet, which
timer and which wake-up.

Time goes to the right, each member has a lane. A box is a step of the engine: blue for a send, green for packets that
came, red for a timer. A line leads from the step that a packet left by to the step that took it in; acks are dashed. A
small mark below a lane is a wake-up of the event loop, red if nothing but a timer caused it. A dot is the delivery of
the message. Beneath stands, member by member, what was waited for.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from antiphon.runtime.workers import Object

WIDTH: Final = 1180
LEFT: Final = 90
LANE: Final = 110
TOP: Final = 70
Place = Callable[[int], float]
"""Where a time, or a member, stands in the picture."""
COLOURS: Final = {"send": "#3567b7", "receive": "#3a8f5c", "timer": "#c0392b", "other": "#777777"}


def chosen(lanes: Sequence[Object], sender: int) -> str:
    """The last message of this member that all have delivered, in a word like p1#7."""
    name = f"p{sender + 1}#"
    delivered: list[set[str]] = [{one for row in lane["rows"] for one in row.get("delivered", ())} for lane in lanes]
    common = [one for one in set.intersection(*delivered) if one.startswith(name)]
    return max(common, key=lambda one: int(one.partition("#")[2]))


def steps(lane: Object, begin_ns: int, end_ns: int) -> list[Object]:
    return [row for row in lane["rows"] if begin_ns <= row["begin_ns"] <= end_ns]


def span(lanes: Sequence[Object], sender: int, message: str) -> tuple[int, int]:
    """From the call of this message to its last delivery anywhere."""
    number = int(message.partition("#")[2])
    ends = [row["end_ns"] for lane in lanes for row in lane["rows"] if message in row.get("delivered", ())]
    sends = [row["begin_ns"] for row in lanes[sender]["rows"] if row["what"] == "send" and row["begin_ns"] < max(ends)]
    before = [
        row["end_ns"]
        for row in lanes[sender]["rows"]
        if f"p{sender + 1}#{number - 1}" in row.get("delivered", ()) and row["end_ns"] < max(ends)
    ]
    return min((at for at in sends if not before or at >= max(before)), default=sends[-1]), max(ends)


def story(lane: Object, rank: int, message: str, begin_ns: int, end_ns: int) -> str:
    """What this member waited for, in a line."""
    words = []
    for row in steps(lane, begin_ns, end_ns):
        at = f"{(row['begin_ns'] - begin_ns) / 1000:,.0f} µs"
        if row["what"] == "wake":
            if row["why"] == "timer":
                words.append(f"{at} woken by a timer")
            continue
        came = ", ".join(kind for _, kind in row["in"]) or row["what"]
        left = ", ".join(kind for _, kind in row["out"])
        word = f"{at} {came}" + (f" → {left}" if left else "")
        words.append(word + (" ● delivered" if message in row["delivered"] else ""))
    return f"p{rank + 1}: " + "; ".join(words)


def draw(lanes: Sequence[Object], sender: int, title: str) -> str:
    """The picture as SVG. `lanes`: the traces, by rank; `sender` has sent the message."""
    message = chosen(lanes, sender)
    begin_ns, end_ns = span(lanes, sender, message)
    scale = (WIDTH - LEFT - 40) / max(1, end_ns - begin_ns)

    def x(at_ns: int) -> float:
        return LEFT + (at_ns - begin_ns) * scale

    def y(rank: int) -> int:
        return TOP + LANE * rank + LANE // 2

    foot = TOP + LANE * len(lanes) + 30
    stories = [story(lane, rank, message, begin_ns, end_ns) for rank, lane in enumerate(lanes)]
    lines = [line for told in stories for line in wrapped(told)]
    height = foot + 20 + 18 * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="16" y="26" font-size="17">{escape(title)}: {message}, '
        f"{(end_ns - begin_ns) / 1000:,.0f} µs from the call to the last delivery</text>",
    ]
    parts += axis(begin_ns, end_ns, scale, foot)
    parts += packets(lanes, begin_ns, end_ns, x, y)
    for rank, lane in enumerate(lanes):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 30}" y1="{y(rank)}" y2="{y(rank)}" stroke="#ccc"/>')
        parts.append(f'<text x="16" y="{y(rank) + 5}">p{rank + 1}{" (sends)" if rank == sender else ""}</text>')
        for row in steps(lane, begin_ns, end_ns):
            parts += marks(row, x, y(rank), message)
    parts += [
        f'<text x="16" y="{foot + 24 + 18 * place}" font-size="12">{escape(line)}</text>'
        for place, line in enumerate(lines)
    ]
    return "\n".join([*parts, "</svg>\n"])


def wrapped(told: str, width: int = 165) -> list[str]:
    """One line of words in lines that fit."""
    lines, line = [], ""
    for word in told.split("; "):
        if line and len(line) + len(word) > width:
            lines.append(line + ";")
            line = "       " + word
        else:
            line = f"{line}; {word}" if line else word
    return [*lines, line]


def axis(begin_ns: int, end_ns: int, scale: float, foot: int) -> list[str]:
    """Marks of time."""
    whole_us = (end_ns - begin_ns) / 1000
    tick_us = next(size for size in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9) if whole_us / size <= 12)
    parts = []
    for number in range(int(whole_us // tick_us) + 1):
        at = LEFT + number * tick_us * 1000 * scale
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 20}" y2="{foot - 20}" stroke="#eee"/>')
        parts.append(f'<text x="{at:.1f}" y="{TOP - 24}" font-size="11" fill="#888">{number * tick_us:,} µs</text>')
    return parts


def packets(lanes: Sequence[Object], begin_ns: int, end_ns: int, x: Place, y: Place) -> list[str]:
    """Lines from where packets left to where they came."""
    left: dict[int, tuple[int, Object]] = {}
    for rank, lane in enumerate(lanes):
        for row in steps(lane, begin_ns, end_ns):
            for mark, _ in row.get("out", ()):
                left[mark] = (rank, row)
    parts = []
    for rank, lane in enumerate(lanes):
        for row in steps(lane, begin_ns, end_ns):
            for mark, kind in row.get("in", ()):
                if mark in left and left[mark][0] != rank:
                    source, sent = left[mark]
                    dashes = "" if kind == "data" else ' stroke-dasharray="5 4"'
                    colour = "#3567b7" if kind == "data" else "#999"
                    parts.append(
                        f'<line x1="{x(sent["end_ns"]):.1f}" y1="{y(source)}" x2="{x(row["begin_ns"]):.1f}" '
                        f'y2="{y(rank)}" stroke="{colour}" stroke-width="1.3"{dashes}/>'
                    )
    return parts


def marks(row: Object, x: Place, y: int, message: str) -> list[str]:
    """A step or a wake-up."""
    at = x(row["begin_ns"])
    if row["what"] == "wake":
        colour = "#c0392b" if row["why"] == "timer" else "#999"
        return [f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y + 14}" y2="{y + 22}" stroke="{colour}" stroke-width="2"/>']
    width = max(2.0, x(row["end_ns"]) - at)
    parts = [
        f'<rect x="{at:.1f}" y="{y - 10}" width="{width:.1f}" height="20" fill="{COLOURS[row["what"]]}">'
        f"<title>{escape(row['what'])}</title></rect>"
    ]
    if message in row["delivered"]:
        parts.append(f'<circle cx="{at + width:.1f}" cy="{y - 18}" r="5" fill="black"/>')
    return parts
