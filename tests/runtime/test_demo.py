"""The demo: real processes, a bad network, a history that passes; and no process left behind."""

import os
import signal
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import UsageError
from antiphon.pipeline import reference
from antiphon.runtime import demo, workers
from antiphon.runtime.demo import run_demo
from antiphon.runtime.workers import Worker, WorkerError

pytestmark = pytest.mark.processes


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Every worker that is started."""
    started: list[Worker] = []
    enter = workers.Workers.__aenter__

    async def enter_and_note(self: workers.Workers) -> list[Worker]:
        entered = await enter(self)
        started.extend(entered)
        return entered

    monkeypatch.setattr(workers.Workers, "__aenter__", enter_and_note)
    return started


def alive(worker: Worker) -> bool:
    return worker._process.returncode is None


def test_everything_is_delivered_and_the_history_is_kept(tmp_path: Path, started: list[Worker]) -> None:
    told: list[tuple[int, int]] = []
    result = run_demo(tmp_path, members=3, messages=500, loss=0.1, progress=lambda *it: told.append(it))
    assert result.completed
    assert result.delivered == {"p1": 1500, "p2": 1500, "p3": 1500}
    assert result.expected == 1500
    assert told[-1] == (4500, 4500)
    assert sum(counters["flights_lost"] for counters in result.statistics.values()) > 0
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings
    departures = sum(row.count or 0 for row in HistoryFiles.open(tmp_path).read_rows() if row.kind == "depart")
    assert audit.events == 3 * 500 + 3 * 1500 + 3 * 3 + departures
    assert [member.ending for member in audit.observations] == ["quiet"] * 3
    assert len(started) == 3
    assert not any(map(alive, started))


def test_impatience_is_told_and_recorded(tmp_path: Path, started: list[Worker]) -> None:
    result = run_demo(tmp_path, members=2, messages=1000, loss=1.0, patience_s=0.5)
    assert not result.completed
    assert "quiet" not in {member.ending for member in reference.audit(tmp_path).observations}
    assert not any(map(alive, started))


def test_a_worker_that_dies_ends_the_demo(tmp_path: Path, started: list[Worker]) -> None:
    def kill_one(delivered: int, expected: int) -> None:
        if alive(started[1]):
            os.kill(started[1]._process.pid, signal.SIGKILL)

    with pytest.raises(WorkerError, match="worker 'p2': ended with status -9"):
        run_demo(tmp_path, members=3, messages=200, loss=1.0, progress=kill_one)
    assert not any(map(alive, started))


def test_a_workers_mistake_is_told_in_its_words(tmp_path: Path, started: list[Worker]) -> None:
    run_demo(tmp_path, members=1, messages=1)
    with pytest.raises(WorkerError, match="already holds a log of p1/1"):
        run_demo(tmp_path, members=1, messages=1)
    assert not any(map(alive, started))


def test_a_worker_that_cannot_start_is_told(
    tmp_path: Path, started: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "WORKER", ("-m", "antiphon.runtime.no_such_module"))
    with pytest.raises(WorkerError, match="No module named"):
        run_demo(tmp_path, members=1, messages=1)
    assert not any(map(alive, started))


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, started: list[Worker]) -> None:
    interrupted = False

    def interrupt(delivered: int, expected: int) -> None:
        nonlocal interrupted
        if not interrupted:  # a second one would come before the first is dealt with
            interrupted = True
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_demo(tmp_path, members=2, messages=1000, loss=1.0, progress=interrupt)
    assert not any(map(alive, started))


@pytest.mark.parametrize("settings", [{"members": 0}, {"messages": 0}])
def test_numbers_that_make_no_demo(tmp_path: Path, settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least one member"):
        run_demo(tmp_path, **settings)  # type: ignore[arg-type]
