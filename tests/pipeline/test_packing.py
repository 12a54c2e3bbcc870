"""Packed columns come back as they were, and are small."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline.packing import pack, unpack

LIMITS = np.iinfo(np.int64)


@given(st.lists(st.integers(LIMITS.min, LIMITS.max)))
def test_any_numbers_come_back(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64))).tolist() == values


@pytest.mark.parametrize("step", [1, 100, 10_000, 10**6, 10**12])
def test_steps_of_any_size_come_back(step: int) -> None:
    values = np.cumsum(np.random.default_rng(step).integers(-step, step, 5000)).astype(np.int64)
    assert np.array_equal(unpack(pack(values)), values)


def test_small_steps_take_little_room() -> None:
    values = np.cumsum(np.random.default_rng(0).integers(0, 4, 100_000)).astype(np.int64)
    assert len(pack(values)) < 110_000
