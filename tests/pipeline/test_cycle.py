"""Knots and cycles against their definitions, on random sequences."""

from itertools import combinations, pairwise, permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.cycle import cycle_through, strongly_connected_sets
from antiphon.pipeline.explain import MessageName


def draw(random: Random) -> dict[str, list[MessageName]]:
    """What a few processes delivered of a few messages: mostly in order."""
    messages = [MessageName("g", "p/1", number) for number in range(1, random.randint(2, 9))]
    sequences = {}
    for process in "pqr":
        own = sorted(random.sample(messages, random.randint(0, len(messages))))
        for _ in range(random.choice((0, 0, 1, 3))):
            if len(own) > 1:
                place = random.randrange(len(own) - 1)
                own[place], own[place + 1] = own[place + 1], own[place]
        sequences[process] = own
    return sequences


def before_each_other(sequences: dict[str, list[MessageName]]) -> set[tuple[MessageName, MessageName]]:
    """Pairs of which the first comes before the second, somewhere or by a chain of steps."""
    pairs = {pair for own in sequences.values() for pair in combinations(own, 2)}
    while True:
        longer = {(one, other) for one, via in pairs for again, other in pairs if via == again} | pairs
        if longer == pairs:
            return pairs
        pairs = longer


@given(st.integers(0, 10**9))
def test_knots_are_what_is_before_each_other(seed: int) -> None:
    sequences = draw(Random(seed))
    pairs = before_each_other(sequences)
    strong_sets = strongly_connected_sets(sequences.values())
    tied = {pair for strong_set in strong_sets for pair in permutations(strong_set, 2)}
    assert tied == {(one, other) for one, other in pairs if one != other and (other, one) in pairs}


@given(st.integers(0, 10**9))
def test_a_cycle_is_one_and_none_is_shorter(seed: int) -> None:
    sequences = draw(Random(seed))
    for strong_set in strongly_connected_sets(sequences.values()):
        first = min(strong_set)
        cycle = cycle_through(first, sequences)
        assert cycle[0].before == cycle[-1].after == first
        assert all(one.after == other.before for one, other in pairwise(cycle))
        for step in cycle:
            own = sequences[step.process]
            assert own.index(step.before) < own.index(step.after)
        if len(cycle) > 2:
            steps = {pair for own in sequences.values() for pair in combinations(own, 2)}
            assert not any((first, other) in steps and (other, first) in steps for other in strong_set)


def test_a_long_order_without_a_knot_needs_no_recursion() -> None:
    assert strongly_connected_sets([range(50_000), range(0, 50_000, 2)]) == []
