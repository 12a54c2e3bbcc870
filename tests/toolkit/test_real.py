"""The toolkit on real groups, over sockets on loopback; what hub and simulator cannot show."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from antiphon import Node, Order, ProcessId
from antiphon.toolkit import Client, Diffusion, Gateway
from antiphon.toolkit.requests import FAILED
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK
from tests.toolkit.ledger import Ledger


class Place:
    """A node, and the ledger on its group."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        self.node = node
        self.ledger = ledger
        self.service = ledger.service

    def kill(self) -> None:
        """Without goodbye."""
        driver = self.node._driver
        assert driver is not None
        driver.stop("killed")

    async def close(self) -> None:
        await self.ledger.close()
        await self.node.close()


async def enter(name: str, contacts: Sequence[Place] = (), incarnation: int = 1) -> Place:
    node = Node(name, address=LOOPBACK, incarnation=incarnation, options=HASTY, linger_s=0.5)
    await node.start()
    if contacts:
        group = await node.join("g", contacts=[place.node.address for place in contacts])
    else:
        group = await node.join("g", members={name: node.address}, policy="primary")
    return Place(node, await Ledger(group).open())


@asynccontextmanager
async def places(names: str) -> AsyncIterator[list[Place]]:
    """The first founds, the others are let in and given the state."""
    entered: list[Place] = []
    try:
        for name in names:
            entered.append(await enter(name, entered))
        yield entered
    finally:
        await asyncio.gather(*(place.close() for place in entered))


@pytest.mark.parametrize("order", ["causal", "agreed", "safe"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_one_is_killed_and_comes_back_with_the_state(order: Order, victim: int) -> None:
    async def test() -> None:
        async with places("abc") as entered:
            await entered[0].service.send(b"one", order=order)
            for place in entered:
                await place.ledger.until(b"one")
            dead = entered.pop(victim)
            dead.kill()
            await entered[1].service.send(b"two", order=order)
            for place in entered:
                await place.ledger.until(b"one", b"two")
            entered.append(await enter(dead.node.process.name, entered, incarnation=2))
            await entered[2].ledger.until(b"one", b"two")
            await entered[2].service.send(b"three", order=order)
            for place in entered:
                await place.ledger.until(b"one", b"two", b"three")
            await dead.close()

    run(test)


def test_all_answer_and_one_that_dies_counts_as_failed() -> None:
    async def test() -> None:
        async with places("abc") as entered:
            for place in entered:
                await place.ledger.until()
            replies = await entered[1].service.ask(b"q", order="agreed")
            assert [(reply.process, reply.payload) for reply in replies] == [(ProcessId(name), b"1") for name in "abc"]
            dead = entered.pop(0)
            dead.kill()
            asking = [asyncio.create_task(entered[1].service.ask(b"%d" % turn, timeout_s=20)) for turn in range(10)]
            for turn, replies in enumerate(await asyncio.gather(*asking)):
                assert [reply.process.name for reply in replies][-2:] == ["b", "c"]
                assert all(reply.error == FAILED for reply in replies[:-2])
                assert [reply.payload for reply in replies[-2:]] == [b"%d" % (turn + 2)] * 2
            await dead.close()

    run(test)


def test_a_large_state_does_not_stop_the_group() -> None:
    async def test() -> None:
        async with places("ab") as entered:
            size, chunk = 64, bytes(1024 * 1024)
            gate = asyncio.Event()

            async def snapshot() -> AsyncIterator[bytes]:
                for turn in range(size):
                    if turn == size // 2:
                        await gate.wait()
                    yield chunk

            received = 0

            async def restore(chunks: AsyncIterator[bytes]) -> None:
                nonlocal received
                received = sum([len(chunk) async for chunk in chunks])

            entered[0].service._provider._snapshot = snapshot
            late = await enter("c", entered)
            late.service._joiner._restore = restore
            entered.append(late)
            # Half of it is on its way, the rest waits: meanwhile the members talk, and the joiner holds it back.
            for turn in range(200):
                await entered[turn % 2].service.send(b"%d" % turn, order="agreed")
            await until(lambda: all(len(place.ledger.lines) == 200 for place in entered[:2]))
            assert late.ledger.events == []
            gate.set()
            await until(lambda: len(late.ledger.lines) == 200)
            assert received == size * len(chunk)
            assert late.ledger.lines == entered[0].ledger.lines

    run(test)


def test_clients_outlive_their_gateway() -> None:
    async def test() -> None:
        async with places("abc") as entered:
            gateways = [Gateway(place.service) for place in entered]
            for gateway in gateways:
                await gateway.__aenter__()
            clients = [Client("g", [gateway.address for gateway in gateways]) for _ in range(20)]
            for client in clients:
                await client.__aenter__()
                await client.send(b"first")
            await asyncio.gather(*(client.flush() for client in clients))
            assert [gateway.clients for gateway in gateways] == [20, 0, 0]
            dead = entered.pop(0)
            for client in clients:
                await client.send(b"second")
            dead.kill()
            await gateways.pop(0).__aexit__(None, None, None)
            for client in clients:
                await client.send(b"third")
            await asyncio.gather(*(client.flush() for client in clients))
            await entered[1].service.diffuse(b"news", order="safe")
            for client in clients:
                event = await anext(client)
                assert isinstance(event, Diffusion)
                assert event.payload == b"news"
            for place in entered:
                lines = place.ledger.lines
                assert sorted(lines[:-1]) == sorted([b"first", b"second", b"third"] * 20)
            assert entered[0].service.view.members == (ProcessId("b"), ProcessId("c"))
            await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))
            for gateway in gateways:
                await gateway.__aexit__(None, None, None)
            await dead.close()

    run(test)
