"""A cache over worker processes, as its example uses it; workers are killed."""

import json
import uuid
from pathlib import Path

import pytest

from antiphon import UsageError
from antiphon.toolkit import SharedCache
from antiphon.toolkit.shared_cache import WorkerFiles
from tests.toolkit.test_leader_examples import Worker, wait_for, workers


def said(worker: Worker, line: str, times: int) -> None:
    wait_for(lambda: worker.lines.count(line) >= times, f"{line!r} {times} times, not {worker.lines}")


@pytest.mark.processes
def test_workers_never_serve_what_another_has_changed(tmp_path: Path) -> None:
    store = tmp_path / f"{uuid.uuid4().hex}.json"
    store.write_text(json.dumps({"IBM": "91"}))
    with workers() as running:
        for name in "abc":
            running[name] = Worker("cache_workers.py", str(store))
        for name in "abc":
            running[name].type("wait")
        for name in "abc":
            said(running[name], "shares True", 1)
        for name in "abc":
            for _ in range(3):
                running[name].type("get IBM")
            said(running[name], "got 91", 3)
            assert running[name].lines.count("loads IBM") == 1, "the others come from memory"
        running["a"].type("set IBM 92")
        said(running["a"], "set", 1)
        for name in "abc":
            running[name].type("get IBM")
            said(running[name], "got 92", 1)
            assert running[name].lines.count("loads IBM") == 2
        running.pop("a").end()  # kill -9, and one more: a majority is gone
        running.pop("b").end()
        running["c"].type("set IBM 93")
        said(running["c"], "set", 1)
        running["d"] = Worker("cache_workers.py", str(store))
        running["d"].type("wait")
        said(running["d"], "shares True", 1)
        for name in "cd":
            running[name].type("get IBM")
            said(running[name], "got 93", 1)


def test_files_of_dead_workers_are_removed(tmp_path: Path) -> None:
    one, other = WorkerFiles(tmp_path, "w1"), WorkerFiles(tmp_path, "w2")
    one.announce("127.0.0.1:1")
    (tmp_path / "w3").write_text("127.0.0.1:3")
    assert other.is_alive("w1")
    assert not other.is_alive("w3")
    assert not other.is_alive("w4")
    assert [path.name for path in tmp_path.glob("*")] == ["w1"]
    one.close()
    assert not other.is_alive("w1")


def test_a_value_that_is_invalidated_while_it_is_loaded_is_not_kept(tmp_path: Path) -> None:
    cache = SharedCache[int]("numbers", directory=tmp_path)
    try:
        assert cache.wait(20)

        def load(key: str) -> int:
            cache.invalidate(key)
            return 1

        assert cache.get("x", load) == 1
        assert cache.get("x", lambda key: 2) == 2
        assert cache.get("x", lambda key: 3) == 2
        assert (cache.hits, cache.loads) == (1, 2)
        assert "1 values, live" in repr(cache)
    finally:
        cache.close()
    cache.close()


def test_a_name_is_checked() -> None:
    with pytest.raises(UsageError, match="cannot name a cache"):
        SharedCache("a/b")
