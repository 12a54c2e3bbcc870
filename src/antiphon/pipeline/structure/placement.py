"""Where to sequence: strongly intersecting groups together, the rest by measured load (kindberg-1995, section 4.2).

Two groups that share two or more members need one sequencer, or the two could see their messages in different orders
(condition S2). That is closed transitively into *clusters*. Apart from it groups are best sequenced apart, so without a
limit every cluster has a sequencer of its own. Where there shall be fewer, the heaviest cluster still to be placed goes
to the sequencer with the least to do (Graham's longest-processing-time rule): the heaviest sequencer then has at most
4/3 of what it would have in the best placement of all.

The load of a group is the messages sent to all of it: a sequencer handles each once, whatever its level (sections 4.1
and 5). What goes to one member only does not pass it. A sequencer is suggested to run at the member that sends most to
its groups (section 7), no process with two sequencers while there is a member without one.

Deviation: S2 orders any two groups alike at all who are in both. A cycle over three or more groups, each pair with one
member in common, it leaves open, and with it the guarantee `total_global`.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import rustworkx as rx

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.structure.overlap import Overlap


@dataclass(frozen=True)
class Cluster:
    """Groups that need one sequencer."""

    groups: tuple[str, ...]
    messages: int
    bytes: int


@dataclass(frozen=True)
class Sequencer:
    """One sequencer: the process that it is suggested to run at, its clusters, and what they add up to."""

    process: str | None
    """None where no group has a member."""
    clusters: tuple[Cluster, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(group for cluster in self.clusters for group in cluster.groups))

    @property
    def messages(self) -> int:
        return sum(cluster.messages for cluster in self.clusters)

    @property
    def bytes(self) -> int:
        return sum(cluster.bytes for cluster in self.clusters)


def clusters_of(
    groups: Iterable[str], overlaps: Iterable[Overlap], messages: Mapping[str, int], bytes: Mapping[str, int]
) -> tuple[Cluster, ...]:
    """The groups, with all that intersect strongly in one cluster; the heaviest cluster first."""
    names = sorted(groups)
    places = {name: place for place, name in enumerate(names)}
    graph: rx.PyGraph[str, None] = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(names)
    strong = [(places[overlap.first], places[overlap.second]) for overlap in overlaps if overlap.is_strong]
    graph.add_edges_from_no_data(strong)
    clusters = []
    for part in rx.connected_components(graph):
        own = tuple(sorted(names[place] for place in part))
        clusters.append(Cluster(own, sum(messages[group] for group in own), sum(bytes[group] for group in own)))
    return tuple(sorted(clusters, key=_heaviest_first))


def place(clusters: Iterable[Cluster], sequencers_max: int | None) -> list[tuple[Cluster, ...]]:
    """The clusters of each sequencer; at most `sequencers_max` sequencers, or one per cluster."""
    if sequencers_max is not None and sequencers_max < 1:
        raise UsageError(f"{sequencers_max} sequencers cannot order anything; allow 1 or more")
    ordered = sorted(clusters, key=_heaviest_first)
    if sequencers_max is None or sequencers_max >= len(ordered):
        return [(cluster,) for cluster in ordered]
    placed: list[list[Cluster]] = [[] for _ in range(sequencers_max)]
    loads = [(0, 0, 0, number) for number in range(sequencers_max)]
    for cluster in ordered:
        messages, bytes, groups, number = heapq.heappop(loads)
        placed[number].append(cluster)
        load = (messages + cluster.messages, bytes + cluster.bytes, groups + len(cluster.groups), number)
        heapq.heappush(loads, load)
    return [tuple(own) for own in placed]


def host(placed: Iterable[tuple[Cluster, ...]], sent: Mapping[str, Mapping[str, int]]) -> tuple[Sequencer, ...]:
    """A process for each sequencer, the heaviest first to choose; `sent` maps group → member → messages."""
    taken: set[str] = set()
    sequencers = []
    for clusters in sorted(placed, key=lambda own: (-sum(cluster.messages for cluster in own), own[0].groups)):
        totals: dict[str, int] = {}
        for group in (group for cluster in clusters for group in cluster.groups):
            for process, messages in sent[group].items():
                totals[process] = totals.get(process, 0) + messages
        free = totals.keys() - taken or totals.keys()
        chosen = min(free, key=lambda process: (-totals[process], process), default=None)
        if chosen is not None:
            taken.add(chosen)
        sequencers.append(Sequencer(chosen, clusters))
    return tuple(sequencers)


def _heaviest_first(cluster: Cluster) -> tuple[int, int, tuple[str, ...]]:
    return -cluster.messages, -cluster.bytes, cluster.groups
