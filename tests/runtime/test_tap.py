"""What a run on real sockets leaves behind passes the audit, and says honestly how it ended."""

import asyncio
import shutil
from pathlib import Path

import pytest

from antiphon import Order
from antiphon.history.errors import HistoryWriteError
from antiphon.history.reader import HistoryFiles
from antiphon.history.recorder import Recorder
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.kernel.options import Options
from antiphon.pipeline import reference
from antiphon.runtime import Node, NodeFailedError
from tests.runtime.cluster import bad_network, cluster, read, run


def kinds(directory: Path) -> list[str]:
    return [row.kind for row in HistoryFiles.open(directory).read_rows()]


def endings(directory: Path) -> dict[str, str]:
    return {observation.process: observation.ending for observation in reference.audit(directory).observations}


@pytest.mark.parametrize("order", ["reliable", "fifo", "causal", "agreed", "safe"])
def test_a_quiet_run_is_kept(tmp_path: Path, order: Order) -> None:
    async def test() -> None:
        async with cluster(faults=bad_network(), history=tmp_path) as (nodes, groups):
            for number in range(20):
                for group in groups:
                    await group.send_many([b"%d" % number] * 10, order=order)
                    await asyncio.sleep(0)
                await asyncio.gather(*(read(group, 30 * 10) for group in groups if number % 10 == 9))
            assert all(await asyncio.gather(*(node.close(quiet=True) for node in nodes)))

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings
    promised = {"creation", "duplication", "content", "fifo", "causal", "total", "safe", "settled"}
    assert {finding.guarantee for finding in audit.findings} == promised
    assert [(member.sent, member.delivered, member.ending) for member in audit.observations] == [
        (200, 600, "quiet")
    ] * 3


def test_single_messages_are_recorded_as_they_are_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a"], history=tmp_path) as (nodes, groups):
            await groups[0].send_many([b"x"] * 10)
            await read(groups[0], 4)
            await groups[0].send(b"y")
            await asyncio.sleep(0)  # sends of one turn go together: let this one go
            await read(groups[0], 7)
            await nodes[0].close(quiet=True)

    run(test)
    # One row stands for a run, but a run that took long is cut: so these are counted message by message.
    events: list[tuple[str, int]] = []
    for row in HistoryFiles.open(tmp_path).read_rows():
        if row.kind in ("send", "deliver"):
            assert row.number is not None
            assert row.count is not None
            events += [(row.kind, number) for number in range(row.number, row.number + row.count)]
    sends = [("send", number) for number in range(1, 12)]
    deliveries = [("deliver", number) for number in range(1, 12)]
    assert events == [*sends[:10], *deliveries[:4], sends[10], *deliveries[4:]]


def test_quiet_is_not_recorded_over_unread_messages(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a", "b"], history=tmp_path) as (nodes, groups):
            await groups[0].send_many([b"x"] * 10)
            await read(groups[0], 10)
            await asyncio.gather(*(node.close(quiet=True) for node in nodes))

    run(test)
    assert endings(tmp_path) == {"a/1": "quiet", "b/1": "stopped: closed with 10 messages unread"}


def test_a_plain_close_does_not_claim_quiet(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a"], history=tmp_path):
            pass

    run(test)
    assert endings(tmp_path) == {"a/1": "stopped: closed"}


def test_receives_are_recorded_on_demand(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a", "b"], history=tmp_path, options=Options(record_receives=True)) as (_, groups):
            await groups[0].send_many([b"x"] * 10)
            await read(groups[1], 10)

    run(test)
    received = [row for row in HistoryFiles.open(tmp_path).read_rows() if row.kind == "receive"]
    assert [(row.process, row.sender, row.number, row.count) for row in received] == [("b", "a", 1, 10)]


def test_a_directory_with_this_log_in_it_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node("a", address="127.0.0.1:0", incarnation=1, history=tmp_path) as node:
            await node.join("g", members={"a": node.address}, policy="static")
        again = Node("a", address="127.0.0.1:0", incarnation=1, history=tmp_path)
        with pytest.raises(UsageError, match="already holds a log of a/1"):
            await again.start()
        async with Node("a", address=node.address, incarnation=2, history=tmp_path):
            pass

    run(test)


def test_rows_of_an_idle_group_come_to_disk_by_themselves(tmp_path: Path) -> None:
    """Nothing happens after the one delivery (tests/testing/test_disk.py says how soon), and the log is in use."""

    async def test() -> None:
        async with Node("a", address="127.0.0.1:0", incarnation=1, history=tmp_path) as node:
            group = await node.join("g", members={"a": node.address})
            await group.send(b"x")
            await read(group, 1)
            while not list(tmp_path.glob("*.parquet")) or "deliver" not in kinds(tmp_path):
                await asyncio.sleep(0.05)
            assert kinds(tmp_path) == ["start", "view", "send", "deliver"]
            with pytest.raises(UsageError, match="a/1"):
                await Node("a", address="127.0.0.1:0", incarnation=1, history=tmp_path).start()

    run(test)


def test_a_history_that_cannot_be_written_fails_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise HistoryWriteError(tmp_path / "file", "no space left")

    async def test() -> None:
        async with cluster(["a"], history=tmp_path) as (nodes, groups):
            await groups[0].send(b"x")
            await asyncio.sleep(0)
            monkeypatch.setattr(Recorder, "_before_row", broken)
            with pytest.raises(NodeFailedError, match="no space left"):
                await read(groups[0], 1)
            with pytest.raises(NodeFailedError):
                await groups[0].send(b"x")
            assert not await nodes[0].close()

    run(test)


def test_a_directory_that_vanishes_is_told_at_the_close(tmp_path: Path) -> None:
    async def test() -> None:
        directory = tmp_path / "history"
        node = Node("a", address="127.0.0.1:0", incarnation=1, history=directory)
        await node.start()
        group = await node.join("g", members={"a": node.address}, policy="static")
        await group.send(b"x")
        shutil.rmtree(directory)
        with pytest.raises(HistoryWriteError, match="could not be written"):
            await node.close()
        with pytest.raises(ClosedError):
            await group.send(b"x")

    run(test)
