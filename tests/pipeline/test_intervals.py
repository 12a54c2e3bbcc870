"""Interval arithmetic against plain sets of numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.intervals import (
    ALREADY,
    EMPTY,
    NEVER,
    DeliveryCoverage,
    Spans,
    difference,
    first_positions,
    intersection,
    span,
    union,
)

INTERVALS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), max_size=12)
Pairs = list[tuple[int, int]]


def spans(pairs: Pairs) -> Spans:
    return union(*(span(start, start + length) for start, length in pairs))


def numbers(pairs: Pairs) -> set[int]:
    return {number for start, length in pairs for number in range(start, start + length)}


def members(found: Spans) -> set[int]:
    assert (found.starts < found.ends).all()
    assert (found.starts[1:] > found.ends[:-1]).all(), "touching intervals are joined"
    return {n for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True) for n in range(start, end)}


@given(INTERVALS, INTERVALS)
def test_sets(one: Pairs, other: Pairs) -> None:
    assert members(spans(one)) == numbers(one)
    assert spans(one).size() == len(numbers(one))
    assert members(intersection(spans(one), spans(other))) == numbers(one) & numbers(other)
    assert members(difference(spans(one), spans(other))) == numbers(one) - numbers(other)
    assert spans(one).holds(np.arange(50)).tolist() == [n in numbers(one) for n in range(50)]


def columns(runs: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start = np.array([start for start, _ in runs], np.int64)
    return start, start + np.array([length for _, length in runs], np.int64), np.arange(len(runs)) * 3


def first_delivered(runs: Pairs) -> dict[int, int]:
    first: dict[int, int] = {}
    for place, (start, length) in enumerate(runs):
        for number in range(start, start + length):
            first.setdefault(number, place * 3)
    return first


@given(INTERVALS)
def test_first_positions(runs: Pairs) -> None:
    first = first_delivered(runs)
    bounds = np.arange(1, 50)
    found = first_positions(bounds, *columns(runs))
    assert found.tolist() == [first.get(number, NEVER) for number in range(1, 49)]


@given(INTERVALS, INTERVALS, INTERVALS)
def test_coverage(runs: Pairs, wanted: Pairs, already: Pairs) -> None:
    coverage = DeliveryCoverage(*columns(runs), spans(wanted), spans(already))
    first = first_delivered(runs)
    waiting = {n: first.get(n, NEVER) for n in numbers(wanted) - numbers(already)}

    def position(number: int) -> int:
        return max((at for n, at in waiting.items() if n <= number), default=ALREADY)

    assert coverage.position(np.arange(50)).tolist() == [position(number) for number in range(50)]
    for at in range(0, 36, 5):
        missing = [n for n, delivered in waiting.items() if delivered > at and n <= 20]
        assert coverage.lowest_missing(at, 20) == min(missing, default=None)
        assert coverage.highest_missing(at, 20) == max(missing, default=None)


@given(INTERVALS, INTERVALS)
def test_first_deliveries(runs: Pairs, already: Pairs) -> None:
    coverage = DeliveryCoverage(*columns(runs), span(1, 100), spans(already))
    first = {n: at for n, at in first_delivered(runs).items() if n not in numbers(already)}
    positions, sizes = coverage.first_deliveries()
    for at in set(first.values()):
        assert sizes[positions == at].sum() == sum(1 for other in first.values() if other == at)
    assert sizes.sum() == len(first)
    before = coverage.delivered_before(9)
    assert members(before) == {n for n, at in first.items() if at < 9} | numbers(already)


def test_nothing_wanted_is_always_there() -> None:
    empty = np.empty(0, np.int64)
    assert DeliveryCoverage(empty, empty, empty, EMPTY, EMPTY).position(np.array([5])).tolist() == [ALREADY]
