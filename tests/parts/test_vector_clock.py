"""Vector time against its definition, with dicts for a slow twin."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.parts.vector_clock import at_most, before, changes, merge

vectors = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n), st.lists(st.integers(0, 3), min_size=n, max_size=n)
    )
)


@given(vectors)
def test_comparison_follows_the_definition(pair: tuple[list[int], list[int]]) -> None:
    one, other = dict(enumerate(pair[0])), dict(enumerate(pair[1]))
    less_or_equal = not any(one[k] > other[k] for k in one)
    assert at_most(*pair) == less_or_equal
    assert before(*pair) == (less_or_equal and any(one[k] < other[k] for k in one))


@given(vectors)
def test_merge_is_the_least_upper_bound(pair: tuple[list[int], list[int]]) -> None:
    one, other = pair
    merged = one.copy()
    assert merge(merged, other) == (not at_most(other, one))
    assert merged == [max(a, b) for a, b in zip(one, other, strict=True)]


@given(vectors)
def test_changes_rebuild_the_vector(pair: tuple[list[int], list[int]]) -> None:
    base, now = pair
    rebuilt = base.copy()
    for rank, value in changes(base, now):
        assert base[rank] != value
        rebuilt[rank] = value
    assert rebuilt == now
