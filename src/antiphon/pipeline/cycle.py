"""Cycles in the order of deliveries: which messages are tied up in one, and the shortest way to tell it.

Both auditors judge and explain `total`, `total_pairwise` and `total_global` with these.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final, Generic, NamedTuple, TypeVar

from antiphon.pipeline.explain import MessageName, Step

Node = TypeVar("Node", bound=Hashable)


def strongly_connected_sets(sequences: Iterable[Iterable[Node]]) -> list[set[Node]]:
    """The strongly connected sets of more than one: each is before all the others, somewhere or by a chain of steps.

    Tarjan's algorithm, with its own stack in place of recursion.
    """
    following: dict[Node, set[Node]] = defaultdict(set)
    for own in sequences:
        for before, after in pairwise(own):
            following[before].add(after)
    ahead = {before: iter(afters) for before, afters in following.items()}
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    stack: list[Node] = []
    unfinished: set[Node] = set()
    strong_sets: list[set[Node]] = []
    for root in ahead:
        path: list[Node] = [] if root in number else [root]
        while path:
            node = path[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                stack.append(node)
                unfinished.add(node)
            fresh = next((after for after in ahead.get(node, iter(())) if after not in number), None)
            if fresh is not None:
                path.append(fresh)
                continue
            path.pop()
            near = [lowest[after] for after in following.get(node, ()) if after in unfinished]
            lowest[node] = min([lowest[node], *near])
            if lowest[node] == number[node]:
                strong_set = {node}
                while (tied := stack.pop()) != node:
                    strong_set.add(tied)
                unfinished -= strong_set
                if len(strong_set) > 1:
                    strong_sets.append(strong_set)
    return strong_sets


APART: Final = "\n"
"""Between a process and a group that it reads apart, in the name of the sequence of that group alone."""


def process_of(sequence: str) -> str:
    """Whose deliveries a sequence holds: all of a process, or those of one group that it reads apart."""
    return sequence.partition(APART)[0]


class Inversion(NamedTuple, Generic[Node]):
    """Two that one process delivered in one order, and another in the other."""

    first: Node
    second: Node
    one: str
    """Who delivered `first` first."""
    other: str
    strong_set: int
    """Both are in this one."""


def inversions(sequences: Mapping[str, Iterable[Node]], strong_sets: Sequence[set[Node]]) -> list["Inversion[Node]"]:
    """All pairs of which two processes deliver both, in different orders. They are in one strongly connected set."""
    found: dict[tuple[Node, Node], Inversion[Node]] = {}
    for number, strong_set in enumerate(strong_sets):
        before: dict[tuple[Node, Node], str] = {}
        for process, own in sequences.items():
            for pair in combinations([node for node in own if node in strong_set], 2):
                before.setdefault(pair, process)
        for (first, second), process in before.items():
            other = before.get((second, first))
            if other is not None and (second, first) not in found:
                found[first, second] = Inversion(first, second, process, other, number)
    return list(found.values())


def cycle_through(first: MessageName, sequences: Mapping[str, Sequence[MessageName]]) -> list[Step]:
    """The shortest cycle through a message that lies on one; `sequences`: who delivered what in which order.

    Breadth first: from a message to all that some process delivered after it. What a process delivered after a place
    that was reached before has been reached already, so each sequence is gone through once, from its end.
    """
    places = {process: {message: at for at, message in enumerate(own)} for process, own in sequences.items()}
    reached = {process: len(own) for process, own in sequences.items()}
    steps: dict[MessageName, Step] = {}
    frontier = deque([first])
    while first not in steps:
        message = frontier.popleft()
        for process, own in sequences.items():
            after = places[process].get(message, len(own)) + 1
            for other in own[after : reached[process]]:
                if other not in steps:
                    steps[other] = Step(process, message, other)
                    frontier.append(other)
            reached[process] = min(reached[process], after)
    cycle = [steps[first]]
    while cycle[0].before != first:
        cycle.insert(0, steps[cycle[0].before])
    return cycle
