"""The context graph and its slow twin: the definitions of psync-1989, section 2, over sets, on random conversations.

    python -m tests.parts.graphs --conversations 10000

The twin keeps, of each message, the whole set of those that precede it. An edge is redundant if a message lies between
its ends; a message is stable if every other participant has sent one in its context; waves are the roots of what is
left, taken away one after the other.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from random import Random

from antiphon.parts.message_graph import GraphView, MessageGraph, Mid, Node


@dataclass
class Twin:
    """A conversation by its definition."""

    participants: int
    preceding: dict[Mid, frozenset[Mid]] = field(default_factory=dict)
    """Of each message, all that precede it."""

    def send(self, sender: int, view: frozenset[Mid]) -> Mid:
        mid = (sender, 1 + sum(own == sender for own, _ in self.preceding))
        self.preceding[mid] = view
        return mid

    def edges(self) -> set[tuple[Mid, Mid]]:
        """The transitive reduction."""
        return {
            (one, other)
            for other, before in self.preceding.items()
            for one in before
            if not any(one in self.preceding[between] for between in before)
        }

    def followers(self, mid: Mid, within: frozenset[Mid]) -> set[int]:
        """Who else has sent a message in the context of this one, as far as somebody can see."""
        return {other[0] for other in within if mid in self.preceding[other]} - {mid[0]}

    def waves(self) -> list[set[Mid]]:
        left = set(self.preceding)
        waves: list[set[Mid]] = []
        while left:
            roots = {mid for mid in left if not self.preceding[mid] & left}
            waves.append(roots)
            left -= roots
        return waves


@dataclass
class Host:
    """A participant: its image of the graph, its view, and what it has sent or received."""

    graph: MessageGraph
    view: GraphView
    has: set[Mid] = field(default_factory=set)
    arrived: list[Mid] = field(default_factory=list)
    """In the image, not yet in the view."""

    def attach(self, mid: Mid, predecessors: list[Mid]) -> Node:
        return self.graph.attach(*mid, predecessors, b"%d-%d" % mid)


@dataclass
class Conversation:
    """A random conversation over hosts among which messages take their time."""

    random: Random
    participants: int
    twin: Twin = field(init=False)
    hosts: list[Host] = field(init=False)
    predecessors: dict[Mid, list[Mid]] = field(default_factory=dict)
    on_the_way: list[list[Mid]] = field(init=False)

    def __post_init__(self) -> None:
        self.twin = Twin(self.participants)
        graphs = [MessageGraph(self.participants, keep_bodies=True) for _ in range(self.participants)]
        self.hosts = [Host(graph, GraphView(graph)) for graph in graphs]
        self.on_the_way = [[] for _ in self.hosts]

    def step(self) -> None:
        """Somebody sends, or something arrives somewhere, or somebody receives what has arrived."""
        rank = self.random.randrange(self.participants)
        host = self.hosts[rank]
        act = self.random.random()
        if act < 0.3:
            self._send(rank)
        elif act < 0.65 and self.on_the_way[rank]:
            self._arrive(rank)
        elif host.arrived:
            mid = host.arrived.pop(0)
            node = host.graph.node(mid)
            assert node is not None
            host.view.add(node)
            host.has.add(mid)

    def _send(self, rank: int) -> None:
        host = self.hosts[rank]
        mid = self.twin.send(rank, frozenset(host.has))
        leaves = [leaf.mid() for leaf in host.view.leaves()]
        self.predecessors[mid] = leaves
        host.view.add(host.attach(mid, leaves))
        host.has.add(mid)
        for other, way in enumerate(self.on_the_way):
            if other != rank:
                way.insert(self.random.randrange(len(way) + 1), mid)

    def _arrive(self, rank: int) -> None:
        """The first message on the way whose predecessors are here; the others are held back."""
        host, way = self.hosts[rank], self.on_the_way[rank]
        for mid in way:
            if not host.graph.missing(self.predecessors[mid]):
                host.attach(mid, self.predecessors[mid])
                host.arrived.append(mid)
                way.remove(mid)
                return


def differences(seed: int, steps: int = 120) -> tuple[int, list[str]]:
    """How many messages a random conversation had, and where graph and twin differ after it."""
    random = Random(seed)
    made = Conversation(random, random.randint(1, 7))
    for _ in range(random.randint(1, steps)):
        made.step()
    wrong: list[str] = []
    waves = {mid: place for place, wave in enumerate(made.twin.waves(), start=1) for mid in wave}
    edges = made.twin.edges()
    for rank, host in enumerate(made.hosts):
        problems = _host_differences(made.twin, host, edges, waves)
        wrong += [f"seed {seed}, host {rank}: {problem}" for problem in problems]
    return len(made.twin.preceding), wrong


def _host_differences(twin: Twin, host: Host, edges: set[tuple[Mid, Mid]], waves: dict[Mid, int]) -> list[str]:
    wrong: list[str] = []
    graph = host.graph
    image = frozenset(host.has.union(host.arrived))
    found = {mid: node for mid in image if (node := graph.node(mid)) is not None}
    if len(found) != len(image) or graph.nodes != len(image):
        return [f"holds {graph.nodes} nodes instead of {len(image)}"]
    for mid, node in found.items():
        if {(before.mid(), mid) for before in node.predecessors} != {edge for edge in edges if edge[1] == mid}:
            wrong.append(f"{mid} is attached to {node.predecessors}")
        if {(mid, after.mid()) for after in node.successors} != {edge for edge in edges if edge[0] == mid} & {
            (mid, other) for other in image
        }:
            wrong.append(f"{mid} is followed by {node.successors}")
        if node.wave != waves[mid]:
            wrong.append(f"{mid} is in wave {node.wave} instead of {waves[mid]}")
        followers = twin.followers(mid, image)
        if graph.is_stable(node) != (len(followers) == twin.participants - 1):
            wrong.append(f"{mid} is followed by {followers}, stable: {graph.is_stable(node)}")
        for n in range(1, twin.participants + 1):
            if graph.is_n_stable(node, n) != (len(followers) >= n - 1):
                wrong.append(f"{mid} is followed by {followers}, {n}-stable: {graph.is_n_stable(node, n)}")
        for other, later in found.items():
            if node.precedes(later) != (mid in twin.preceding[other]):
                wrong.append(f"{mid} precedes {other}: {node.precedes(later)}")
    tips = {mid for mid in host.has if not any(mid in twin.preceding[other] for other in host.has)}
    if {leaf.mid() for leaf in host.view.leaves()} != tips:
        wrong.append(f"the leaves of the view are {host.view.leaves()} instead of {tips}")
    if {root.mid() for root in host.view.roots()} != {mid for mid in host.has if not twin.preceding[mid]}:
        wrong.append(f"the roots of the view are {host.view.roots()}")
    if host.view.outstanding() != bool(host.arrived):
        wrong.append(f"{host.arrived} is outstanding: {host.view.outstanding()}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=10_000)
    options = parser.parse_args()
    started_s = time.perf_counter()
    messages, wrong = 0, list[str]()
    for seed in range(options.conversations):
        count, problems = differences(seed)
        messages += count
        wrong += problems
    for problem in wrong[:20]:
        print(problem, file=sys.stderr)
    elapsed_s = round(time.perf_counter() - started_s, 1)
    summary = {"conversations": options.conversations, "messages": messages, "differences": len(wrong)}
    print(json.dumps(summary | {"elapsed_s": elapsed_s}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
