"""The spool: each batch published once, in order, by one query, and let go when it is sent."""

from pathlib import Path

import pyarrow as pa
import pytest

from antiphon.history.durable import StorageError
from antiphon.history.spool import SCHEMA, Position, Spool, StagedFile


def staged(spool: Spool, *payloads: bytes, levels: list[str] | None = None) -> StagedFile:
    levels = levels or ["causal"] * len(payloads)
    columns = [pa.array(payloads, pa.binary()), pa.array(levels, pa.string())]
    return spool.stage([pa.RecordBatch.from_arrays(columns, schema=SCHEMA)])


def contents(spool: Spool) -> list[tuple[int, int, list[bytes]]]:
    """Batch, number of its first row, payloads."""
    return [
        (batch.batch, batch.first, [payload for run, _ in spool.rows(batch) for payload in run])
        for batch in spool.waiting()
    ]


def test_rows_are_numbered_over_all_batches_in_the_order_of_their_tasks(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert spool.publish(0, [staged(spool, b"a", b"b"), staged(spool), staged(spool, b"c")], "q")
    assert spool.publish(1, [], None)
    assert spool.publish(2, [staged(spool, b"d")], "q")
    assert contents(Spool(tmp_path)) == [(0, 1, [b"a", b"b", b"c"]), (1, 4, []), (2, 4, [b"d"])]


def test_levels_come_in_runs(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.publish(0, [staged(spool, b"a", b"b", b"c", levels=["fifo", "safe", "safe"])], "q")
    assert list(spool.rows(spool.waiting()[0])) == [([b"a"], "fifo"), ([b"b", b"c"], "safe")]


def test_a_repeated_batch_is_dropped_before_and_after_it_is_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.publish(0, [staged(spool, b"a")], "q")
    assert not spool.publish(0, [staged(spool, b"other")], "q")
    assert contents(spool) == [(0, 1, [b"a"])]
    spool.settle(spool.waiting()[0])
    assert spool.position() == Position(0, 2)
    assert not spool.publish(0, [staged(spool, b"a")], "q")
    assert contents(spool) == []
    assert list((tmp_path / "staged").iterdir()) == []
    assert spool.publish(1, [staged(spool, b"b")], "q")
    assert contents(spool) == [(1, 2, [b"b"])]


def test_a_batch_that_is_repeated_while_it_is_let_go_is_not_sent(tmp_path: Path) -> None:
    """The driver looked at the position before the feeder moved it, and at the batches after they were let go."""
    spool, late = Spool(tmp_path), Spool(tmp_path)
    spool.publish(0, [staged(spool, b"a")], "q")
    before = late.position()
    spool.settle(spool.waiting()[0])
    positions = iter([before])
    late.position = lambda: next(positions)  # type: ignore[method-assign]
    assert late.publish(0, [staged(late, b"a")], "q")
    assert contents(spool) == []
    spool.publish(1, [staged(spool, b"b")], "q")
    assert contents(spool) == [(1, 2, [b"b"])]
    spool.settle(spool.waiting()[0])
    assert list((tmp_path / "batches").iterdir()) == []


def test_a_query_with_another_checkpoint_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.publish(0, [staged(spool, b"a")], "q")
    with pytest.raises(StorageError, match="belongs to the query q, and r has another checkpoint"):
        spool.publish(0, [staged(spool, b"a")], "r")


def test_a_damaged_spool_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    file = staged(spool, b"a")
    spool.publish(0, [file], "q")
    (tmp_path / "staged" / file.file).write_bytes(b"nonsense")
    with pytest.raises(StorageError, match="these rows of batch 0 cannot be read"):
        list(spool.rows(spool.waiting()[0]))
    (tmp_path / "batches" / f"{0:020}.json").write_text("nonsense")
    with pytest.raises(StorageError, match="this batch cannot be read"):
        spool.waiting()
    (tmp_path / "spool.json").write_text('{"version": 7}')
    with pytest.raises(StorageError, match="version is 7"):
        Spool(tmp_path)
