"""Nodes on real sockets: everything arrives, in the promised order, whatever the network does."""

import asyncio
import json
import socket
from collections import Counter
from random import Random

import pytest

from antiphon import Order
from antiphon.faults import Loss
from antiphon.kernel.options import Options
from antiphon.runtime import Batch, Group, Message, NodeFailedError, ViewChange
from antiphon.runtime.events import BatchEvent
from tests.runtime.cluster import bad_network, cluster, read, run, stalled, until


def test_first_event_is_the_view() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            members = tuple(node.process for node in nodes)
            for group in groups:
                event = await anext(aiter(group))
                assert isinstance(event, ViewChange)
                assert event.view.members == members == event.joined
                assert (event.left, event.failed) == ((), ())

    run(test)


@pytest.mark.parametrize("order", ["reliable", "fifo", "causal", "agreed", "safe"])
def test_every_member_gets_every_message_in_its_senders_order(order: Order) -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            for group in groups:
                for number in range(1, 101):
                    await group.send(f"{number}".encode(), order=order)
            for group in groups:
                messages = await read(group, 300)
                assert {message.order for message in messages} == {order}
                assert {message.group for message in messages} == {"g"}
                for node in nodes:
                    mine = [message for message in messages if message.sender == node.process]
                    if order == "reliable":
                        mine.sort(key=lambda message: message.number)
                    assert [message.number for message in mine] == list(range(1, 101))
                    assert [message.payload for message in mine] == [f"{number}".encode() for number in range(1, 101)]

    run(test)


class Chatter:
    """Sends with each message what it had delivered before, and checks this of all that it delivers."""

    def __init__(self, group: Group, name: str, count: int) -> None:
        self.group = group
        self.name = name
        self.count = count
        self.seen: Counter[str] = Counter()
        self.progress = asyncio.Event()

    async def talk(self, random: Random) -> None:
        for _ in range(self.count):
            await self.group.send(json.dumps(self.seen).encode(), order="causal")
            if random.random() < 0.3:  # now and then, answer to something new
                self.progress.clear()
                await self.progress.wait()

    async def listen(self, total: int) -> None:
        while self.seen.total() < total:
            for message in await read(self.group, 1):
                for sender, count in json.loads(message.payload).items():
                    assert self.seen[sender] >= count, f"{self.name} delivered {message} before {sender}#{count}"
                self.seen[message.sender.name] += 1
                assert message.number == self.seen[message.sender.name]
                self.progress.set()


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_causal_order_on_a_bad_network(loss: float) -> None:
    async def test() -> None:
        async with cluster(faults=bad_network(loss)) as (nodes, groups):
            chatters = [Chatter(group, node.process.name, 200) for node, group in zip(nodes, groups, strict=True)]
            async with asyncio.TaskGroup() as tasks:
                for seed, chatter in enumerate(chatters):
                    tasks.create_task(chatter.talk(Random(seed)))
                    tasks.create_task(chatter.listen(600))
            if loss:
                assert sum(node.statistics()["resends"] for node in nodes) > 0

    run(test)


def test_reliable_messages_all_arrive_once_on_a_bad_network() -> None:
    async def test() -> None:
        async with cluster(faults=bad_network()) as (_, groups):
            for group in groups:
                await group.send_many([b"%d" % number for number in range(2000)], order="reliable")
            for group in groups:
                messages = await read(group, 6000)
                assert len({(message.sender, message.number) for message in messages}) == 6000

    run(test)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_sixteen_mebibytes_in_one_message(loss: float) -> None:
    payload = Random(1).randbytes(16 * 1024 * 1024)

    async def test() -> None:
        async with cluster(faults=[Loss(loss)] if loss else []) as (_, groups):
            await groups[0].send(b"before")
            await groups[0].send(payload)
            await groups[0].send(b"after")
            for group in groups:
                assert [message.payload for message in await read(group, 3)] == [b"before", payload, b"after"]

    run(test)


def test_batches_hold_the_same_stream() -> None:
    async def test() -> None:
        async with cluster() as (_, groups):
            payloads = [b"%d" % number for number in range(5000)]
            await groups[0].send_many(payloads)
            for group in groups:
                received: list[bytes] = []
                async for event in group.batches():
                    if isinstance(event, Batch):
                        assert event.number == len(received) + 1
                        received += event.payloads
                    if len(received) == 5000:
                        break
                assert received == payloads

    run(test)


def test_sends_of_one_turn_share_packets_but_for_the_first_which_goes_at_once() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            for _ in range(100):
                await groups[0].send(b"x" * 10)
            await read(groups[1], 100)
            assert nodes[0].statistics()["packets_sent"] == 2

    run(test)


def test_a_slow_reader_makes_the_sender_wait_and_loses_nothing() -> None:
    options = Options(pending_bytes_max=16 * 1024, window_packets=16)

    async def test() -> None:
        async with cluster(options=options, queue_messages_max=100) as (nodes, groups):
            total = 10_000
            sent = 0

            async def send() -> None:
                nonlocal sent
                for number in range(total):
                    await groups[0].send(b"%08d" % number * 8)
                    sent += 1

            sending = asyncio.create_task(send())
            reading = [asyncio.create_task(read(group, total)) for group in groups[:2]]
            # Member c does not read. Its queue fills, then the sender's window, then what the sender may leave pending.
            assert await stalled(lambda: sent, total)
            assert nodes[0].statistics()["pending_bytes"] > options.pending_bytes_max // 2
            assert 100 <= groups[2].unread < 1000
            reading.append(asyncio.create_task(read(groups[2], total)))
            await sending
            for messages in await asyncio.gather(*reading):
                assert [message.number for message in messages] == list(range(1, total + 1))

    run(test)


def test_close_waits_until_everyone_has_everything() -> None:
    async def test() -> None:
        async with cluster(faults=bad_network(0.3)) as (nodes, groups):
            await groups[0].send_many([b"x" * 1000] * 300)
            assert await nodes[0].close()
            # The sender is gone, and was not asked for anything since: the others have it all.
            for group in groups[1:]:
                assert len(await read(group, 300)) == 300

    run(test)


def test_close_gives_up_after_its_linger() -> None:
    async def test() -> None:
        async with cluster(linger_s=0.05) as (nodes, groups):
            await nodes[1].close()
            await groups[0].send(b"x")
            assert not await groups[0].close()

    run(test)


def test_a_closed_group_does_not_hold_up_the_others() -> None:
    async def test() -> None:
        async with cluster(options=Options(window_packets=16), queue_messages_max=10) as (nodes, groups):
            await groups[0].send_many([b"x" * 1000] * 100)
            await until(lambda: groups[2].unread >= 10)
            assert await groups[2].close()
            for messages in await asyncio.gather(read(groups[0], 100), read(groups[1], 100)):
                assert len(messages) == 100
            await until(lambda: groups[2].unread == 100)
            assert nodes[2].statistics()["messages_unread"] == 100

    run(test)


def test_garbage_is_counted_and_changes_nothing() -> None:
    async def test() -> None:
        random = Random(7)
        async with cluster() as (nodes, groups):
            host, port = nodes[1].address.split(":")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(50):
                    for _ in range(10):
                        stranger.sendto(random.randbytes(random.randrange(2000)), (host, int(port)))
                    await groups[0].send(b"sense")
                    await groups[1].send(b"sense")
                    assert {message.payload for message in await read(groups[2], 2)} == {b"sense"}
                messages = await read(groups[1], 100)
                assert {message.payload for message in messages} == {b"sense"}
            await until(lambda: _dropped(nodes[1].statistics()) == 500)

    run(test)


def _dropped(statistics: dict[str, int]) -> int:
    reasons = sum(count for name, count in statistics.items() if name.startswith("dropped_"))
    # Status packets of peers may have come before the group was joined here.
    return reasons - statistics.get("dropped_group", 0) + statistics["datagrams_oversized"]


def test_two_groups_of_one_node_are_apart() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            members = {node.process.name: node.address for node in nodes[:2]}
            pair = [await node.join("pair", members=members, policy="static") for node in nodes[:2]]
            await pair[0].send(b"pair")
            await groups[0].send(b"all")
            assert [message.payload for message in await read(pair[1], 1)] == [b"pair"]
            for group in groups:
                (message,) = await read(group, 1)
                assert isinstance(message, Message)
                assert (message.payload, message.number) == (b"all", 1)

    run(test)


def test_listeners_answer_at_once_and_in_order() -> None:
    async def test() -> None:
        async with cluster() as (_, groups):
            answers: list[bytes] = []
            done = asyncio.Event()

            def answer(event: BatchEvent) -> None:
                if isinstance(event, Batch):
                    for payload in event.payloads:
                        if payload.startswith(b"ask"):
                            assert groups[1].send_now(b"answer" + payload[3:])

            def hear(event: BatchEvent) -> None:
                if isinstance(event, Batch):
                    answers.extend(payload for payload in event.payloads if payload.startswith(b"answer"))
                    if len(answers) == 100:
                        done.set()

            groups[1].listen(answer)
            groups[0].listen(hear)
            for number in range(100):
                assert groups[0].send_now(b"ask%d" % number)
            await asyncio.wait_for(done.wait(), 10)
            assert answers == [b"answer%d" % number for number in range(100)]

    run(test)


def test_what_a_listener_raises_fails_its_node_alone() -> None:
    def fail(event: BatchEvent) -> None:
        if isinstance(event, Batch):
            raise ValueError("a mistake of the listener")

    async def test() -> None:
        async with cluster(linger_s=0.05) as (_, groups):
            groups[0].listen(fail)
            await groups[1].send(b"x")
            await read(groups[1], 1)
            await until(lambda: groups[0].is_over)
            with pytest.raises(NodeFailedError, match="a mistake of the listener"):
                await groups[0].send(b"y")
            await groups[1].send(b"z")

    run(test)
