"""Columns made from buffers are those that Arrow makes from the values; and nothing slow is loaded for them."""

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.columns import Cell, column_of, same_of

NUMBERS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=40)
TEXTS = st.lists(st.none() | st.text(max_size=3), max_size=40)
LISTS = st.lists(st.none() | st.lists(st.text(max_size=3), max_size=3).map(tuple), max_size=40)


@given(
    st.tuples(NUMBERS, st.just(pa.int64()))
    | st.tuples(TEXTS, st.just(pa.string()))
    | st.tuples(LISTS, st.just(pa.list_(pa.string())))
)
def test_a_column_is_what_arrow_would_make_of_it(case: tuple[list[Cell], pa.DataType]) -> None:
    cells, kind = case
    made = column_of(cells, kind)
    made.validate(full=True)
    assert made.type == kind
    assert made.equals(pa.array(cells, kind))


@pytest.mark.parametrize("cell", [7, "seven", ""])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_the_same_many_times(cell: int | str, count: int) -> None:
    assert same_of(cell, count).to_pylist() == [cell] * count


@pytest.mark.processes
def test_to_record_loads_no_pandas() -> None:
    program = """
import sys, tempfile
from antiphon.history.recorder import Recorder
with tempfile.TemporaryDirectory() as directory, Recorder(directory, run="r", process="p") as log:
    log.start(1, "g", "vector", "static", ["causal"], ["causal"])
    log.view(2, "g", 1, ["p/1"])
    log.send(3, "g", 1, 1, 1, "causal", 5)
    log.stop(4)
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
