"""The context graph and its slow twin: the definitions of psync-1989 over sets, on random conversations.

    python -m tests.parts.graphs --conversations 10000

The twin keeps, of each message, the whole set of those that precede it. An edge is redundant if a message lies between
its ends; a message is stable if every other participant that works has sent one in its context; waves are the roots of
what is left, taken away one after the other. Hosts hear of messages late, receive them later, and in some conversations
mask each other out and in again and free nodes. Whatever the graph can be asked is asked at the end, of every host.
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from antiphon.parts.message_graph import GraphError, GraphNode, GraphView, MessageGraph, Mid


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

    def followers(self, mid: Mid, within: set[Mid]) -> set[int]:
        """Who else has sent a message in the context of this one, as far as somebody can see."""
        return {other[0] for other in within if mid in self.preceding[other]} - {mid[0]}

    def is_stable(self, mid: Mid, within: set[Mid], masked: set[int]) -> bool:
        return self.followers(mid, within) >= set(range(self.participants)) - masked - {mid[0]}

    def tips(self, within: set[Mid]) -> set[Mid]:
        """The leaves of what somebody has."""
        return {mid for mid in within if not any(mid in self.preceding[other] for other in within)}

    def waves(self) -> dict[Mid, int]:
        """The number of the wave of each message."""
        left = set(self.preceding)
        numbers: dict[Mid, int] = {}
        wave = 0
        while left:
            wave += 1
            roots = {mid for mid in left if not self.preceding[mid] & left}
            numbers |= dict.fromkeys(roots, wave)
            left -= roots
        return numbers


@dataclass
class Host:
    """A participant: the graph and the view under test, and what they are by definition."""

    graph: MessageGraph
    view: GraphView
    nodes: dict[Mid, GraphNode] = field(default_factory=dict)
    """All that were ever attached: the image."""
    has: set[Mid] = field(default_factory=set)
    """The view."""
    arrived: list[Mid] = field(default_factory=list)
    """In the image, not in the view."""
    masked: set[int] = field(default_factory=set)
    stable: set[Mid] = field(default_factory=set)
    """All that were ever stable."""
    freed: set[Mid] = field(default_factory=set)

    def replica(self) -> set[Mid]:
        return set(self.nodes)

    def freeable(self) -> set[Mid]:
        """The stable ones that are left, but for the last of each participant."""
        return {mid for mid in self.stable - self.freed if (mid[0], mid[1] + 1) in self.nodes}

    def attach(self, mid: Mid, predecessors: list[Mid]) -> GraphNode:
        self.nodes[mid] = self.graph.attach(*mid, predecessors, b"%d-%d" % mid)
        return self.nodes[mid]

    def note_stable(self, twin: Twin) -> None:
        replica = self.replica()
        self.stable |= {mid for mid in replica - self.stable if twin.is_stable(mid, replica, self.masked)}


@dataclass
class Conversation:
    """A random conversation over hosts among which messages take their time."""

    random: Random
    participants: int
    keep_bodies: bool
    masks: bool
    frees: bool
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    twin: Twin = field(init=False)
    hosts: list[Host] = field(init=False)
    predecessors: dict[Mid, list[Mid]] = field(default_factory=dict)
    on_the_way: list[list[Mid]] = field(init=False)

    def __post_init__(self) -> None:
        self.twin = Twin(self.participants)
        graphs = [MessageGraph(self.participants, keep_bodies=self.keep_bodies) for _ in range(self.participants)]
        self.hosts = [Host(graph, GraphView(graph)) for graph in graphs]
        self.on_the_way = [[] for _ in self.hosts]

    def step(self) -> None:
        """Somebody sends, or something arrives somewhere, or somebody receives what has arrived, masks, or frees."""
        rank = self.random.randrange(self.participants)
        host = self.hosts[rank]
        act = self.random.random()
        if act < 0.28:
            self._send(rank)
        elif act < 0.62:
            self._arrive(rank)
        elif act < 0.9 and host.arrived:
            mid = host.arrived.pop(0)
            host.view.add(host.nodes[mid])
            host.has.add(mid)
        elif act >= 0.96 and self.masks:
            self._mask(rank)
        elif act >= 0.9 and self.frees:
            self._free(host)
        host.note_stable(self.twin)

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
        """The first message on the way whose predecessors are here; the others are held back.

        One that names what was freed here is refused. That may be only if its sender is, or was, masked out.
        """
        host, way = self.hosts[rank], self.on_the_way[rank]
        for mid in way:
            named = self.predecessors[mid]
            if set(host.graph.missing(named)) != set(named) - host.replica():
                self.wrong.append(f"{host.graph.missing(named)} is missing")
            if set(named) <= host.replica():
                way.remove(mid)
                try:
                    host.attach(mid, named)
                    host.arrived.append(mid)
                except GraphError:
                    self.counts["refused"] += 1
                    if not host.freed & set(named) or not self.masks:
                        self.wrong.append(f"{mid} is refused, which names {named}")
                return

    def _mask(self, rank: int) -> None:
        """Out or in; nobody masks out itself."""
        others = [other for other in range(self.participants) if other != rank]
        if not others:
            return
        host, other = self.hosts[rank], self.random.choice(others)
        self.counts["masks"] += 1
        if other in host.masked:
            host.masked.remove(other)
            host.graph.mask_in(other)
        else:
            host.masked.add(other)
            host.graph.mask_out(other)

    def _free(self, host: Host) -> None:
        waves = self.twin.waves()
        left = sorted(host.freeable(), key=lambda mid: (waves[mid], mid[0]))
        held = [node for mid, node in host.nodes.items() if mid not in host.freed]
        if not held:
            return
        way = self.random.randrange(3)
        if way == 0:
            node = self.random.choice(held)
            past = self.twin.preceding[node.mid()] | {node.mid()}
            expected = {mid for mid in left if mid in past}
            freed = host.graph.free(node)
        elif way == 1:
            wave = self.random.randint(1, 2 + max(waves.values()))
            expected = {mid for mid in left if waves[mid] < wave}
            freed = host.graph.free_waves(wave)
        else:
            keep = self.random.randrange(len(held) + 1)
            expected = set(left[: max(0, len(held) - keep)])
            freed = host.graph.trim(keep)
        if freed != len(expected):
            self.wrong.append(f"{freed} were freed instead of {expected}")
        self.counts["freed"] += freed
        host.freed |= expected


def converse(seed: int, steps: int = 120) -> Conversation:
    """A random conversation: one in two frees, one in three masks."""
    random = Random(seed)
    made = Conversation(random, random.randint(1, 7), seed % 5 == 0, masks=seed % 3 == 0, frees=seed % 2 == 0)
    for _ in range(random.randint(1, steps)):
        made.step()
    return made


def differences(made: Conversation) -> list[str]:
    """Where graphs and twin differ after a conversation."""
    wrong = list(made.wrong)
    waves = made.twin.waves()
    edges = made.twin.edges()
    for rank, host in enumerate(made.hosts):
        problems = [
            *_held_differences(made, host),
            *_node_differences(made.twin, host, edges, waves),
            *_view_differences(made.twin, host, edges),
            *_wave_differences(made, host, waves),
            *_answer_differences(made, host, waves),
        ]
        wrong += [f"host {rank}: {problem}" for problem in problems]
    return wrong


def _held_differences(made: Conversation, host: Host) -> list[str]:
    """What is held, and what of it still has a body."""
    graph = host.graph
    left = host.replica() - host.freed
    bodies = left if made.keep_bodies else left - host.stable
    found = [mid for mid in made.twin.preceding if graph.node(mid) is not None]
    wrong = []
    if set(found) != left or graph.nodes != len(left) or {node.mid() for node in graph.in_order()} != left:
        wrong.append(f"holds {found} instead of {left}")
    if {mid for mid in left if host.nodes[mid].body is not None} != bodies or graph.bodies != len(bodies):
        wrong.append(f"has {graph.bodies} bodies instead of {bodies}")
    if graph.body_bytes != sum(len(b"%d-%d" % mid) for mid in bodies):
        wrong.append(f"counts {graph.body_bytes} bytes of bodies")
    if {leaf.mid() for leaf in graph.leaves()} != made.twin.tips(host.replica()):
        wrong.append(f"the leaves of the image are {graph.leaves()}")
    return wrong


def _node_differences(twin: Twin, host: Host, edges: set[tuple[Mid, Mid]], waves: dict[Mid, int]) -> list[str]:
    """Reduction, precedence, stability and n-stability. A node that was freed still answers, but has no edges."""
    wrong: list[str] = []
    replica = host.replica()
    left = replica - host.freed
    for mid, node in host.nodes.items():
        if {(one.mid(), mid) for one in node.predecessors} != {e for e in edges if e[1] == mid and set(e) <= left}:
            wrong.append(f"{mid} is attached to {node.predecessors}")
        if {(mid, one.mid()) for one in node.successors} != {e for e in edges if e[0] == mid and set(e) <= left}:
            wrong.append(f"{mid} is followed by {node.successors}")
        if node.wave != waves[mid]:
            wrong.append(f"{mid} is in wave {node.wave} instead of {waves[mid]}")
        if host.graph.is_stable(node) != (mid in host.stable):
            wrong.append(f"{mid} is stable: {host.graph.is_stable(node)}")
        followers = twin.followers(mid, replica)
        if set(host.graph.followers(node)) != followers:
            wrong.append(f"{mid} is followed by {followers}, not by {host.graph.followers(node)}")
        for n in range(1, twin.participants + 2):
            if host.graph.is_n_stable(node, n) != (len(followers) >= n - 1):
                wrong.append(f"{mid} is followed by {followers}, {n}-stable: {host.graph.is_n_stable(node, n)}")
        for other, later in host.nodes.items():
            if node.precedes(later) != (mid in twin.preceding[other]):
                wrong.append(f"{mid} precedes {other}: {node.precedes(later)}")
    return wrong


def _view_differences(twin: Twin, host: Host, edges: set[tuple[Mid, Mid]]) -> list[str]:
    wrong: list[str] = []
    view = host.view
    left = host.has - host.freed
    if {leaf.mid() for leaf in view.leaves()} != twin.tips(host.has):
        wrong.append(f"the leaves of the view are {view.leaves()} instead of {twin.tips(host.has)}")
    if {root.mid() for root in view.roots()} != {mid for mid in left if not twin.preceding[mid]}:
        wrong.append(f"the roots of the view are {view.roots()}")
    if view.outstanding() != bool(host.arrived) or view.count != len(host.has):
        wrong.append(f"{host.arrived} is outstanding: {view.outstanding()}")
    for mid, node in host.nodes.items():
        if view.holds(node) != (mid in host.has):
            wrong.append(f"{mid} is in the view: {view.holds(node)}")
    for mid in host.has:
        node = host.nodes[mid]
        if {(mid, one.mid()) for one in view.next(node)} != {e for e in edges if e[0] == mid and set(e) <= left}:
            wrong.append(f"{mid} has {view.next(node)} next in the view")
        if {(one.mid(), mid) for one in view.prev(node)} != {e for e in edges if e[1] == mid and set(e) <= left}:
            wrong.append(f"{mid} comes after {view.prev(node)} in the view")
        if view.is_stable(node) != twin.is_stable(mid, host.has, host.masked):
            wrong.append(f"{mid} is stable in the view: {view.is_stable(node)}")
        for other, later in host.nodes.items():
            if view.precedes(node, later) != (other in host.has and mid in twin.preceding[other]):
                wrong.append(f"{mid} precedes {other} in the view: {view.precedes(node, later)}")
    return wrong


def _wave_differences(made: Conversation, host: Host, waves: dict[Mid, int]) -> list[str]:
    """A wave with a stable message is complete, and all before it: here, and in the view by what is stable there."""
    graph = host.graph
    if graph.stable_wave != max((waves[mid] for mid in host.stable), default=0):
        return [f"the last complete wave is said to be {graph.stable_wave}"]
    if made.masks:
        return []  # then it is complete only if all mask alike
    seen = {mid for mid in host.has if made.twin.is_stable(mid, host.has, set())}
    wrong = []
    for has, known in ((host.replica(), host.stable), (host.has, seen)):
        complete = max((waves[mid] for mid in known), default=0)
        lacking = {mid for mid, wave in waves.items() if wave <= complete} - has
        if lacking:
            wrong.append(f"{lacking} is lacking in wave {complete}, which is complete")
    return wrong


def _answer_differences(made: Conversation, host: Host, waves: dict[Mid, int]) -> list[str]:
    """What another participant is sent that asks with its leaves, for some message or for all."""
    twin = made.twin
    asker = made.random.randrange(made.participants)
    leaves = [leaf.mid() for leaf in made.hosts[asker].graph.leaves()]
    wanted = made.random.choice([None, *waves])
    replica, left = host.replica(), host.replica() - host.freed
    known = {(rank, own) for rank, number in leaves for own in range(1, number + 1)}
    last = {mid for mid in replica if (mid[0], mid[1] + 1) not in replica}
    for leaf in leaves:
        if leaf in left:
            known |= twin.preceding[leaf]
        elif leaf not in replica:  # who has it has all that precedes its sender's last message here
            known |= {mid for one in last if one[0] == leaf[0] for mid in twin.preceding[one]}
    sent = {mid for mid in left - known if host.nodes[mid].body is not None}
    if wanted in left:
        sent &= twin.preceding[wanted]
    had = {mid for one in last if one[0] == asker for mid in twin.preceding[one] | {one}}
    if set(leaves) <= replica:
        had = set()
    limit = made.random.randrange(20)
    expected = sorted(sent, key=lambda mid: (mid in had, waves[mid], mid[0]))[:limit]
    answer = [node.mid() for node in host.graph.between(leaves, wanted, limit, asker)]
    return [] if answer == expected else [f"answers {answer} instead of {expected}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=10_000)
    options = parser.parse_args()
    started_s = time.perf_counter()
    counts: Counter[str] = Counter()
    for seed in range(options.conversations):
        made = converse(seed)
        wrong = differences(made)
        counts += made.counts
        counts += Counter(conversations=1, messages=len(made.twin.preceding), differences=len(wrong))
        for problem in wrong[:3]:
            print(f"seed {seed}: {problem}", file=sys.stderr)
    summary = {what: counts[what] for what in ("conversations", "messages", "masks", "freed", "refused", "differences")}
    print(json.dumps(summary | {"elapsed_s": round(time.perf_counter() - started_s, 1)}))
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
