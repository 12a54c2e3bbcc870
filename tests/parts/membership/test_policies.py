"""Policies: who may go on, and ids of views that can part and merge."""

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.identity import NUMBER_MAX, ProcessId
from antiphon.parts.membership.policies import (
    HEIGHT_MAX,
    PARTITIONABLE_POLICY,
    PRIMARY_POLICY,
    STATIC_POLICY,
    height_of,
)

OLD, YOUNG = ProcessId("a"), ProcessId("b")


def subsets(members: int) -> list[set[int]]:
    ranks = range(members)
    return [set(chosen) for chosen in chain.from_iterable(combinations(ranks, size) for size in range(members + 1))]


@pytest.mark.parametrize("members", range(1, 7))
def test_under_primary_any_two_sets_that_may_go_on_share_a_member(members: int) -> None:
    going_on = [ranks for ranks in subsets(members) if PRIMARY_POLICY.may_go_on(ranks, members)]
    assert going_on
    assert all(one & other for one in going_on for other in going_on)
    assert set(range(members)) in going_on
    assert set() not in going_on


def test_under_primary_half_counts_only_with_the_oldest() -> None:
    assert PRIMARY_POLICY.may_go_on({0, 3}, 4)
    assert not PRIMARY_POLICY.may_go_on({1, 3}, 4)


@pytest.mark.parametrize("members", range(1, 5))
def test_under_partitionable_everybody_may_go_on_and_under_static_nobody(members: int) -> None:
    assert all(PARTITIONABLE_POLICY.may_go_on(ranks, members) for ranks in subsets(members) if ranks)
    assert not any(STATIC_POLICY.may_go_on(ranks, members) for ranks in subsets(members))
    assert not STATIC_POLICY.is_next_id(1, 2)


def test_ids_of_primary_views_count() -> None:
    assert PRIMARY_POLICY.next_id(4, OLD, 65_536) == 5
    assert [proposed for proposed in range(8) if PRIMARY_POLICY.is_next_id(4, proposed)] == [5]


def test_the_id_of_a_recovered_view_is_that_of_no_other() -> None:
    """The others may have had views of their own, and may have been recovered too."""
    made = {PRIMARY_POLICY.recovered_id(4, who, round) for who in (OLD, YOUNG) for round in range(50)}
    assert len(made) > 90
    assert all(PRIMARY_POLICY.is_next_id(4, id) for id in made)
    assert min(made) > 4 + 1_000_000
    again = PRIMARY_POLICY.recovered_id(max(made), OLD, 1)
    assert again > max(made)
    assert again < 2**62


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=1, max_size=30))
def test_two_sides_of_a_partition_never_share_an_id(changes: list[tuple[bool, int]]) -> None:
    """Each side makes views of its own for a while, the same rounds on both, and no id occurs twice."""
    sides = {OLD: [1], YOUNG: [1]}
    for is_old, round in changes:
        coordinator = OLD if is_old else YOUNG
        last = sides[coordinator][-1]
        made = PARTITIONABLE_POLICY.next_id(last, coordinator, round)
        assert PARTITIONABLE_POLICY.is_next_id(last, made)
        assert made > last
        sides[coordinator].append(made)
    made_by = [*sides[OLD][1:], *sides[YOUNG][1:]]
    assert len(set(made_by)) == len(made_by)


def test_a_merged_view_comes_after_all_that_meet_in_it_whoever_tells_them_in_what_order() -> None:
    one = PARTITIONABLE_POLICY.next_id(1, OLD, 1)
    other = PARTITIONABLE_POLICY.next_id(PARTITIONABLE_POLICY.next_id(1, YOUNG, 1), YOUNG, 1)
    merged = PARTITIONABLE_POLICY.merged_id([one, other], OLD, 2)
    assert merged == PARTITIONABLE_POLICY.merged_id([other, one], OLD, 2)
    assert merged > max(one, other)
    assert height_of(merged) == 3
    assert PARTITIONABLE_POLICY.is_next_id(other, merged)


def test_ids_stay_within_what_histories_keep() -> None:
    last = PARTITIONABLE_POLICY.next_id((HEIGHT_MAX - 1) << 40, OLD, 1)
    assert height_of(last) == HEIGHT_MAX
    assert last <= NUMBER_MAX
    with pytest.raises(AssertionError, match="more views than ids can count"):
        PARTITIONABLE_POLICY.next_id(last, OLD, 1)
