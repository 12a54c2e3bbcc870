"""The manifest: what it lists, and what follows where the files differ from it."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.manifest import close_history
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import SCHEMA_VERSION
from antiphon.pipeline.reference import audit
from tests.pipeline.script import make_logs


def write_closed(directory: Path, run: str = "r") -> Path:
    """A sound history of p and q, with a segment per row of p."""
    directory.mkdir(parents=True, exist_ok=True)
    p, q = make_logs(run, p="s1 d:p1 quiet", q="d:p1 quiet")
    for index in range(len(p.table())):
        pq.write_table(p.table().slice(index, 1), directory / f"p-1-{index:05}.parquet")
    pq.write_table(q.table(), directory / "q-1-00000.parquet")
    close_history(directory)
    return directory


def refused(path: Path) -> str:
    with pytest.raises(UnusableHistoryError) as caught:
        HistoryFiles.open(path)
    return str(caught.value)


def test_what_it_says(tmp_path: Path) -> None:
    document = json.loads((write_closed(tmp_path) / "manifest.json").read_text())
    assert (document["schema"], document["runs"], document["processes"]) == (SCHEMA_VERSION, ["r"], ["p/1", "q/1"])
    assert [(entry["name"], entry["rows"]) for entry in document["files"]] == [
        *((f"p-1-{index:05}.parquet", 1) for index in range(5)),
        ("q-1-00000.parquet", 4),
    ]
    assert audit(tmp_path).verdict == "kept"


@pytest.mark.parametrize("segment", [0, 4])
def test_a_listed_file_that_is_gone_leaves_its_log_cut_short(tmp_path: Path, segment: int) -> None:
    (write_closed(tmp_path) / f"p-1-{segment:05}.parquet").unlink()
    history = HistoryFiles.open(tmp_path)
    assert [file.name for file in history.leftovers] == [f"p-1-{segment:05}.parquet"]
    assert set(history.unfinished()) == {("r", "p/1")}
    assert audit(tmp_path).verdict == "unknown"


def test_a_whole_log_that_is_gone_is_missed(tmp_path: Path) -> None:
    (write_closed(tmp_path) / "q-1-00000.parquet").unlink()
    assert set(HistoryFiles.open(tmp_path).unfinished()) == {("r", "q/1")}


def test_all_files_gone(tmp_path: Path) -> None:
    for file in write_closed(tmp_path).glob("*.parquet"):
        file.unlink()
    assert "p-1-00000.parquet, which manifest.json lists, is gone" in refused(tmp_path)


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    log = MemoryLog(run="r", process="q")
    log.stop(0)
    pq.write_table(log.table(), write_closed(tmp_path) / "q-1-00000.parquet")
    assert "q-1-00000.parquet: it holds 1 rows, but manifest.json lists 4" in refused(tmp_path)


def test_a_file_that_came_later_is_read(tmp_path: Path) -> None:
    (log,) = make_logs(r="quiet")
    pq.write_table(log.table(), write_closed(tmp_path) / "r-1-00000.parquet")
    assert "r" in {row.process for row in HistoryFiles.open(tmp_path).read_rows()}


def test_a_folder_of_many_runs(tmp_path: Path) -> None:
    for run in ("one", "two", "three"):
        write_closed(tmp_path / run, run)
    assert {row.run for row in HistoryFiles.open(tmp_path).read_rows()} == {"one", "two", "three"}
    assert (audit(tmp_path).verdict, audit(tmp_path).runs) == ("kept", 3)
    (tmp_path / "two" / "p-1-00002.parquet").unlink()
    assert set(HistoryFiles.open(tmp_path).unfinished()) == {("two", "p/1")}


def test_closing_lists_no_file_that_is_cut_short(tmp_path: Path) -> None:
    file = write_closed(tmp_path) / "q-1-00000.parquet"
    file.write_bytes(file.read_bytes()[:300])
    close_history(tmp_path)
    assert "q-1-00000.parquet" not in (tmp_path / "manifest.json").read_text()
    assert set(HistoryFiles.open(tmp_path).unfinished()) == {("r", "q/1")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is no JSON document"),
        ("[]", 'it lacks a "schema" version or a list "files"'),
        ('{"schema":1,"files":[{"name":"../x.parquet","rows":1}]}', 'it lacks a "schema" version or a list "files"'),
        ('{"schema":3,"files":[]}', "it was written with schema version 3, this program reads up to 2"),
    ],
)
def test_a_manifest_that_makes_no_sense(tmp_path: Path, text: str, words: str) -> None:
    (write_closed(tmp_path) / "manifest.json").write_text(text)
    assert f"manifest.json: {words}" in refused(tmp_path)
