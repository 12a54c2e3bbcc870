"""The structure of groups as one SVG: the overlap graph, and beside it who is in which group.

Graph: a circle is a group, its area the messages sent there, its colour the sequencer; a line joins groups that share
members, as wide as they are many, solid where the groups intersect strongly, dashed where one member alone is shared.
Grid: a row is a process, a column a group, a filled square a membership; lines part the broadcast domains, and a relay
is underlined. A pure function: the same structure gives the same picture.
"""

import xml.etree.ElementTree as ET
from typing import Final

import rustworkx as rx

from antiphon.pipeline.structure.finding import Structure
from antiphon.pipeline.structure.overlap import Overlap, OverlapGraph
from antiphon.report.markup import Attribute, raw, tag
from antiphon.report.structure_table import summary
from antiphon.report.words import clipped

GROUPS_MAX: Final = 60
"""Groups that are drawn, those with most messages; the caption counts the rest."""
PROCESSES_MAX: Final = 80
COLOURS: Final = ("#4269d0", "#efb118", "#ff725c", "#3ca951", "#6cc5b0", "#a463f2", "#97bbf5", "#9c6b4e")
RADIUS_MIN: Final = 9.0
RADIUS_MAX: Final = 30.0
MARGIN: Final = 24.0
TOP: Final = 84.0
SPACING: Final = 130.0
"""The side of the square that one group alone takes."""
CELL: Final = 18.0
CHARACTER: Final = 6.6
NAME_LENGTH_MAX: Final = 22

STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #222 }
.caption { font-size: 14px; font-weight: 600 }
.note, .shared { fill: #666 }
.shared { font-size: 11px; paint-order: stroke; stroke: #fff; stroke-width: 3px }
.name { paint-order: stroke; stroke: #fff; stroke-width: 3px }
.overlap { stroke: #555; stroke-opacity: .55 }
.weak { stroke-dasharray: 5 4; stroke-opacity: .4 }
.group { stroke: #fff; stroke-width: 1.5 }
.cell { fill: #eee }
.border { stroke: #888 }
.relay { text-decoration: underline }
"""


def structure_picture(structure: Structure) -> str:
    """The picture, as the text of an SVG file."""
    return ET.tostring(_StructurePainter(structure).picture(), encoding="unicode") + "\n"


class _StructurePainter:
    """Draws one structure; holds what both halves need to know."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        traffic = structure.traffic
        heaviest = sorted(traffic.members, key=lambda group: (-traffic.messages[group], group))[:GROUPS_MAX]
        order = {group: place for place, group in enumerate(g for part in structure.graph.connected for g in part)}
        self.groups = sorted(heaviest, key=lambda group: order[group])
        self.colour = {
            group: COLOURS[number % len(COLOURS)]
            for number, sequencer in enumerate(structure.sequencers)
            for group in sequencer.groups
        }
        self.sequencer_of = {group: own for own in structure.sequencers for group in own.groups}
        self.points, self.width, self.height = lay_out(self.groups, structure.graph)

    def picture(self) -> ET.Element:
        graph = self.graph()
        grid, grid_width, grid_height = self.grid(2 * MARGIN + self.width)
        words, note = summary(self.structure), self.note()
        lines = words.split(". ", maxsplit=1)
        room = max(self.width + MARGIN + grid_width, *(8.6 * len(line) for line in lines), 6.6 * len(note))
        width = 2 * MARGIN + room
        height = TOP + max(self.height, grid_height) + MARGIN
        size: dict[str, Attribute] = {
            "xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": width, "height": height, "role": "img", "aria-label": words,
        }  # fmt: skip
        return tag(
            "svg",
            size,
            raw("style", STYLE),
            tag("rect", {"width": width, "height": height, "fill": "#fff"}),
            *(
                tag("text", {"class": "caption", "x": MARGIN, "y": 26 + 19 * row}, line)
                for row, line in enumerate(lines)
            ),
            tag("text", {"class": "note", "x": MARGIN, "y": 66}, note),
            graph,
            grid,
        )

    def note(self) -> str:
        more = len(self.structure.traffic.members) - len(self.groups)
        left_out = f" {more:,} groups with fewer messages are not drawn." if more else ""
        return (
            "Circle: a group, its colour the sequencer, its area the messages. Line: shared members; dashed: only one. "
            f"Grid: who is in which group, by broadcast domain.{left_out}"
        )

    # ---- the graph -------------------------------------------------------------------------------------------------

    def graph(self) -> ET.Element:
        points = self.points
        drawn = [o for o in self.structure.graph.overlaps if o.first in points and o.second in points]
        lines = [self.overlap(o, points[o.first], points[o.second]) for o in drawn]
        circles = [self.group(group, *points[group]) for group in self.groups]
        return tag("g", None, *lines, *circles)

    def overlap(self, overlap: Overlap, first: tuple[float, float], second: tuple[float, float]) -> ET.Element:
        shared = len(overlap.shared)
        line: dict[str, Attribute] = {
            "class": "overlap" if overlap.is_strong else "overlap weak",
            "x1": first[0], "y1": first[1], "x2": second[0], "y2": second[1],
            "stroke-width": min(1.5 * shared, 9.0),
        }  # fmt: skip
        middle = ((first[0] + second[0]) / 2, (first[1] + second[1]) / 2)
        words = f"{overlap.first} and {overlap.second} share {', '.join(overlap.shared[:12])}"
        count: dict[str, Attribute] = {"class": "shared", "x": middle[0], "y": middle[1] + 4, "text-anchor": "middle"}
        return tag("g", None, tag("title", None, words), tag("line", line), tag("text", count, str(shared)))

    def group(self, group: str, x: float, y: float) -> ET.Element:
        traffic = self.structure.traffic
        most = max(traffic.messages.values(), default=0)
        share = traffic.messages[group] / most if most else 0.0
        radius = max(RADIUS_MIN, RADIUS_MAX * share**0.5)
        sequencer = self.sequencer_of[group].process
        words = (
            f"{group}: {len(traffic.members[group]):,} members, {traffic.messages[group]:,} messages, "
            f"{traffic.bytes[group]:,} bytes; " + (f"sequencer at {sequencer}" if sequencer else "no sequencer")
        )
        circle: dict[str, Attribute] = {"class": "group", "cx": x, "cy": y, "r": radius, "fill": self.colour[group]}
        name: dict[str, Attribute] = {"class": "name", "x": x, "y": y + radius + 14, "text-anchor": "middle"}
        label = tag("text", name, clipped(group, NAME_LENGTH_MAX))
        return tag("g", None, tag("title", None, words), tag("circle", circle), label)

    # ---- the grid --------------------------------------------------------------------------------------------------

    def grid(self, left: float) -> tuple[ET.Element, float, float]:
        """Who is in which group; with its width and height."""
        members = self.structure.traffic.members
        shown: list[tuple[str, bool, bool]] = []
        for domain in self.structure.broadcast_domains:
            for place, process in enumerate(domain.members):
                shown.append((process, process == domain.relay, place == 0))
        rows = shown[:PROCESSES_MAX]
        names = max((len(clipped(process, NAME_LENGTH_MAX)) for process, _, _ in rows), default=0) * CHARACTER + 8
        heads = max(len(clipped(group, NAME_LENGTH_MAX)) for group in self.groups) * CHARACTER * 0.75 + 8
        top = TOP + heads
        grid = tag("g", None)
        for column, group in enumerate(self.groups):
            x = left + names + column * CELL + CELL / 2
            turn: dict[str, Attribute] = {"x": x, "y": top - 6, "transform": f"rotate(-45 {x:.1f} {top - 6:.1f})"}
            grid.append(tag("text", turn, clipped(group, NAME_LENGTH_MAX)))
        for row, (process, is_relay, opens) in enumerate(rows):
            y = top + row * CELL
            if opens and row:
                edge: dict[str, Attribute] = {"class": "border", "x1": left, "y1": y, "y2": y}
                grid.append(tag("line", edge | {"x2": left + names + len(self.groups) * CELL}))
            named: dict[str, Attribute] = {"class": "relay" if is_relay else "", "x": left, "y": y + 13}
            grid.append(tag("text", named, clipped(process, NAME_LENGTH_MAX)))
            for column, group in enumerate(self.groups):
                box: dict[str, Attribute] = {
                    "class": "cell", "x": left + names + column * CELL + 1, "y": y + 1,
                    "width": CELL - 2, "height": CELL - 2, "rx": 2,
                }  # fmt: skip
                if process in members[group]:
                    box |= {"class": "member", "fill": self.colour[group]}
                grid.append(tag("rect", box, tag("title", None, f"{process} · {group}")))
        if len(shown) > len(rows):
            rest: dict[str, Attribute] = {"class": "note", "x": left, "y": top + len(rows) * CELL + 14}
            grid.append(tag("text", rest, f"{len(shown) - len(rows):,} more processes are not drawn"))
        width = names + len(self.groups) * CELL + heads * 0.7
        return grid, width, heads + (len(rows) + 1) * CELL


def lay_out(groups: list[str], graph: OverlapGraph) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Where the groups stand, their width and height: each component in a square of its own, the squares in rows."""
    chosen = set(groups)
    parts = [own for part in graph.connected if (own := [group for group in part if group in chosen])]
    parts.sort(key=len, reverse=True)
    sides = [SPACING * len(part) ** 0.5 for part in parts]
    width = max(sides[0], SPACING * len(groups) ** 0.5)
    points: dict[str, tuple[float, float]] = {}
    left, top, row_height = 0.0, 0.0, 0.0
    for part, side in zip(parts, sides, strict=True):
        if left + side > width + 1e-6:
            left, top, row_height = 0.0, top + row_height, 0.0
        for group, (x, y) in _spread(part, graph, side).items():
            points[group] = (MARGIN + left + x, TOP + top + y)
        left, row_height = left + side, max(row_height, side)
    return points, width, top + row_height


def _spread(part: list[str], graph: OverlapGraph, side: float) -> dict[str, tuple[float, float]]:
    """One component: drawn together by its overlaps, from a circle, then stretched to fill its square."""
    places = {group: place for place, group in enumerate(part)}
    springs: rx.PyGraph[str, None] = rx.PyGraph(multigraph=False)
    springs.add_nodes_from(part)
    known = [o for o in graph.overlaps if o.first in places and o.second in places]
    springs.add_edges_from_no_data([(places[o.first], places[o.second]) for o in known])
    circle = {place: (point[0], point[1]) for place, point in rx.circular_layout(springs).items()}
    found = rx.spring_layout(springs, pos=circle, k=3.0 / len(part) ** 0.5, num_iter=500, seed=1)
    columns = [_stretch([float(found[place][axis]) for place in places.values()], side) for axis in (0, 1)]
    return dict(zip(part, zip(*columns, strict=True), strict=True))


def _stretch(column: list[float], side: float) -> list[float]:
    low, high = min(column), max(column)
    room = side - 2 * RADIUS_MAX - MARGIN
    if high - low < 1e-9:
        return [side / 2] * len(column)
    return [RADIUS_MAX + MARGIN / 2 + room * (value - low) / (high - low) for value in column]
