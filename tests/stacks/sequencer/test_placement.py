"""Which groups share a sequencer: the holes that S2 leaves, shown first, and the rules that close them, searched for
counterexamples over all small systems and many larger ones."""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from random import Random

import pytest

from antiphon.stacks.sequencer.placement import (
    ACYCLIC,
    PAIRWISE,
    Edges,
    PlacementGraph,
    blocks,
    clusters,
    components,
    strong_sets,
)
from tests.stacks.sequencer.ordering_model import AT_ONCE, EPOCHS, STABLE, OrderingModel

RING = {1: "pq", 2: "qr", 3: "rp"}


def edges_of(groups: dict[int, str]) -> Edges:
    return {group: dict.fromkeys(processes, True) for group, processes in groups.items()}


# ---- the partitions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "strong", "clustered", "connected"),
    [
        ({1: "pq", 2: "rs"}, [[1], [2]], [[1], [2]], [[1], [2]]),
        ({1: "pq", 2: "qr"}, [[1], [2]], [[1], [2]], [[1, 2]]),
        ({1: "pq", 2: "pqr"}, [[1, 2]], [[1, 2]], [[1, 2]]),
        (RING, [[1], [2], [3]], [[1, 2, 3]], [[1, 2, 3]]),
        ({1: "pq", 2: "pqrs", 3: "rs", 4: "st"}, [[1, 2, 3], [4]], [[1, 2, 3], [4]], [[1, 2, 3, 4]]),
        ({1: "", 2: "p", 3: "p"}, [[1], [2], [3]], [[1], [2], [3]], [[1], [2, 3]]),
    ],
)
def test_which_groups_belong_together(
    groups: dict[int, str], strong: list[list[int]], clustered: list[list[int]], connected: list[list[int]]
) -> None:
    edges = edges_of(groups)
    assert (strong_sets(edges), clusters(edges), components(edges)) == (strong, clustered, connected)


def simple_cycles_through(adjacent: list[list[int]], one: int, other: int) -> bool:
    """Whether some simple cycle has both vertices, by trying all paths: the slow twin of `blocks`."""
    paths = [[one]]
    while paths:
        path = paths.pop()
        for following in adjacent[path[-1]]:
            if following == one and len(path) > 2 and other in path:
                return True
            if following not in path:
                paths.append([*path, following])
    return False


@pytest.mark.parametrize("seed", range(40))
def test_biconnected_components_are_those_of_the_slow_twin(seed: int) -> None:
    random = Random(seed)
    pairs = [pair for pair in combinations(range(7), 2) if random.random() < 0.3]
    adjacent: list[list[int]] = [[] for _ in range(7)]
    for one, other in pairs:
        adjacent[one].append(other)
        adjacent[other].append(one)
    found = blocks(adjacent)
    for one, other in combinations(range(7), 2):
        expected = simple_cycles_through(adjacent, one, other) or (one, other) in pairs
        assert any(one in block and other in block for block in found) == expected


# ---- the holes of the literal rules --------------------------------------------------------------------------------


def test_hole_a_s2_lets_three_groups_under_three_sequencers_be_delivered_in_a_cycle() -> None:
    literal = OrderingModel(PAIRWISE, AT_ONCE, RING)
    literal.accept(1, 2, 3)
    assert literal.placement.together() == [[1], [2], [3]]
    assert literal.inversion() == ()
    assert len(literal.cycle()) == 3
    mended = OrderingModel(ACYCLIC, EPOCHS, RING)
    mended.accept(1, 2, 3)
    assert mended.cycle() == ()


def hole_b(removal: str) -> OrderingModel:
    """p delivers m1 in {p, q}; q's copy is slow; p leaves, and joins {q}; m2 there reaches both."""
    model = OrderingModel(PAIRWISE, removal, {1: "pq", 2: "q"})
    model.accept(1)
    model.toggle("p", 1)
    model.toggle("p", 2)
    model.accept(2)
    return model


def test_hole_b_s2_at_every_instant_is_not_enough_for_pairs() -> None:
    assert hole_b(AT_ONCE).inversion() == ("p", "q")
    assert hole_b(STABLE).inversion() == ()


def hole_c(removal: str) -> OrderingModel:
    """q has m1 m2, r has m2, m1 to p is slow; r leaves; p and r join a third group, where m3 is sent."""
    model = OrderingModel(ACYCLIC, removal, {1: "pq", 2: "qr", 3: ""})
    model.accept(1, 2)
    model.toggle("r", 2)
    model.remove(2)
    model.toggle("p", 3)
    model.toggle("r", 3)
    model.accept(3)
    return model


def test_hole_c_clusters_are_not_enough_when_members_leave_even_if_leaves_wait_for_stability() -> None:
    assert len(hole_c(STABLE).cycle()) == 3
    assert hole_c(EPOCHS).cycle() == ()


def test_hole_c_clusters_may_stay_apart_where_they_meet_in_a_process() -> None:
    model = OrderingModel(ACYCLIC, EPOCHS, {1: "pq", 2: "qr"})
    model.accept(1, 2, 1, 2)
    assert model.placement.together() == [[1], [2]]
    assert model.cycle() == ()


# ---- epochs --------------------------------------------------------------------------------------------------------


def test_a_join_that_connects_two_epochs_raises_the_lower_one() -> None:
    placement = PlacementGraph(ACYCLIC)
    for group in (1, 2, 3):
        placement.create(group)
    placement.join("p", 1)
    placement.join("q", 1)
    placement.join("r", 2)
    placement.leave("q", 1)
    assert placement.advance(1) == [1]
    assert list(placement.edges[1]) == ["p"]
    assert placement.join("r", 3) == []
    assert placement.join("q", 2) == [2, 3], "q has been in epoch 1, though it is in no group now"
    assert placement.epochs == {1: 1, 2: 1, 3: 1}
    assert placement.join("q", 1) == []


# ---- small systems, all of them ------------------------------------------------------------------------------------


def small_graphs(processes: str, groups: int) -> Iterator[dict[int, str]]:
    """All ways to put processes into groups, one of each kind."""
    seen = set()
    sets = ["".join(some) for size in range(len(processes) + 1) for some in combinations(processes, size)]
    for chosen in product(sets, repeat=groups):
        kinds = [
            tuple(sorted("".join(sorted(renamed[processes.index(one)] for one in members)) for members in chosen))
            for renamed in permutations(processes)
        ]
        if min(kinds) not in seen:
            seen.add(min(kinds))
            yield dict(enumerate(chosen, start=1))


def scripts(model: OrderingModel, processes: str, changes: int) -> Iterator[OrderingModel]:
    """The model after each sequence of so many changes, with a message in every group before, between and after."""
    model.accept(*model.numbers)
    if not changes:
        yield model
        return
    for group in model.numbers:
        for process in processes:
            after = model.copy()
            after.toggle(process, group)
            yield from scripts(after, processes, changes - 1)
        if not all(model.placement.edges[group].values()):
            after = model.copy()
            after.remove(group)
            yield from scripts(after, processes, changes - 1)


@pytest.mark.parametrize(("groups", "changes"), [(2, 4), (3, 2)])
def test_no_small_system_breaks_pairwise_or_acyclic(groups: int, changes: int) -> None:
    tried = 0
    for graph in small_graphs("pqr", groups):
        for model in scripts(OrderingModel(PAIRWISE, STABLE, graph), "pqr", changes):
            assert model.inversion() == (), graph
            tried += 1
        for model in scripts(OrderingModel(ACYCLIC, EPOCHS, graph), "pqr", changes):
            assert model.cycle() == (), graph
            tried += 1
    assert tried > 2000


def test_the_search_over_small_systems_finds_the_holes() -> None:
    start = {1: "pq", 2: "q"}
    assert any(model.inversion() for model in scripts(OrderingModel(PAIRWISE, AT_ONCE, start), "pqr", 2))
    assert any(model.cycle() for model in scripts(OrderingModel(PAIRWISE, STABLE, RING), "pqr", 0))


# ---- larger systems, drawn at random -------------------------------------------------------------------------------


def draw(setting: str, removal: str, seed: int) -> OrderingModel:
    """Six processes, five sparse groups, fifteen messages among twenty changes."""
    random = Random(seed)
    processes = "pqrstu"
    graph = {group: "".join(random.sample(processes, random.choice((1, 2, 2)))) for group in range(1, 6)}
    model = OrderingModel(setting, removal, graph)
    for _ in range(35):
        chance = random.random()
        group = random.randrange(1, 6)
        if chance < 0.45:
            model.accept(group)
        elif chance < 0.65:
            members = model.placement.members(group)
            model.toggle(random.choice(members if len(members) > 1 else processes), group)
        elif chance < 0.8:
            gone = [one for one, processes in model.placement.edges.items() if not all(processes.values())]
            model.remove(random.choice(gone or [group]))
    return model


@pytest.mark.parametrize(("setting", "removal"), [(PAIRWISE, STABLE), (ACYCLIC, EPOCHS)])
def test_no_larger_system_that_was_drawn_breaks_its_setting(setting: str, removal: str) -> None:
    apart = 0
    for seed in range(400):
        model = draw(setting, removal, seed)
        assert (model.inversion() if setting == PAIRWISE else model.cycle()) == (), seed
        apart += len(model.placement.together()) > 1
    assert apart > 200, "one sequencer for everything would pass"


@pytest.mark.parametrize(("setting", "removal"), [(PAIRWISE, AT_ONCE), (ACYCLIC, STABLE), (PAIRWISE, STABLE)])
def test_the_draws_break_the_literal_rules(setting: str, removal: str) -> None:
    models = [draw(setting, removal, seed) for seed in range(400)]
    literal_pairwise = removal == AT_ONCE
    broken = [model for model in models if (model.inversion() if literal_pairwise else model.cycle())]
    assert len(broken) > 4
