"""The recorder: what is on disk after which calls, and what happens when the disk does not play along."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antiphon.history.errors import HistoryWriteError
from antiphon.history.log import Log, MemoryLog
from antiphon.history.reader import HistoryFiles
from antiphon.history.recorder import QUEUE_SEGMENTS, SEGMENT_SPAN_NS, Recorder
from antiphon.kernel.errors import UsageError


def record(log: Log, rows: int = 20) -> None:
    log.start(0, "g", "vector", "static", ["causal"], ["creation"])
    log.view(0, "g", 1, ["a/1", "b/1"])
    for number in range(1, rows + 1):
        log.send(number, "g", 1, number, 1, "causal", 10)
        log.deliver(number, "g", 1, "b", 1, number, 1, "causal", 10)
    log.stop(rows + 1)


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.iterdir())}


def test_disk_holds_what_memory_holds(tmp_path: Path) -> None:
    memory = MemoryLog(run="r", process="a")
    record(memory)
    with Recorder(tmp_path, run="r", process="a", segment_rows=7) as recorder:
        record(recorder)
    assert HistoryFiles.open(tmp_path).read_rows() == list(memory.rows())


def test_full_segments_are_cut(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", process="a", segment_rows=10) as recorder:
        record(recorder)  # 43 rows
    names = [f"a-1-0000{segment}.parquet" for segment in range(5)]
    assert list(contents(tmp_path)) == names
    assert [pq.read_metadata(tmp_path / name).num_rows for name in names] == [10, 10, 10, 10, 3]
    assert pq.read_metadata(tmp_path / names[0]).num_row_groups == 1


def test_old_segments_are_cut(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", process="a") as recorder:
        recorder.note(5, "first")
        recorder.note(5 + SEGMENT_SPAN_NS, "still the same segment")
        recorder.note(6 + SEGMENT_SPAN_NS, "the next")
    assert [pq.read_metadata(file).num_rows for file in sorted(tmp_path.iterdir())] == [2, 1]


def test_the_bytes_are_a_function_of_the_calls(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Recorder(tmp_path / name, run="r", process="a", segment_rows=10) as recorder:
            record(recorder)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_leaving_by_an_exception_keeps_what_was_recorded(tmp_path: Path) -> None:
    def fail() -> None:
        with Recorder(tmp_path, run="r", process="a") as recorder:
            recorder.note(1, "before")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    rows = HistoryFiles.open(tmp_path).read_rows()
    assert [row.kind for row in rows] == ["note"]


def test_nothing_recorded_leaves_no_file(tmp_path: Path) -> None:
    Recorder(tmp_path / "new", run="r", process="a").close()
    assert contents(tmp_path / "new") == {}


def test_a_second_log_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", process="a") as recorder:
        recorder.note(1, "x")
    with pytest.raises(UsageError, match="already holds a log of a/1"):
        Recorder(tmp_path, run="other", process="a")
    Recorder(tmp_path, run="other", process="a", incarnation=2).close()
    Recorder(tmp_path, run="other", process="a-1", incarnation=2).close()


def test_closed_is_closed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="r", process="a")
    recorder.send(1, "g", 1, 1, 1, "causal", 1)
    recorder.close()
    recorder.close()
    with pytest.raises(UsageError, match="is closed"):
        recorder.send(1, "g", 1, 2, 1, "causal", 1)


def test_a_segment_holds_at_least_one_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one row"):
        Recorder(tmp_path, run="r", process="a", segment_rows=0)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HistoryWriteError, match="file"):
        Recorder(tmp_path / "file" / "history", run="r", process="a")


def test_a_failing_disk_reaches_the_caller(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="r", process="a", segment_rows=1)
    (tmp_path / "a-1-00000.parquet.partial").mkdir()  # nothing can be written there

    def record_until_noticed() -> None:
        # Each row is a segment. With the queue full, a call waits until the thread has dealt with the first one.
        for _ in range(QUEUE_SEGMENTS + 4):
            recorder.note(1, "a row")

    with pytest.raises(HistoryWriteError, match=r"a-1-00000\.parquet") as caught:
        record_until_noticed()
    assert caught.value.file == tmp_path / "a-1-00000.parquet"
    with pytest.raises(HistoryWriteError):
        recorder.note(1, "still failing")
    with pytest.raises(HistoryWriteError):
        recorder.close()


def test_a_failing_disk_also_ends_a_run_that_only_grows(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="r", process="a", segment_rows=1)
    (tmp_path / "a-1-00000.parquet.partial").mkdir()
    recorder.send(1, "g", 1, 1, 1, "causal", 1)
    recorder.send(1, "h", 1, 1, 1, "causal", 1)  # the first goes to the thread; this one stays open

    def grow() -> None:
        for number in range(2, 5_000_000):
            recorder.send(1, "h", 1, number, 1, "causal", 1)  # merged, until the thread has noticed

    with pytest.raises(HistoryWriteError):
        grow()


def test_a_value_that_does_not_fit_reaches_the_caller(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="r", process="a")
    recorder.note(2**70, "far in the future")
    with pytest.raises(HistoryWriteError, match="a-1-00000"):
        recorder.close()
