"""The log of a seat on disk, on real sockets: a peer that is started again goes on where it was."""

import asyncio
from pathlib import Path

import pytest

import antiphon
from antiphon import Message, Node, _build
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer import seat_disk
from tests.runtime.cluster import run
from tests.runtime.places import HASTY
from tests.stacks.sequencer.test_stack_runtime import free_address

DURABLE = Options(
    silence_ns_min=HASTY.silence_ns_min,
    silence_ns_max=10 * HASTY.silence_ns_max,
    heartbeat_interval_ns=HASTY.heartbeat_interval_ns,
    of_stacks={"sequencer.durable": 1},
)


async def handed(client: antiphon.Connection, count: int) -> list[bytes]:
    found: list[bytes] = []
    async for event in client:
        if isinstance(event, Message):
            found.append(event.payload)
            if len(found) == count:
                break
    return found


async def life(address: str, storage: Path, ended: asyncio.Event) -> None:
    """A peer until it is told to end: by a crash, as far as clients can tell."""
    node = Node("peer", address=address, options=DURABLE, storage=storage)
    await node.start()
    node.serve("sequencer")
    await ended.wait()
    driver = node._driver
    assert driver is not None
    assert driver.devices is not None
    await driver.devices.close()
    driver.stop("killed")


def test_members_go_on_with_a_peer_that_was_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        address = free_address()
        ended = asyncio.Event()
        first = asyncio.create_task(life(address, tmp_path, ended))
        clients = [await antiphon.connect(address, options=DURABLE) for _ in range(2)]
        for client in clients:
            await client.subscribe("g")
        await clients[0].publish_many("g", [b"%d" % number for number in range(500)])
        assert await handed(clients[1], 500) == [b"%d" % number for number in range(500)]
        ended.set()
        await first
        again = asyncio.Event()
        second = asyncio.create_task(life(address, tmp_path, again))
        await clients[1].publish_many("g", [b"%d" % number for number in range(500, 600)])
        assert await handed(clients[0], 600) == [b"%d" % number for number in range(600)]
        assert await handed(clients[1], 100) == [b"%d" % number for number in range(500, 600)]
        for client in clients:
            await client.close()
        again.set()
        await second

    run(test)


@pytest.mark.skipif(_build.is_compiled(), reason="patches the plain-Python core")
def test_a_long_log_is_compacted_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_disk, "COMPACT_BYTES", 4_000)
    test_members_go_on_with_a_peer_that_was_started_again(tmp_path)
    logs = list(tmp_path.rglob("*.log"))
    assert 0 < sum(log.stat().st_size for log in logs) < 20_000
