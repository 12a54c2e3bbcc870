"""What a process had delivered before a piece, told by one number and a few exceptions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.audit.case import Already
from antiphon.pipeline.intervals import NEVER, DeliveryCoverage, Spans, clip, union

TOP = 30
numbers = st.sets(st.integers(1, TOP - 1))


def spans_of(numbers: set[int]) -> Spans:
    return union(*((np.array([number]), np.array([number + 1])) for number in sorted(numbers)))


def set_of(spans: Spans) -> set[int]:
    return {number for start, end in zip(*spans, strict=True) for number in range(start, end)}


@given(st.lists(numbers, max_size=5), numbers)
def test_what_was_delivered_is_kept_and_what_is_missing_is_known(parts: list[set[int]], owed: set[int]) -> None:
    already = Already()
    for part in parts:
        if part:
            already = already.and_then(spans_of(part), spans_of(owed))
    delivered = set().union(*parts)
    assert {number for number in owed if number < already.below} <= delivered
    assert already.below not in owed or already.below not in delivered
    assert all(number < already.top for number in delivered)
    told = set_of(already.spans(spans_of(owed)))
    assert told == delivered


@given(numbers, st.integers(0, TOP), st.integers(0, TOP))
def test_clipping(some: set[int], low: int, high: int) -> None:
    assert set_of(clip(spans_of(some), low, high)) == {number for number in some if low <= number < high}


@given(st.lists(st.tuples(st.integers(1, TOP - 2), st.integers(1, 3)), max_size=8), numbers, numbers)
def test_the_lowest_missing_number(runs: list[tuple[int, int]], wanted: set[int], already: set[int]) -> None:
    starts = np.array([start for start, _ in runs], np.int64)
    ends = starts + np.array([length for _, length in runs], np.int64)
    coverage = DeliveryCoverage(starts, ends, np.arange(len(runs)), spans_of(wanted), spans_of(already))
    for position, found in enumerate(coverage.missing_after(np.arange(-1, len(runs))).tolist(), start=-1):
        done = already.union(*(range(*run) for run in zip(starts[: position + 1], ends[: position + 1], strict=True)))
        assert found == min(wanted - done, default=NEVER)
