"""Sequencers: strongly intersecting groups always together, and the load within Graham's bound of the best."""

from itertools import combinations, product
from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.pipeline.structure.finding import plan_structure
from antiphon.pipeline.structure.placement import Cluster, clusters_of, host, place
from tests.pipeline.structure.traffic_samples import draw_members, traffic_of


def best_load(loads: list[int], sequencers: int) -> int:
    """The smallest possible load of the heaviest sequencer, by trying all placements."""
    best = sum(loads)
    for chosen in product(range(sequencers), repeat=len(loads)):
        sums = [0] * sequencers
        for load, number in zip(loads, chosen, strict=True):
            sums[number] += load
        best = min(best, max(sums))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_strongly_intersecting_groups_have_one_sequencer_and_every_group_has_exactly_one(seed: int) -> None:
    random = Random(seed)
    members = draw_members(random, 12, random.randint(4, 16))
    limit = random.choice((None, 1, 2, 3, 50))
    structure = plan_structure(traffic_of(members, random), limit)
    sequencer_of = {group: number for number, own in enumerate(structure.sequencers) for group in own.groups}
    assert sorted(sequencer_of) == sorted(members)
    assert sum(len(own.groups) for own in structure.sequencers) == len(members)
    for one, other in combinations(members, 2):
        if len(members[one] & members[other]) >= 2:
            assert sequencer_of[one] == sequencer_of[other]
    if limit is not None:
        assert len(structure.sequencers) <= limit
    for own in structure.sequencers:
        assert own.clusters
        assert own.messages == sum(structure.traffic.messages[group] for group in own.groups)
        assert own.process in {process for group in own.groups for process in members[group]}


@pytest.mark.parametrize("seed", range(40))
def test_without_a_limit_groups_share_a_sequencer_only_where_a_chain_of_strong_overlaps_makes_them(seed: int) -> None:
    random = Random(seed)
    members = draw_members(random, 10, 12)
    structure = plan_structure(traffic_of(members, random))
    for own in structure.sequencers:
        reached = {own.groups[0]}
        for _ in own.groups:
            reached |= {g for g in own.groups if any(len(members[g] & members[known]) >= 2 for known in reached)}
        assert reached == set(own.groups)


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_sequencer_has_at_most_four_thirds_of_the_best_placement(seed: int) -> None:
    random = Random(seed)
    sequencers = random.choice((2, 3))
    loads = [random.randrange(100) for _ in range(random.randint(1, 8))]
    clusters = [Cluster((f"g{number}",), load, 0) for number, load in enumerate(loads)]
    placed = place(clusters, sequencers)
    heaviest = max(sum(cluster.messages for cluster in own) for own in placed)
    assert sorted(cluster.groups for own in placed for cluster in own) == sorted(cluster.groups for cluster in clusters)
    # 4/3 - 1/(3m) of the best (Graham, 1969), without fractions.
    assert 3 * sequencers * heaviest <= (4 * sequencers - 1) * best_load(loads, sequencers)


def test_silent_groups_are_spread_too() -> None:
    placed = place([Cluster((name,), 0, 0) for name in "abcdef"], 3)
    assert [len(own) for own in placed] == [2, 2, 2]


def test_a_sequencer_runs_at_the_heaviest_sender_unless_that_has_one_already() -> None:
    messages = {"a": 30, "b": 20, "c": 0}
    clusters = clusters_of("abc", (), messages, dict.fromkeys("abc", 0))
    sent = {"a": {"p": 20, "q": 10}, "b": {"p": 15, "q": 5}, "c": {}}
    hosted = host(place(clusters, None), sent)
    assert [(own.groups, own.process) for own in hosted] == [(("a",), "p"), (("b",), "q"), (("c",), None)]


def test_no_sequencer_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="0 sequencers cannot order anything"):
        place([], 0)
