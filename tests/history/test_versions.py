"""Versions: newer ones are refused, older ones are brought up to date, also where a file is read by row group."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history import reader
from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from tests.history.test_reader import make_table


def write(tmp_path: Path, table: pa.Table, version: str) -> Path:
    pq.write_table(table.replace_schema_metadata({"antiphon.schema": version}), tmp_path / "a-1-00000.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3", "it was written with schema version 3, this program reads up to 2; update it"),
        ("0", "there never was a schema version 0"),
        ("one", "its schema version 'one' is no number"),
    ],
)
def test_versions_that_cannot_be_read(tmp_path: Path, version: str, words: str) -> None:
    with pytest.raises(UnusableHistoryError, match=words):
        HistoryFiles.open(write(tmp_path, make_table(), version))


def test_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    """It had no digests, and deliver rows did not say for whom a message was."""
    table = make_table()
    assert "deliver" in table["kind"].to_pylist()
    directory = write(tmp_path, table.drop_columns(["digest"]), "1")
    rows = HistoryFiles.open(directory).read_rows()
    assert {row.digest for row in rows} == {None}
    assert all(row.destinations == (() if row.kind == "deliver" else None) for row in rows)
    assert reader.read_unit(HistoryFiles.open(directory).units[0]).column_names == table.column_names
    some = reader.read_unit(HistoryFiles.open(directory).units[0], ["index", "digest"])
    assert some.column_names == ["index", "digest"]


def test_the_column_that_is_missing_is_named_for_version_1_too(tmp_path: Path) -> None:
    with pytest.raises(UnusableHistoryError, match="column 'kind' is missing"):
        HistoryFiles.open(write(tmp_path, make_table().drop_columns(["digest", "kind"]), "1"))
