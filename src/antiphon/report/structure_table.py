"""The structure of groups as tables for the terminal: groups, overlaps, sequencers, broadcast domains, in words."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from antiphon.pipeline.structure.finding import Structure
from antiphon.pipeline.structure.overlap import ACYCLIC, Overlap
from antiphon.report.words import printable

LINES_MAX: Final = 40
"""Lines of one table; the rest is counted. The JSON document and the plan have all."""
NAMES_MAX: Final = 6


def structure_table(structure: Structure) -> RenderableType:
    """What to print for a structure. All text is literal."""
    parts: list[RenderableType] = [_groups(structure)]
    if structure.graph.overlaps:
        parts += [Text(), _overlaps(structure)]
    parts += [Text(), _sequencers(structure), Text(), _broadcast(structure), Text(), Text(summary(structure))]
    return Group(*parts)


def summary(structure: Structure) -> str:
    """The structure in two sentences."""
    graph = structure.graph
    groups, parts = len(structure.traffic.members), len(graph.connected)
    strong = sum(overlap.is_strong for overlap in graph.overlaps)
    pairs = _count(len(graph.overlaps), "overlapping pair")
    if graph.bound:
        cycles = f"The structure is {graph.bound}-bounded: its largest cycles lie among {graph.bound} groups."
    else:
        cycles = "The structure has no cycle: messages carry the times of their sender's own groups at most."
    components = f"{_count(groups, 'group')} in {_count(parts, 'connected component')}"
    return f"{components}; {pairs}, {strong:,} of them strong. {cycles}"


def _groups(structure: Structure) -> Table:
    table = _table(("group", "members*", "messages*", "bytes*", "times carried*", "sequencer", "causality domain"))
    traffic = structure.traffic
    sequencer_of = {group: sequencer for sequencer in structure.sequencers for group in sequencer.groups}
    domain_of = {group: part[0] for part in structure.graph.connected for group in part}
    carried: dict[str, set[str]] = {group: {group} for group in traffic.members}
    for part in structure.graph.biconnected:
        for group in part:
            carried[group].update(part)
    heaviest = sorted(traffic.members, key=lambda group: (-traffic.messages[group], group))
    for group in heaviest[:LINES_MAX]:
        table.add_row(
            Text(printable(group)),
            f"{len(traffic.members[group]):,}",
            f"{traffic.messages[group]:,}",
            f"{traffic.bytes[group]:,}",
            f"{len(carried[group]):,}",
            Text(printable(sequencer_of[group].process or "none")),
            Text(printable(domain_of[group])),
        )
    return _rest(table, len(heaviest))


def _overlaps(structure: Structure) -> Table:
    table = _table(("overlap", "shared*", "kind", "component*", "members and views"))
    parts = [set(part) for part in structure.graph.biconnected]
    overlaps = sorted(structure.graph.overlaps, key=lambda overlap: -len(overlap.shared))
    for overlap in overlaps[:LINES_MAX]:
        pair = {overlap.first, overlap.second}
        size = next(len(part) for part in parts if pair <= part)
        kind = "strong" if overlap.is_strong else "weak"
        table.add_row(
            Text(printable(f"{overlap.first} · {overlap.second}")),
            f"{len(overlap.shared):,}",
            Text(kind, style="bold" if overlap.is_strong else "dim"),
            "bridge" if size == ACYCLIC else f"{size:,}",
            Text(printable(_shared(structure, overlap))),
        )
    return _rest(table, len(overlaps))


def _shared(structure: Structure, overlap: Overlap) -> str:
    """ "alice (views 1–4 · 2)": the views of either group that list the member."""
    return _some([f"{process} ({_views(structure, overlap, process)})" for process in overlap.shared])


def _views(structure: Structure, overlap: Overlap, process: str) -> str:
    ranges = []
    for group in (overlap.first, overlap.second):
        share = structure.traffic.by_place[group, process]
        first, last = share.view_first, share.view_last
        ranges.append("no view" if first is None else f"{first}" if first == last else f"{first}–{last}")
    return f"views {ranges[0]} · {ranges[1]}"


def _sequencers(structure: Structure) -> Table:
    table = _table(("sequencer at", "messages*", "bytes*", "groups; those in ( ) intersect strongly"))
    for sequencer in structure.sequencers[:LINES_MAX]:
        clusters = [
            cluster.groups[0] if len(cluster.groups) == 1 else f"({_some(cluster.groups)})"
            for cluster in sequencer.clusters
        ]
        table.add_row(
            Text(printable(sequencer.process or "none")),
            f"{sequencer.messages:,}",
            f"{sequencer.bytes:,}",
            Text(printable(_some(clusters))),
        )
    return _rest(table, len(structure.sequencers))


def _broadcast(structure: Structure) -> Table:
    table = _table(("broadcast domain", "relay", "groups that cross"))
    for domain in structure.broadcast_domains[:LINES_MAX]:
        table.add_row(
            Text(printable(_some(domain.members))),
            Text(printable(domain.relay or "none")),
            Text(printable(_some(domain.crossing) or "none")),
        )
    return _rest(table, len(structure.broadcast_domains))


def _table(columns: Sequence[str]) -> Table:
    """A table; a column with a star is one of figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name.removesuffix("*"), justify="right" if name.endswith("*") else "left", overflow="fold")
    return table


def _rest(table: Table, lines: int) -> Table:
    if lines > LINES_MAX:
        table.add_row(Text(f"… and {lines - LINES_MAX:,} more", style="dim"))
    return table


def _some(names: Sequence[str]) -> str:
    more = f" … {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
