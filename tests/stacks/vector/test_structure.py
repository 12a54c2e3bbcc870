"""Biconnected components, against brute force: two edges belong together if some simple cycle goes through both."""

from itertools import combinations
from random import Random

import pytest

from antiphon.stacks.vector.structure import components

Edge = tuple[str, str]


def connected(nodes: set[str], edges: list[Edge]) -> bool:
    """Whether all nodes hang together by the edges among them."""
    reached = {min(nodes)}
    grown = True
    while grown:
        grown = False
        for one, other in edges:
            if {one, other} <= nodes and (one in reached) != (other in reached):
                reached |= {one, other}
                grown = True
    return reached == nodes


def brute_force(edges: list[Edge]) -> set[frozenset[str]]:
    """The largest sets of nodes that stay connected whichever one of them is taken away (the paper's footnote 7)."""
    nodes = sorted({node for edge in edges for node in edge})
    found: list[frozenset[str]] = []
    for size in range(len(nodes), 1, -1):
        for some in combinations(nodes, size):
            chosen = set(some)
            if any(chosen <= larger for larger in found) or not connected(chosen, edges):
                continue
            if size == 2 or all(connected(chosen - {node}, edges) for node in chosen):
                found.append(frozenset(chosen))
    return set(found)


@pytest.mark.parametrize("seed", range(150))
def test_components_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)
    names = "abcdefgh"[: random.randrange(2, 9)]
    edges = [pair for pair in combinations(names, 2) if random.random() < random.choice((0.2, 0.4, 0.7))]
    random.shuffle(edges)
    turned = [edge if random.random() < 0.5 else (edge[1], edge[0]) for edge in edges]
    found = components(tuple(turned))
    assert len(found) == len(set(found))
    assert set(found) == brute_force(edges)


def test_doubled_edges_and_loops_change_nothing() -> None:
    assert set(components((("a", "b"), ("b", "a"), ("a", "b"), ("b", "b"), ("b", "c")))) == {
        frozenset("ab"),
        frozenset("bc"),
    }


def test_a_long_chain_of_groups_is_no_trouble() -> None:
    chain = tuple((str(number), str(number + 1)) for number in range(5_000))
    assert len(components(chain)) == 5_000
    assert len(components((*chain, ("5000", "0")))) == 1
