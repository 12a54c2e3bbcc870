"""The sequencing service in virtual time, by the public API: what is refused holds nothing up, a peer that slept
excludes nobody, and clients leave a peer that is silent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from typing import Final

import pytest

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.testing import FaultPlan, Host, KillProgram, NetworkFault, PauseProgram, simulate

SECOND_NS: Final = 1_000_000_000


def peers_of(host: Host) -> list[str]:
    return [address for name, address in host.members().items() if name.startswith("p")]


def peer(of_stacks: Mapping[str, int] | None = None) -> Callable[[Host], Awaitable[None]]:
    """A peer of the service, with all hosts whose names begin like its own."""

    async def serve(host: Host) -> None:
        options = antiphon.Options(of_stacks=dict(of_stacks or {}))
        async with antiphon.Node(host.name, address=host.at(), options=options) as node:
            node.serve("sequencer", peers=[address for address in peers_of(host) if address != host.at()])
            await host.ending.wait()

    return serve


@pytest.mark.parametrize("subscribes", [False, True])
@pytest.mark.parametrize(("peers", "replicas"), [(2, 0), (3, 1)])
def test_a_refused_message_holds_up_nothing_that_was_published_after_it(
    peers: int, replicas: int, subscribes: bool
) -> None:
    """The group that refused may even be created meanwhile, by the same client."""

    async def read(host: Host) -> list[bytes]:
        heard: list[bytes] = []
        async with await antiphon.connect(peers_of(host), name=host.name) as client:
            await client.subscribe("quotes")
            async for event in client:
                if isinstance(event, antiphon.Message):
                    heard.append(event.payload)
                    if len(heard) == 3:
                        break
        return heard

    async def write(host: Host) -> list[str]:
        told: list[str] = []
        async with await antiphon.connect(peers_of(host)[::-1], name=host.name) as client:
            await asyncio.sleep(0.5)
            await client.publish("nowhere", b"?")
            await client.publish("quotes", b"1")
            if subscribes:
                await client.subscribe("nowhere")
            for payload in (b"2", b"3"):
                await client.publish("quotes", payload)
                try:
                    await client.flush(timeout_s=3)
                    told.append("ok")
                except antiphon.PublishError:
                    told.append("refused")
            await host.ending.wait()
        return told

    programs = {f"p{number}": peer({"sequencer.replicas": replicas}) for number in range(peers)}
    result = simulate({**programs, "r": read, "w": write}, seed=1, faults="none", active_s=15)
    assert result.kept, result.report("")
    assert result.returned["r"] == [b"1", b"2", b"3"]
    assert result.returned["w"] == ["refused", "ok"]


async def publish_steadily(host: Host) -> int:
    """Publishes to two groups in turn until the network is calm; how many messages."""
    count = 0
    async with await antiphon.connect(peers_of(host), name=host.name) as client:
        await asyncio.sleep(0.7)
        while not host.calm.is_set():
            await client.publish("ab"[count % 2], b"%d" % count)
            count += 1
            await asyncio.sleep(0.1)
        await client.flush(timeout_s=20)
        await host.ending.wait()
    return count


async def read_all(host: Host) -> list[tuple[float, bytes]]:
    """Reads both groups to the end: when what was read. To be excluded is an error."""
    read: list[tuple[float, bytes]] = []
    async with await antiphon.connect(peers_of(host), name=host.name) as client:
        await client.subscribe("a", "b")

        async def listen() -> None:
            async for event in client:
                if isinstance(event, antiphon.Message):
                    read.append((asyncio.get_running_loop().time(), event.payload))
                elif isinstance(event, antiphon.Excluded):
                    raise antiphon.ExcludedError(event.group, client.process)

        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(listen())
            await host.ending.wait()
            listening.cancel()
    return read


def longest_gap(peers: int, replicas: int, faults: list[PauseProgram | NetworkFault]) -> float:
    """Between two messages that came to a reader, in seconds, through faults of 12 seconds. All come, in order."""
    plan = FaultPlan(Delay(200_000, 300_000), faults, 16 * SECOND_NS)
    programs = {f"p{number}": peer({"sequencer.replicas": replicas}) for number in range(peers)}
    result = simulate({**programs, "r": read_all, "w": publish_steadily}, seed=1, faults=plan, active_s=16)
    assert result.kept, result.report("")
    read, count = result.returned["r"], result.returned["w"]
    assert isinstance(read, list)
    assert isinstance(count, int)
    assert [payload for _, payload in read] == [b"%d" % number for number in range(count)]
    times: list[float] = [when for when, _ in read]
    return max(later - earlier for earlier, later in pairwise(times))


def test_a_peer_that_slept_excludes_none_of_its_clients() -> None:
    assert 11.5 < longest_gap(1, 0, [PauseProgram("p0", 2 * SECOND_NS, 12 * SECOND_NS)]) < 13


@pytest.mark.parametrize("cut", ["peer asleep", "peer cut off"])
def test_clients_go_on_elsewhere_when_their_peer_is_silent(cut: str) -> None:
    """A second of silence, and another one after it was asked."""
    alone, others = frozenset({"p0"}), frozenset({"p1", "p2", "r", "w"})
    span = (2 * SECOND_NS, 14 * SECOND_NS)
    parted = [NetworkFault(Partition(alone, others, *span)), NetworkFault(Partition(others, alone, *span))]
    paused = [PauseProgram("p0", 2 * SECOND_NS, 12 * SECOND_NS)]
    assert longest_gap(3, 1, [*paused] if cut == "peer asleep" else [*parted]) < 3


def test_flush_does_not_wait_long_for_a_client_that_failed_together_with_its_peer() -> None:
    """The next leader gives up clients that do not come in the time that a live one may need: about five seconds with
    one replica. It took ten."""

    async def read(client: antiphon.Connection) -> None:
        async for _ in client:
            pass

    async def listen(host: Host) -> None:
        async with await antiphon.connect(peers_of(host), name=host.name) as client:
            await client.subscribe("a")
            await read(client)

    async def publish_and_flush(host: Host) -> float:
        async with await antiphon.connect(peers_of(host), name=host.name) as client, asyncio.TaskGroup() as tasks:
            await client.subscribe("a")
            reading = tasks.create_task(read(client))
            await asyncio.sleep(2.2)  # the others have just failed
            started = asyncio.get_running_loop().time()
            await client.publish("a", b"1")
            await client.flush(timeout_s=30)
            took = asyncio.get_running_loop().time() - started
            await host.ending.wait()
            reading.cancel()
        return took

    kills = [KillProgram("p0", 2 * SECOND_NS), KillProgram("r", 2 * SECOND_NS)]
    plan = FaultPlan(Delay(200_000, 300_000), kills, 3 * SECOND_NS)
    programs = {f"p{number}": peer({"sequencer.replicas": 1}) for number in range(3)}
    result = simulate({**programs, "r": listen, "w": publish_and_flush}, seed=1, faults=plan, active_s=20)
    assert result.kept, result.report("")
    took = result.returned["w"]
    assert isinstance(took, float)
    assert 1 < took < 6.5
