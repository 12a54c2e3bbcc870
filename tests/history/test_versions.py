"""Versions: newer ones are refused, older ones are brought up to date, also where a file is read by row group."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history import reader, versions
from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from tests.history.test_reader import make_table


def write(tmp_path: Path, table: pa.Table, version: str) -> Path:
    pq.write_table(table.replace_schema_metadata({"antiphon.schema": version}), tmp_path / "a-1-00000.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2", "it was written with schema version 2, this program reads up to 1; update it"),
        ("0", "there never was a schema version 0"),
        ("one", "its schema version 'one' is no number"),
    ],
)
def test_versions_that_cannot_be_read(tmp_path: Path, version: str, words: str) -> None:
    with pytest.raises(UnusableHistoryError, match=words):
        HistoryFiles.open(write(tmp_path, make_table(), version))


def test_an_older_version_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if version 0 had called the column `size` by the name of `bytes`."""

    def rename(table: pa.Table) -> pa.Table:
        return table.rename_columns(["size" if name == "bytes" else name for name in table.column_names])

    old = make_table().rename_columns(["bytes" if name == "size" else name for name in make_table().column_names])
    directory = write(tmp_path, old, "0")
    with pytest.raises(UnusableHistoryError):
        HistoryFiles.open(directory)
    monkeypatch.setitem(versions.UPGRADES, 0, rename)
    assert [row.size for row in HistoryFiles.open(directory).read_rows()] == make_table()["size"].to_pylist()
    assert reader.read_unit(HistoryFiles.open(directory).units[0]).column_names == make_table().column_names
