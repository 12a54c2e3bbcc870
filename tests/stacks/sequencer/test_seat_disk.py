"""The log of a seat on disk, on real sockets: a peer that is started again goes on where it was."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import antiphon
from antiphon import Message, Node, _build
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer import seat_disk
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, free_address

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


def test_a_peer_that_was_started_again_announces_that_it_has_caught_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "antiphon")

    def announced(name: str, what: str) -> list[str]:
        return [line for line in caplog.messages if f" process={name}~" in line and f" name={what} " in line]

    async def until(name: str, what: str) -> None:
        while not announced(name, what):
            await asyncio.sleep(0.05)

    async def test() -> None:
        options = replace(HASTY, of_stacks={"sequencer.replicas": 1})
        addresses = {name: free_address() for name in ("s1", "s2", "s3")}

        async def start(name: str) -> Node:
            node = Node(name, address=addresses[name], options=options)
            await node.start()
            node.serve("sequencer", peers=[address for address in addresses.values() if address != addresses[name]])
            return node

        nodes = [await start(name) for name in addresses]
        for name in addresses:
            await until(name, "peer-caught-up")
        assert len(announced("s1", "seat-caught-up")) == 3
        await nodes[2].close()
        client = await antiphon.connect(addresses["s1"], options=options)
        await client.subscribe("g")
        caplog.clear()
        nodes[2] = await start("s3")
        await until("s3", "peer-caught-up")
        await client.close()
        for node in nodes:
            await node.close()

    run(test)


async def start_peer(address: str, addresses: list[str], storage: Path) -> asyncio.subprocess.Process:
    others = [other for other in addresses if other != address]
    where = str(storage / address.replace(":", "-"))
    module = "tests.stacks.sequencer.seat_peer"
    return await asyncio.create_subprocess_exec(sys.executable, "-m", module, address, where, *others)


@pytest.mark.processes
def test_all_replicated_peers_are_killed_and_nothing_that_was_told_is_lost(tmp_path: Path) -> None:
    async def test() -> None:
        addresses = [free_address() for _ in range(3)]
        peers = [await start_peer(address, addresses, tmp_path) for address in addresses]
        try:
            reader = await antiphon.connect(addresses, timeout_s=60)
            await reader.subscribe("g")
            sender = await antiphon.connect(addresses, timeout_s=60)
            await sender.publish_many("g", [b"%d" % number for number in range(300)])
            await sender.flush(timeout_s=60)
            for peer in peers:
                peer.kill()
                await peer.wait()
            peers = [await start_peer(address, addresses, tmp_path) for address in addresses]
            await sender.publish_many("g", [b"%d" % number for number in range(300, 400)])
            assert await handed(reader, 400) == [b"%d" % number for number in range(400)]
            await sender.close()
            await reader.close()
        finally:
            for peer in peers:
                if peer.returncode is None:
                    peer.kill()
                    await peer.wait()

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


@pytest.mark.skipif(_build.is_compiled(), reason="patches the plain-Python core")
def test_a_long_log_is_compacted_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_disk, "COMPACT_BYTES", 500)
    test_members_go_on_with_a_peer_that_was_started_again(tmp_path)
    logs = list(tmp_path.rglob("*.log"))
    assert 0 < sum(log.stat().st_size for log in logs) < 2_000  # 5,000 if it is not compacted
