"""Which groups must share a sequencer, and when they may part again: the settings `pairwise` and `acyclic`.

The graph. Its vertices are processes and groups; an edge (p, G) says that p is in G, or was, and that the order may
still depend on it. The edge is added before p's join takes its place in the order of G. It stays when p leaves, and
is removed later, when the setting allows it. Accepts and T1, T2 (delivery_rule.py) go by edges: an accept of G
carries the numbers of all groups at the same sequencer that have a process in common with G by their edges, and a
process obeys entries of all groups to which it has an edge. For a group that it has left, the number of its leave
is the last to wait for. A group that moves to another sequencer takes its number with it.

Promise.
  pairwise: two messages that two processes both deliver come in one order at both (total_pairwise).
  acyclic: the delivery orders of all processes together have no cycle (total_global).

Rule.
  pairwise. Groups with two or more processes in common (strongly intersecting) are at one sequencer, and so are
  groups that are connected by a chain of such pairs. An edge of a process that has left is removed when its leave is
  group-stable: when all who were members at that place have delivered everything up to it.
  acyclic. Groups are at one sequencer if a cycle of the graph passes through both (if one biconnected component holds
  both), and so are groups that are connected by a chain of such pairs: a cluster. Components that meet in a process
  may stay apart. Every vertex has an epoch, which never falls; neighbours always have the same one; where a join
  connects two epochs, the lower component rises first. An accept carries the epoch of its group. A process delivers
  an accept of epoch e when it has delivered everything of lower epochs in all groups to which it has an edge. Edges
  are removed only when a whole connected component rises to a new epoch.

Safe: pairwise. Let p and q both receive m (group G) and m' (group H), and let m be accepted first. If G = H, T1
orders them. Otherwise look at the moment when m' is accepted. If p and q both still have an edge to G, then G and H
have both in common, share a sequencer, and m' carries a number of G that is at least that of m: both wait for m. If
one of the edges is gone, the leave that it stood for was group-stable, and m came before that leave: p and q have
delivered m.

Safe: acyclic, edges only added. Let the messages m1 … mk be a shortest cycle, where process pi delivers mi before
mi+1. Then no process occurs twice (a process orders any four messages totally, which gives a shorter cycle). The
groups of the cycle are a closed walk in the graph. Clusters and the processes in which they meet form a tree. So,
unless the walk stays in one cluster, it somewhere enters a cluster by a process c and leaves it by the same c,
which contradicts that no process occurs twice. Hence all mi belong to one cluster K. Let T be the moment when the
last two parts of K came to one sequencer. A process that receives a message of K accepted after T and another
message of K accepted earlier has edges to both groups at that moment, so the later one carries the number of the
earlier one, and is delivered later. So no step of the cycle leads from after T to before T. If all mi were accepted
after T, the order of acceptance has no cycle. If all were accepted before T, the same cycle occurs in the run that
ends at T, whose graph has fewer edges: by induction there is none.

Safe: acyclic, with removals. Each process delivers in the order of epochs, so all messages of a cycle have one
epoch e. An edge that exists in epoch e exists until its ends leave epoch e, which they do together, since they are
neighbours until then. So the vertices of the cycle, which are connected by edges of epoch e, leave it together, and
just before that all these edges exist at once: within epoch e edges were only added, and the argument above
applies.

Live. An edge that stays longer than it must is safe: it can only keep groups together. A leave becomes group-stable
because members deliver, report, or are removed. A process waits for an epoch only until it has delivered, in each
of its groups, the mark that ends the epoch before; marks have places in the order like messages, and the sequencers
place them in all groups of the component without waiting for any process.

Limits. Without epochs `acyclic` fails even if leaves wait for stability, and S2 at every instant is not enough for
`pairwise`: tests/stacks/sequencer/test_placement.py shows both, and searches all small systems for a counterexample.
"""

from typing import Final, final

PAIRWISE: Final = "pairwise"
ACYCLIC: Final = "acyclic"
SETTINGS: Final = (PAIRWISE, ACYCLIC)

Edges = dict[int, dict[str, bool]]
"""By group and process: whether the process is a member still (else it has left, and the edge stays for the order)."""


@final
class PlacementGraph:
    """The graph of one service: who is in which group, and what follows for the sequencers."""

    __slots__ = ("_process_epochs", "edges", "epochs", "setting")

    def __init__(self, setting: str) -> None:
        assert setting in SETTINGS
        self.setting = setting
        self.edges: Edges = {}
        self.epochs: dict[int, int] = {}
        """By group."""
        self._process_epochs: dict[str, int] = {}

    def copy(self) -> "PlacementGraph":
        """The same graph, to try something on."""
        other = PlacementGraph(self.setting)
        other.edges = {group: dict(processes) for group, processes in self.edges.items()}
        other.epochs = dict(self.epochs)
        other._process_epochs = dict(self._process_epochs)
        return other

    def create(self, group: int) -> None:
        """A new group, without members."""
        self.edges[group] = {}
        self.epochs[group] = 0

    def join(self, process: str, group: int) -> list[int]:
        """Add the edge of a member; the groups whose epoch rises before the join takes its place."""
        own, other = self._process_epochs.get(process, 0), self.epochs[group]
        raised: list[int] = []
        if own < other:
            raised = self._raise(self._component_of_process(process), other)
            self._process_epochs[process] = other
        elif other < own:
            raised = self._raise(self._component(group), own)
        self.edges[group][process] = True
        self._process_epochs.setdefault(process, other)
        return raised

    def leave(self, process: str, group: int) -> None:
        """A member leaves: it receives no more, and its edge stays."""
        assert self.edges[group][process]
        self.edges[group][process] = False

    def part(self, process: str, group: int) -> None:
        """Remove the edge of a process that has left. Setting `pairwise`: when its leave is group-stable."""
        assert not self.edges[group][process]
        del self.edges[group][process]

    def advance(self, group: int) -> list[int]:
        """Begin a new epoch in the connected component of a group; its groups, in each of which the mark that ends the
        epoch takes its place now. Edges of processes that have left are removed."""
        component = self._component(group)
        raised = self._raise(component, self.epochs[group] + 1)
        for one in component:
            for process in [process for process, is_member in self.edges[one].items() if not is_member]:
                del self.edges[one][process]
        return raised

    def forget(self, process: str) -> None:
        """A process is gone for good, and all its edges are removed."""
        self._process_epochs.pop(process, None)

    def members(self, group: int) -> list[str]:
        """Who receives what is accepted now."""
        return [process for process, is_member in self.edges[group].items() if is_member]

    def together(self) -> list[list[int]]:
        """The sets of groups that must share a sequencer; each group is in one."""
        return strong_sets(self.edges) if self.setting == PAIRWISE else clusters(self.edges)

    def neighbours(self, group: int) -> list[int]:
        """The groups that have a process in common with this one, which is among them."""
        return [
            other
            for other, processes in self.edges.items()
            if other == group or not processes.keys().isdisjoint(self.edges[group])
        ]

    def _component(self, group: int) -> list[int]:
        for component in components(self.edges):
            if group in component:
                return component
        raise AssertionError("every group is in a component")

    def _component_of_process(self, process: str) -> list[int]:
        for group, processes in self.edges.items():
            if process in processes:
                return self._component(group)
        return []

    def _raise(self, groups: list[int], epoch: int) -> list[int]:
        for group in groups:
            self.epochs[group] = epoch
            for process in self.edges[group]:
                self._process_epochs[process] = epoch
        return groups


# ---- partitions of the groups --------------------------------------------------------------------------------------


@final
class GroupPartition:
    """Sets of groups that grow together."""

    __slots__ = ("_parents",)

    def __init__(self, groups: list[int]) -> None:
        self._parents: dict[int, int] = {group: group for group in groups}

    def find(self, group: int) -> int:
        """The group that stands for the set."""
        parents = self._parents
        while parents[group] != group:
            parents[group] = parents[parents[group]]
            group = parents[group]
        return group

    def unite(self, one: int, other: int) -> None:
        self._parents[self.find(other)] = self.find(one)

    def sets(self) -> list[list[int]]:
        """All sets, in the order of their first groups."""
        by_root: dict[int, list[int]] = {}
        for group in self._parents:
            by_root.setdefault(self.find(group), []).append(group)
        return list(by_root.values())


def groups_by_process(edges: Edges) -> dict[str, list[int]]:
    """The groups that each process has an edge to."""
    found: dict[str, list[int]] = {}
    for group, processes in edges.items():
        for process in processes:
            found.setdefault(process, []).append(group)
    return found


def strong_sets(edges: Edges) -> list[list[int]]:
    """Groups that are connected by chains of groups with two or more processes in common (rule S2)."""
    partition = GroupPartition(list(edges))
    common: dict[tuple[int, int], int] = {}
    for groups in groups_by_process(edges).values():
        for place, one in enumerate(groups):
            for other in groups[place + 1 :]:
                count = common.get((one, other), 0) + 1
                common[one, other] = count
                if count == 2:
                    partition.unite(one, other)
    return partition.sets()


def components(edges: Edges) -> list[list[int]]:
    """Groups that are connected by any chain of common processes."""
    partition = GroupPartition(list(edges))
    for groups in groups_by_process(edges).values():
        for other in groups[1:]:
            partition.unite(groups[0], other)
    return partition.sets()


def clusters(edges: Edges) -> list[list[int]]:
    """Groups that are connected by chains of groups that lie on a common cycle of the graph."""
    partition = GroupPartition(list(edges))
    numbers = {group: place for place, group in enumerate(edges)}
    names = list(edges)
    adjacent: list[list[int]] = [[] for _ in names]
    for groups in groups_by_process(edges).values():
        if len(groups) > 1:  # no cycle passes through a process with one group
            adjacent.append([numbers[group] for group in groups])
            for group in groups:
                adjacent[numbers[group]].append(len(adjacent) - 1)
    for block in blocks(adjacent):
        in_block = [names[vertex] for vertex in block if vertex < len(names)]
        for other in in_block[1:]:
            partition.unite(in_block[0], other)
    return partition.sets()


def blocks(adjacent: list[list[int]]) -> list[list[int]]:
    """The biconnected components of a graph, as lists of vertices (Hopcroft and Tarjan, by depth-first search). Two
    vertices and the one edge between them are a component too."""
    found: list[list[int]] = []
    order = [0] * len(adjacent)
    low = [0] * len(adjacent)
    tried = [0] * len(adjacent)
    visited = 0
    for root in range(len(adjacent)):
        if order[root]:
            continue
        visited += 1
        order[root] = low[root] = visited
        path, stack = [root], [root]
        while path:
            vertex = path[-1]
            if tried[vertex] < len(adjacent[vertex]):
                other = adjacent[vertex][tried[vertex]]
                tried[vertex] += 1
                if not order[other]:
                    visited += 1
                    order[other] = low[other] = visited
                    path.append(other)
                    stack.append(other)
                elif len(path) < 2 or other != path[-2]:
                    low[vertex] = min(low[vertex], order[other])
                continue
            path.pop()
            if path:
                above = path[-1]
                low[above] = min(low[above], low[vertex])
                if low[vertex] >= order[above]:
                    block = [above]
                    while block[-1] != vertex:
                        block.append(stack.pop())
                    found.append(block)
    return found
