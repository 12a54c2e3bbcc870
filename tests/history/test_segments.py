"""File names: every process name gives one, and it gives the name back."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.segments import PARTIAL, log_of, segment_file

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(NAMES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_name_comes_back(process: str, incarnation: int, segment: int) -> None:
    file = segment_file(Path("history"), process, incarnation, segment)
    assert file.parent == Path("history")
    assert log_of(file) == (process, incarnation)
    assert log_of(file.with_name(file.name + PARTIAL)) == (process, incarnation)


def test_other_files_are_nobodys() -> None:
    assert log_of(Path("part-00000-ab12.snappy.parquet")) is None
    assert log_of(Path("history.parquet")) is None
