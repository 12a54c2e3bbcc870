"""The disk of a simulated host: kept when a program is killed; after a power loss, as far as it was synced."""

import asyncio
import os
from typing import Final

import pytest

import antiphon
from antiphon.history.durable import write_durably
from antiphon.history.reader import HistoryFiles
from antiphon.kernel.calls import Store
from antiphon.runtime.stores import carry_out_batch
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.testing.fault_plan import SECOND_NS, draw_plan

DELAY: Final = draw_plan("none", ("a",), 1, 1).delay


def plan(power: bool) -> FaultPlan:
    kill = KillProgram("a", at_ns=2 * SECOND_NS, power=power, restart_ns=SECOND_NS // 10)
    return FaultPlan(DELAY, [kill], heal_ns=3 * SECOND_NS)


async def write(host: Host) -> dict[str, bytes] | None:
    """The first start writes in several ways; the second returns what it finds."""
    disk = host.disk
    if host.starts == 1:
        (disk / "unsynced").write_bytes(b"1")
        write_durably(disk / "durable", b"1")
        (disk / "durable").write_bytes(b"22")  # in place, and not synced
        with (disk / "nameless").open("wb") as file:
            file.write(b"1")
            file.flush()
            os.fsync(file.fileno())  # its bytes, but not its name
        carry_out_batch(disk / "logs", [Store("log", [b"one", b"two"], 1)])
        await asyncio.sleep(100)
    return {str(path.relative_to(disk)): path.read_bytes() for path in disk.rglob("*") if path.is_file()}


@pytest.mark.parametrize("power", [True, False])
def test_a_kill_keeps_what_was_written_and_a_power_loss_what_was_synced(power: bool) -> None:
    found = simulate({"a": write}, seed=1, faults=plan(power)).returned["a"]
    assert found.pop("logs/log.log").endswith(b"two")
    if power:
        assert found == {"unsynced": b"1", "durable": b"22", "nameless": b"1"}
    else:
        assert found == {"unsynced": b"", "durable": b"1"}  # the first had its name synced with that of the second


async def record(host: Host) -> list[str]:
    """Records to disk; the second start returns what is there of the first."""
    if host.starts == 2:
        directory = host.disk / "history"
        return [row.kind for row in HistoryFiles.open(directory).read_rows()] if directory.exists() else []
    async with antiphon.Node("a", address=host.at(), incarnation=1, history=host.disk / "history", run="run") as node:
        group = await node.join("group", members={"a": host.at()})
        for number in range(100):
            await group.send(b"%d" % number)
            await asyncio.sleep(0.1)
    return []


def test_the_recorder_writes_in_virtual_time() -> None:
    kinds = simulate({"a": record}, seed=1, faults=plan(power=True)).returned["a"]
    assert kinds[:2] == ["start", "view"]
    assert 10 <= kinds.count("send") <= 20  # one each 0.1 s for 2 s, but for what was not written yet
    assert simulate({"a": record}, seed=1, faults=plan(power=False)).returned["a"] == []


def test_syncing_is_as_it_was_after_a_simulation() -> None:
    before = os.fsync
    simulate({"a": write}, seed=1, faults=plan(power=True))
    assert os.fsync is before


async def record_and_rest(host: Host) -> dict[str, float]:
    """Send and read one message, then do nothing; when each kind of row was first seen on disk, counted from there."""
    directory = host.disk / "history"
    loop = asyncio.get_running_loop()
    seen: dict[str, float] = {}
    async with antiphon.Node("a", address=host.at(), incarnation=1, history=directory, run="run") as node:
        group = await node.join("group", members={"a": host.at()})
        await group.send(b"one")
        async for event in group:
            if isinstance(event, antiphon.Message):
                break
        read_s = loop.time()
        while loop.time() < read_s + 1.5:
            for row in HistoryFiles.open(directory).read_rows() if list(directory.glob("*.parquet")) else ():
                seen.setdefault(row.kind, loop.time() - read_s)
            await asyncio.sleep(0.1)
    return seen


def test_rows_of_an_idle_group_are_on_disk_within_a_second() -> None:
    seen = simulate({"a": record_and_rest}, seed=1, faults="none").returned["a"]
    assert {kind for kind, after_s in seen.items() if after_s <= 1.0} == {"start", "view", "send", "deliver"}
