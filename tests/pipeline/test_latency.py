"""Rounded latencies and percentiles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.latency import coarse, percentile


@given(st.lists(st.integers(0, 2**50), min_size=1))
def test_rounding_loses_less_than_one_part_in_64(latencies_ns: list[int]) -> None:
    rounded = coarse(np.array(latencies_ns, np.int64)).tolist()
    for exact, found in zip(latencies_ns, rounded, strict=True):
        assert found <= exact
        assert (exact - found) * 64 <= exact


def test_few_values_remain() -> None:
    assert len(set(coarse(np.arange(1_000_000)).tolist())) < 64 * 20


def test_percentiles() -> None:
    assert percentile([], 50) is None
    assert percentile([7], 99) == 7
    assert percentile(list(range(1, 101)), 50) == 50
    assert percentile(list(range(1, 101)), 99) == 99
    assert percentile(list(range(1, 4)), 50) == 2
