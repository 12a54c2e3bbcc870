"""Ranges against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.parts.ranges import Ranges

numbers = st.sets(st.integers(1, 60))


def ranges_of(members: set[int]) -> Ranges:
    result = Ranges([])
    for number in sorted(members):
        result.add(number)
    return result


def members_of(ranges: Ranges) -> set[int]:
    assert ranges.pairs == sorted(ranges.pairs)
    assert all(last + 1 < first for (_, last), (first, _) in zip(ranges.pairs, ranges.pairs[1:], strict=False))
    return {number for first, last in ranges.pairs for number in range(first, last + 1)}


@given(numbers, numbers)
def test_ranges_are_sets(one: set[int], other: set[int]) -> None:
    ranges = ranges_of(one)
    assert members_of(ranges) == one
    assert members_of(ranges.union(ranges_of(other))) == one | other
    assert members_of(ranges) == one
    assert ranges.last() == max(one, default=0)
    assert {number for number in range(62) if ranges.has(number)} == one
