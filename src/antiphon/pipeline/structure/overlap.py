"""The overlap graph of groups (isis-1991, section 6.6): its nodes are groups, its edges pairs that share a member.

A process that leaves one group and then joins another carries what it knows from the first into the second, so
membership is taken over the whole history, not at one moment.

*Connected components*: between two of them no causal chain can pass. *Biconnected components*: two groups are in one if
they stay connected when any third group is taken away; a pair without a way around is a component of two. A group's
messages need to carry the vector times of groups in its own biconnected components only. The structure is *k-bounded*
if none of them has more than k groups; without cycles, members need the times of their own groups only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import rustworkx as rx

from antiphon.kernel.errors import UsageError

OVERLAPS_MAX: Final = 1_000_000
"""Pairs of groups that are held at once; a thousand processes that are each in more than forty groups of their own."""

ACYCLIC: Final = 2
"""The size of a biconnected component that is a single edge: such components close no cycle."""


@dataclass(frozen=True)
class Overlap:
    """Two groups, in alphabetical order, and who is in both."""

    first: str
    second: str
    shared: tuple[str, ...]

    @property
    def is_strong(self) -> bool:
        """Strongly intersecting: two members could disagree about the order of the two groups (kindberg-1995, 4.2)."""
        return len(self.shared) >= 2


@dataclass(frozen=True)
class OverlapGraph:
    """Components are sorted tuples of groups; the largest come first. Every group is in one connected component, and in
    a biconnected one if it overlaps with any other."""

    overlaps: tuple[Overlap, ...]
    connected: tuple[tuple[str, ...], ...]
    biconnected: tuple[tuple[str, ...], ...]

    @property
    def bound(self) -> int:
        """The k of k-bounded: groups in the largest component that closes a cycle; 0 if there is no cycle."""
        largest = max((len(component) for component in self.biconnected), default=0)
        return largest if largest > ACYCLIC else 0


def overlap_graph(members: Mapping[str, frozenset[str]]) -> OverlapGraph:
    """The graph of groups with these members."""
    overlaps = _overlaps(members)
    names = sorted(members)
    places = {name: place for place, name in enumerate(names)}
    graph: rx.PyGraph[str, None] = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(names)
    graph.add_edges_from_no_data([(places[overlap.first], places[overlap.second]) for overlap in overlaps])
    connected = [tuple(sorted(names[place] for place in part)) for part in rx.connected_components(graph)]
    by_number: dict[int, set[str]] = {}
    for (one, other), number in rx.biconnected_components(graph).items():
        by_number.setdefault(number, set()).update((names[one], names[other]))
    biconnected = [tuple(sorted(part)) for part in by_number.values()]
    return OverlapGraph(overlaps, _largest_first(connected), _largest_first(biconnected))


def _overlaps(members: Mapping[str, frozenset[str]]) -> tuple[Overlap, ...]:
    groups_of: dict[str, list[str]] = {}
    for group in sorted(members):
        for process in members[group]:
            groups_of.setdefault(process, []).append(group)
    shared: dict[tuple[str, str], list[str]] = {}
    for process in sorted(groups_of):
        for pair in combinations(groups_of[process], 2):
            shared.setdefault(pair, []).append(process)
        if len(shared) > OVERLAPS_MAX:
            raise UsageError(
                f"more than {OVERLAPS_MAX:,} pairs of groups overlap, which is more than a plan can hold; "
                "look at a part of the history, with fewer groups"
            )
    return tuple(Overlap(*pair, tuple(names)) for pair, names in sorted(shared.items()))


def _largest_first(parts: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(parts, key=lambda part: (-len(part), part)))
