"""Logs on a real disk: what was stored is there again, in order, whatever a crash has cut short."""

import os
from pathlib import Path

import pytest

from antiphon.kernel.calls import Load, Store, Trim
from antiphon.kernel.outcomes import CallOutcome, Loaded, Stored
from antiphon.runtime.stores import Stores, carry_out_batch, path_of, read_log
from tests.runtime.cluster import run, until


def test_what_was_stored_is_loaded_in_order_and_trimmed_from_the_front(tmp_path: Path) -> None:
    async def test() -> None:
        reported: list[CallOutcome] = []
        stores = Stores(tmp_path, reported.append, lambda error: pytest.fail(str(error)))
        for token in range(1, 51):
            stores.carry_out(Store("a/b ü", [b"%d" % token, b""], token))
        stores.carry_out(Load("a/b ü", 51))
        stores.carry_out(Trim("a/b ü", 98))
        stores.carry_out(Load("a/b ü", 52))
        stores.carry_out(Load("never written", 53))
        await until(lambda: len(reported) == 53)
        assert [outcome.token for outcome in reported] == list(range(1, 54))
        assert all(isinstance(outcome, Stored) for outcome in reported[:50])
        loaded = [outcome.records for outcome in reported[50:] if isinstance(outcome, Loaded)]
        assert loaded[0] == [record for token in range(1, 51) for record in (b"%d" % token, b"")]
        assert loaded[1:] == [[b"50", b""], []]
        await stores.close()

    run(test)


def test_a_record_that_was_cut_short_is_dropped_and_written_over(tmp_path: Path) -> None:
    carry_out_batch(tmp_path, [Store("log", [b"one", b"two"], 1)])
    path = path_of(tmp_path, "log")
    for size in range(path.stat().st_size - 1, path.stat().st_size - 11, -1):
        os.truncate(path, size)
        assert read_log(path) == [b"one"]
    carry_out_batch(tmp_path, [Store("log", [b"three"], 2)])
    assert read_log(path) == [b"one", b"three"]
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.write_bytes(data)
    assert read_log(path) == []


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "file").write_bytes(b"")
        failures: list[Exception] = []
        stores = Stores(tmp_path / "file", lambda _: pytest.fail("nothing was stored"), failures.append)
        stores.carry_out(Store("log", [b"x"], 1))
        await until(lambda: bool(failures))
        assert isinstance(failures[0], OSError)
        await stores.close()

    run(test)
