"""How histories are cut up, also those that other tools have put into other files and orders."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import plan, read_pieces


def make_table(process: str, rows: int) -> pa.Table:
    log = MemoryLog(run="r", process=process)
    for time_ns in range(rows):
        log.note(time_ns, "x")
    return log.table()


def extents(history: HistoryFiles) -> list[list[tuple[str, int, int]]]:
    """Task by task: process, first and last index of each piece."""
    found = []
    for task in plan(history):
        pieces = list(read_pieces(task))
        for piece in pieces:
            index = piece.table["index"].to_pylist()
            assert index == sorted(index)
            assert set(piece.table["process"].to_pylist()) == {piece.process.removesuffix("/1")}
        found.append([(p.process, p.table["index"][0].as_py(), p.table["index"][-1].as_py()) for p in pieces])
    return found


def test_one_log_per_file(tmp_path: Path) -> None:
    pq.write_table(make_table("a", 5), tmp_path / "a-1-00000.parquet", row_group_size=2)
    pq.write_table(make_table("b", 2), tmp_path / "b-1-00000.parquet")
    assert extents(HistoryFiles.open(tmp_path)) == [[("a/1", 0, 1)], [("a/1", 2, 3)], [("a/1", 4, 4)], [("b/1", 0, 1)]]


def test_several_logs_in_one_file(tmp_path: Path) -> None:
    table = pa.concat_tables([make_table("a", 3), make_table("b", 3)])
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=2)
    # The second row group holds a's last row and b's first.
    assert extents(HistoryFiles.open(tmp_path)) == [[("a/1", 0, 1)], [("a/1", 2, 2), ("b/1", 0, 0)], [("b/1", 1, 2)]]


@pytest.mark.parametrize("write_statistics", [True, False])
def test_rows_in_any_order_are_put_together(tmp_path: Path, write_statistics: bool) -> None:
    table = pa.concat_tables([make_table("a", 6), make_table("b", 6)])
    places = list(range(12))
    Random(3).shuffle(places)
    pq.write_table(table.take(places), tmp_path / "all.parquet", row_group_size=4, write_statistics=write_statistics)
    assert extents(HistoryFiles.open(tmp_path)) == [[("a/1", 0, 5), ("b/1", 0, 5)]]
