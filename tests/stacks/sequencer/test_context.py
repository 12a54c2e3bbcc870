"""The laws of contexts (kindberg-1995, section 4.1), on any contexts."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.stacks.sequencer.context import (
    BOTTOM,
    component,
    merge,
    merge_into,
    precedes,
    restrict,
    strictly_precedes,
)

GROUPS = range(5)
contexts = st.dictionaries(st.sampled_from(GROUPS), st.integers(0, 4))
sets = st.frozensets(st.sampled_from(GROUPS))


@given(contexts, contexts)
def test_order_is_by_components(one: dict[int, int], other: dict[int, int]) -> None:
    assert precedes(one, other) == all(component(one, group) <= component(other, group) for group in GROUPS)
    some_less = any(component(one, group) < component(other, group) for group in GROUPS)
    assert strictly_precedes(one, other) == (precedes(one, other) and some_less)


@given(contexts, contexts, contexts)
def test_order_is_partial(a: dict[int, int], b: dict[int, int], c: dict[int, int]) -> None:
    assert precedes(a, a)
    assert not strictly_precedes(a, a)
    if precedes(a, b) and precedes(b, a):
        assert a == b
    if precedes(a, b) and precedes(b, c):
        assert precedes(a, c)
    assert precedes({}, a)


@given(contexts, contexts, contexts)
def test_merge_is_the_least_upper_bound(a: dict[int, int], b: dict[int, int], c: dict[int, int]) -> None:
    merged = merge(a, b)
    assert precedes(a, merged)
    assert precedes(b, merged)
    if precedes(a, c) and precedes(b, c):
        assert precedes(merged, c)
    assert merge(a, b) == merge(b, a)
    assert merge(a, merge(b, c)) == merge(merge(a, b), c)
    assert merge(a, a) == a == merge(a, {})
    assert precedes(a, b) == (merge(a, b) == b)


@given(contexts, contexts)
def test_merge_takes_the_larger_component_and_changes_neither(a: dict[int, int], b: dict[int, int]) -> None:
    before = dict(a), dict(b)
    merged = merge(a, b)
    assert all(component(merged, group) == max(component(a, group), component(b, group)) for group in GROUPS)
    assert BOTTOM not in merged.values()
    assert (a, b) == before
    merge_into(a, b)
    assert a == merged


@given(contexts, contexts, sets, sets)
def test_restriction_keeps_merge_and_order(
    a: dict[int, int], b: dict[int, int], some: frozenset[int], more: frozenset[int]
) -> None:
    assert restrict(merge(a, b), some) == merge(restrict(a, some), restrict(b, some))
    assert restrict(restrict(a, some), more) == restrict(a, some & more)
    assert merge(restrict(a, some), restrict(a, more)) == restrict(a, some | more)
    assert precedes(restrict(a, some), a)
    if precedes(a, b):
        assert precedes(restrict(a, some), restrict(b, some))
    for group in GROUPS:
        assert component(restrict(a, some), group) == (component(a, group) if group in some else BOTTOM)
