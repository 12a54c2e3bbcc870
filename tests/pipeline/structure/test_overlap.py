"""The overlap graph beside its definition, and beside what the runtime makes of the same overlaps."""

from itertools import combinations
from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.structure import overlap
from antiphon.pipeline.structure.overlap import overlap_graph
from antiphon.stacks.vector.structure import components
from tests.pipeline.structure.traffic_samples import draw_members

Members = dict[str, frozenset[str]]


def slow_reach(members: Members, start: str, without: frozenset[str]) -> frozenset[str]:
    """The groups that can be reached over shared members, when some groups are taken away."""
    reached = {start}
    while True:
        more = {g for g in members if g not in without and any(members[g] & members[known] for known in reached)}
        if more <= reached:
            return frozenset(reached)
        reached |= more


def slow_biconnected(members: Members) -> set[frozenset[str]]:
    """By the definition (isis-1991, footnote 7): largest sets of two or more groups of which any two are still
    connected after any other group has been taken away."""

    def hold_together(one: str, other: str) -> bool:
        others = set(members) - {one, other}
        cut = any(other not in slow_reach(members, one, frozenset((third,))) for third in others)
        # Two groups that overlap always hold together; two that do not must have been connected to begin with.
        return not cut and other in slow_reach(members, one, frozenset())

    together = {frozenset(pair) for pair in combinations(members, 2) if hold_together(*pair)}
    found: set[frozenset[str]] = set()
    for size in range(len(members), 1, -1):
        for names in combinations(members, size):
            part = frozenset(names)
            whole = all(frozenset(pair) in together for pair in combinations(names, 2))
            if whole and not any(part <= larger for larger in found):
                found.add(part)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_components_are_those_of_the_definition(seed: int) -> None:
    random = Random(seed)
    members = draw_members(random, random.randint(1, 7), random.randint(2, 9))
    graph = overlap_graph(members)
    assert {frozenset(part) for part in graph.biconnected} == slow_biconnected(members)
    assert {frozenset(part) for part in graph.connected} == {slow_reach(members, g, frozenset()) for g in members}
    shared = {(a, b): members[a] & members[b] for a, b in combinations(sorted(members), 2) if members[a] & members[b]}
    assert {(o.first, o.second): frozenset(o.shared) for o in graph.overlaps} == shared


@pytest.mark.parametrize("seed", range(20))
def test_the_runtime_finds_the_same_components_in_the_overlaps_of_a_plan(seed: int) -> None:
    random = Random(seed)
    graph = overlap_graph(draw_members(random, 40, 30 + 3 * seed))
    pairs = tuple((overlap.first, overlap.second) for overlap in graph.overlaps)
    assert {frozenset(part) for part in graph.biconnected} == set(components(pairs))


def test_a_chain_of_groups_has_no_cycle_and_a_ring_is_bounded_by_its_length() -> None:
    chain = {f"g{place}": frozenset((f"p{place}", f"p{place + 1}")) for place in range(5)}
    assert overlap_graph(chain).bound == 0
    ring = chain | {"g5": frozenset(("p5", "p0"))}
    assert overlap_graph(ring).bound == 6


def test_too_many_overlaps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "OVERLAPS_MAX", 2)
    with pytest.raises(UsageError, match="more than 2 pairs of groups overlap"):
        overlap_graph({name: frozenset(("p",)) for name in "abc"})
