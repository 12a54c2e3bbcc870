"""Walking a history log by log."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.logs import LogKey, by_run, find_logs
from antiphon.history.reader import HistoryFiles


def make_log(process: str, run: str = "r", notes: int = 10) -> MemoryLog:
    log = MemoryLog(run=run, process=process)
    for number in range(notes):
        log.note(number, f"{process}{number}")
    return log


def indices(path: Path) -> dict[LogKey, list[int]]:
    return {log.key: [row.index for row in log.rows()] for log in find_logs(HistoryFiles.open(path))}


def test_segments_follow_each_other_whatever_they_are_called(tmp_path: Path) -> None:
    table = make_log("a").table()
    pq.write_table(table.slice(6), tmp_path / "1.parquet", row_group_size=2)
    pq.write_table(table.slice(0, 6), tmp_path / "2.parquet", row_group_size=4)
    assert indices(tmp_path) == {LogKey("r", "a", 1): list(range(10))}


def test_logs_that_share_row_groups_are_taken_apart_and_sorted(tmp_path: Path) -> None:
    table = pa.concat_tables([make_log("a").table(), make_log("b").table(), make_log("a", "s").table()])
    pq.write_table(table.sort_by([("index", "descending")]), tmp_path / "x.parquet", row_group_size=7)
    whole = list(range(10))
    keys = [LogKey("r", "a", 1), LogKey("r", "b", 1), LogKey("s", "a", 1)]
    assert indices(tmp_path) == dict.fromkeys(keys, whole)
    assert {run: len(logs) for run, logs in by_run(find_logs(HistoryFiles.open(tmp_path))).items()} == {"r": 2, "s": 1}


def test_a_log_ends_at_its_first_gap(tmp_path: Path) -> None:
    table = make_log("a").table()
    pq.write_table(pa.concat_tables([table.slice(0, 4), table.slice(5)]), tmp_path / "a.parquet", row_group_size=3)
    assert indices(tmp_path) == {LogKey("r", "a", 1): [0, 1, 2, 3]}


def test_long_row_groups(tmp_path: Path) -> None:
    pq.write_table(make_log("a", notes=10_000).table(), tmp_path / "a.parquet")
    assert indices(tmp_path) == {LogKey("r", "a", 1): list(range(10_000))}


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    pq.write_table(make_log("a").table(), tmp_path / "a.parquet")
    with pytest.raises(UnusableHistoryError, match="it holds no run 'x'; it holds r"):
        find_logs(HistoryFiles.open(tmp_path), "x")
