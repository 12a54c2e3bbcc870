"""The recorder: what is on disk after which calls, and what happens when the disk does not play along."""

import os
import signal
import subprocess
import sys
import time
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


CHILD = """
import sys, time
from antiphon.history.recorder import Recorder
log = Recorder(sys.argv[1], run="r", process="a", flush_s=0.4)
number = 0
while True:
    number += 1
    log.note(time.time_ns(), str(number))
    print(number, flush=True)
    time.sleep(0.01 if number != int(sys.argv[2]) else 3600)
"""


def start_child(directory: Path, stop_after: int, lines: int) -> "subprocess.Popen[str]":
    """A process that records a row every 10 ms, and prints its number, until it has told of so many."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory), str(stop_after)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for _ in range(lines):
        child.stdout.readline()
    return child


def last_row(child: "subprocess.Popen[str]", told: int) -> int:
    """The last row that a child that has ended told of, after it had told of some."""
    assert child.stdout is not None
    return int([str(told), *child.stdout.read().split()][-1])


def recorded(directory: Path) -> list[int]:
    return [int(row.label or 0) for row in HistoryFiles.open(directory).read_rows()]


@pytest.mark.processes
def test_of_a_process_that_is_killed_all_but_the_last_second_is_there(tmp_path: Path) -> None:
    """On a machine that has more to do than it can, all but the last few."""
    child = start_child(tmp_path, 0, lines=250)
    killed_ns = time.time_ns()
    child.kill()
    child.wait()
    rows = HistoryFiles.open(tmp_path).read_rows()
    assert [int(row.label or 0) for row in rows] == list(range(1, len(rows) + 1))
    bound_s = 1 if (os.cpu_count() or 1) > os.getloadavg()[0] else 3
    assert killed_ns - rows[-1].time_ns < bound_s * 10**9


@pytest.mark.processes
def test_the_rows_of_an_idle_process_are_soon_on_disk(tmp_path: Path) -> None:
    child = start_child(tmp_path, 5, lines=5)
    late_s = time.monotonic() + (1 if (os.cpu_count() or 1) > os.getloadavg()[0] else 5)
    while not list(tmp_path.glob("*.parquet")) or len(recorded(tmp_path)) < 5:
        assert time.monotonic() < late_s, list(tmp_path.iterdir())
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert recorded(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.processes
def test_sigterm_writes_all_rows_and_then_ends_the_process(tmp_path: Path) -> None:
    child = start_child(tmp_path, 0, lines=130)
    child.terminate()
    child.wait(10)
    assert child.returncode == -signal.SIGTERM
    rows = recorded(tmp_path)
    assert rows == list(range(1, len(rows) + 1))
    assert len(rows) >= last_row(child, 130)


@pytest.mark.processes
def test_a_second_recorder_of_the_same_log_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    child = start_child(tmp_path, 0, lines=1)
    with pytest.raises(UsageError, match=r"a/1 is being recorded into .* by another node"):
        Recorder(tmp_path, run="r", process="a")
    child.kill()
    child.wait()
    for file in tmp_path.glob("*.parquet*"):
        file.unlink()
    Recorder(tmp_path, run="r", process="a").close()
    assert list(tmp_path.iterdir()) == []
