"""Walking over a run: its own rows and no others, names as numbers, and samples that stay bounded."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.segments import segment_file
from antiphon.report import scan
from antiphon.report.scan import Numbering, RunScan, Thinned


def test_only_the_rows_of_the_run_are_seen(tmp_path: Path) -> None:
    tables = []
    for run in ("one", "two", "three"):
        log = MemoryLog(run=run, process=f"p-{run}")
        log.view(1, "g", 1, ["a/1"])
        log.stop(2)
        tables.append(log.table())
    pq.write_table(pa.concat_tables(tables), tmp_path / "mixed.parquet", row_group_size=3)
    pq.write_table(tables[0], segment_file(tmp_path, "p-one", 1, 0))
    walk = RunScan(HistoryFiles.open(tmp_path), "two")
    rows = [row for table in walk.tables("process", "kind") for row in table.to_pylist()]
    assert [(row["process"], row["kind"]) for row in rows] == [("p-two", "view"), ("p-two", "stop")]
    assert walk.files == [str(tmp_path / "mixed.parquet")], "the other file's statistics rule it out"


def test_a_file_that_has_gone_bad_is_named(tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="a")
    log.stop(2)
    file = segment_file(tmp_path, "a", 1, 0)
    pq.write_table(log.table(), file)
    walk = RunScan(HistoryFiles.open(tmp_path), "r")
    file.unlink()
    with pytest.raises(UnusableHistoryError, match="cannot be read again"):
        list(walk.tables("kind"))


@pytest.mark.parametrize("dense_max", [1, 1 << 20])
def test_combinations_keep_their_numbers_from_table_to_table(dense_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "DENSE_MAX", dense_max)
    numbering = Numbering("name", "count")
    first = pa.table({"name": ["b", "a", None, "b", "a"], "count": [1, 1, 1, 1, 2]})
    second = pa.table({"name": pa.chunked_array([["x", "a"], ["b", None]]), "count": [2**40, 2, 1, 1]})
    numbers = [numbering.of(first).tolist(), numbering.of(second).tolist(), numbering.of(first.slice(0, 0)).tolist()]
    known = {number: key for key, number in numbering.known.items()}
    assert [known[number] for number in numbers[0]] == [("b", 1), ("a", 1), (None, 1), ("b", 1), ("a", 2)]
    assert [known[number] for number in numbers[1]] == [("x", 2**40), ("a", 2), ("b", 1), (None, 1)]
    assert numbers[2] == []


@pytest.mark.parametrize("piece", [1, 7, 64, 1_000])
def test_every_so_many_rows_are_kept_wherever_the_pieces_end(piece: int) -> None:
    thinned = Thinned(1, 50)
    rows = np.arange(1_000).reshape(-1, 1)
    for start in range(0, 1_000, piece):
        thinned.add(rows[start : start + piece])
    assert thinned.stride == 32
    assert thinned.rows()[:, 0].tolist() == list(range(0, 1_000, 32))
