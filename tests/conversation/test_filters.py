"""Filters over real conversations on loopback: ordered broadcast, circuits, and sends until they are stable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import antiphon
from antiphon.conversation import accept_conversation, open_conversation
from antiphon.parts.message_graph import GraphNode as Handle
from antiphon.parts.message_graph import Mid
from bench.peers.driver import free_ports

LIMIT_S = 30.0


@asynccontextmanager
async def nodes(count: int) -> AsyncIterator[tuple[list[antiphon.Node], dict[str, str]]]:
    """So many nodes, and who they are."""
    addresses = {f"p{rank}": f"127.0.0.1:{port}" for rank, port in enumerate(free_ports(count))}
    async with AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
        made = [
            await stack.enter_async_context(antiphon.Node(name, address=address, incarnation=1))
            for name, address in addresses.items()
        ]
        yield made, {name: address for name, address in addresses.items() if name != "p0"}


class Heard:
    """What one participant was handed."""

    def __init__(self) -> None:
        self.order: list[tuple[Mid, bytes]] = []

    def take(self, one: tuple[Handle, bytes]) -> None:
        self.order.append((one[0].mid(), one[1]))


def test_an_ordered_broadcast_has_one_order_everywhere() -> None:
    heard = [Heard() for _ in range(3)]

    async def take_part(rank: int, node: antiphon.Node, others: dict[str, str]) -> None:
        if rank == 0:
            conversation = await open_conversation(node, others)
        else:
            conversation = await accept_conversation(node)
        async with antiphon.conversation.ordered_broadcast(conversation, heard[rank].take) as broadcast:
            for number in range(100):
                await broadcast.room()
                broadcast.offer(b"%d" % number)
                if number % 10 == rank:
                    await asyncio.sleep(0)
            while len(heard[rank].order) < 300:
                await broadcast.changed()
            await broadcast.settled()
            await everybody.wait()

    everybody = asyncio.Barrier(3)

    async def main() -> None:
        async with nodes(3) as (made, others):
            await asyncio.gather(*[take_part(rank, node, others) for rank, node in enumerate(made)])

    asyncio.run(main())
    assert heard[0].order == heard[1].order == heard[2].order
    for sender in range(3):
        own = [int(payload) for mid, payload in heard[0].order if mid[0] == sender]
        assert own == list(range(100))


def test_a_circuit_carries_both_streams() -> None:
    heard = [Heard(), Heard()]
    everybody = asyncio.Barrier(2)

    async def take_part(rank: int, conversation: antiphon.conversation.Conversation) -> None:
        async with antiphon.conversation.virtual_circuit(
            conversation, heard[rank].take, antiphon.conversation.FilterOptions(window=4)
        ) as circuit:
            for number in range(200):
                await circuit.room()
                circuit.offer(b"%d" % number)
            await circuit.settled()
            await everybody.wait()

    async def main() -> None:
        async with nodes(2) as (made, others):
            one = await open_conversation(made[0], others)
            accepting = asyncio.create_task(accept_conversation(made[1]))
            begun = asyncio.create_task(take_part(0, one))
            await take_part(1, await accepting)
            await begun

    asyncio.run(main())
    for each in heard:
        assert [int(payload) for _, payload in each.order] == list(range(200))


def test_a_stable_send_tells_whether_all_have_it() -> None:
    async def main() -> None:
        async with nodes(3) as (made, others):
            one = await open_conversation(made[0], others)
            sending = asyncio.create_task(antiphon.conversation.send_stable(one, b"?", tries=50, timeout_s=0.1))
            answering = [await accept_conversation(node) for node in made[1:]]
            for other in answering:
                assert (await other.receive())[1] == b"?"
            await answering[0].send(b"one")
            await answering[1].send(b"two")
            handle, succeeded, heard = await sending
            assert succeeded
            assert one.stable(handle)
            assert sorted(payload for _, payload in heard) == [b"one", b"two"]

    asyncio.run(main())


@pytest.mark.parametrize("quorum", [True, False])
def test_without_one_of_three_there_is_a_quorum_but_not_all(quorum: bool) -> None:
    async def main() -> None:
        async with nodes(3) as (made, others):
            one = await open_conversation(made[0], others)
            sending = asyncio.create_task(
                antiphon.conversation.send_stable(one, b"?", tries=3, timeout_s=0.05, quorum=quorum)
            )
            other = await accept_conversation(made[1])
            await other.receive()
            await other.send(b"here")
            _, succeeded, _ = await sending
            assert succeeded == quorum

    asyncio.run(main())


def test_a_closed_filter_says_so() -> None:
    async def main() -> None:
        async with nodes(2) as (made, others):
            one = await open_conversation(made[0], others)
            async with antiphon.conversation.ordered_broadcast(one, Heard().take) as broadcast:
                broadcast.offer(b"x")
                with pytest.raises(antiphon.conversation.ConversationTimeoutError):
                    await broadcast.settled(timeout_s=0.05)
            with pytest.raises(antiphon.ClosedError):
                broadcast.offer(b"y")
            with pytest.raises(antiphon.ClosedError):
                await broadcast.room()

    asyncio.run(main())


def test_the_end_of_the_conversation_reaches_who_waits() -> None:
    async def main() -> None:
        async with nodes(2) as (made, others):
            one = await open_conversation(made[0], others)
            async with antiphon.conversation.ordered_broadcast(one, Heard().take) as broadcast:
                broadcast.offer(b"x")
                waiting = asyncio.create_task(broadcast.settled())
                await asyncio.sleep(0)
                await one.close()
                with pytest.raises(antiphon.ClosedError):
                    await waiting

    asyncio.run(main())
