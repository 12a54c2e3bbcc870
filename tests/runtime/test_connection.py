"""Clients of the sequencing service by `antiphon.connect`, on real sockets: any set of groups, one ordered stream, open
groups, limits and errors; the same for plain threads."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import antiphon
from antiphon import ConnectError, Connection, JoinError, LevelNotOfferedError, Message, Node, PublishError, UsageError
from antiphon.pipeline import reference
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK, free_address


@asynccontextmanager
async def peer() -> AsyncIterator[str]:
    """The address of a peer of the service."""
    async with Node("peer", address=free_address(), options=HASTY) as node:
        node.serve("sequencer")
        yield node.address


async def messages(client: Connection, count: int) -> list[tuple[str, bytes]]:
    """The next so many messages: group and payload."""
    read: list[tuple[str, bytes]] = []
    async for event in client:
        if isinstance(event, Message):
            read.append((event.group, event.payload))
            if len(read) == count:
                break
    return read


def test_a_client_reads_any_set_of_groups_as_one_ordered_stream(tmp_path: Path) -> None:
    async def test() -> None:
        async with peer() as address:
            clients = [await antiphon.connect(address, options=HASTY, history=tmp_path) for _ in range(3)]
            for client in clients:
                await client.subscribe("quotes", "news")
            for number in range(30):
                for client in clients:
                    await client.publish("quotes" if number % 2 else "news", b"%d" % number)
            heard = [await messages(client, 90) for client in clients]
            assert heard[0] == heard[1] == heard[2]
            assert clients[0].groups == ["quotes", "news"]
            assert await clients[0].unsubscribe("news")
            await clients[1].publish("news", b"late")
            await clients[1].flush()
            await clients[1].publish("quotes", b"later")
            assert await messages(clients[0], 1) == [("quotes", b"later")]
            await asyncio.gather(*(client.close(quiet=True) for client in clients))

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_whoever_is_in_no_group_publishes_to_any(tmp_path: Path) -> None:
    async def test() -> None:
        async with peer() as address:
            reader = await antiphon.connect(address, options=HASTY, history=tmp_path)
            await reader.subscribe("alarms", "doors")
            async with await antiphon.connect([address], name="sensor", options=HASTY, history=tmp_path) as sensor:
                for number in range(20):
                    await sensor.publish("alarms", b"%d" % number)
                    await sensor.publish("doors", b"%d" % number)
                await sensor.flush()
                assert sensor.groups == []
                told = await messages(reader, 40)
                assert told == [(group, b"%d" % number) for number in range(20) for group in ("alarms", "doors")]
                await sensor.subscribe("alarms")  # numbers go on, inside and outside
                await sensor.publish("alarms", b"inside")
                assert await sensor.unsubscribe("alarms")
                await sensor.publish("alarms", b"outside")
                await sensor.flush()
                assert await messages(reader, 2) == [("alarms", b"inside"), ("alarms", b"outside")]
            await reader.close(quiet=True)

    run(test)
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_errors_say_what_is_wrong_and_what_to_do() -> None:
    async def test() -> None:
        with pytest.raises(ConnectError, match=r"no peer .* answered at 127\.0\.0\.1:9 .*antiphon sequencer --address"):
            await antiphon.connect("127.0.0.1:9", timeout_s=0.3)
        with pytest.raises(UsageError, match="name the address of a peer"):
            await antiphon.connect([])
        async with peer() as address, await antiphon.connect(address, options=HASTY) as client:
            await client.publish("nowhere", b"?")
            with pytest.raises(PublishError, match="'nowhere' was refused: the sequencing service has no group"):
                await client.flush()
            with pytest.raises(LevelNotOfferedError):
                await client.publish("nowhere", b"?", order="safe")
            with pytest.raises(UsageError, match="has not subscribed to group 'nowhere'"):
                await client.unsubscribe("nowhere")
            await client.subscribe("somewhere")
            with pytest.raises(UsageError, match="has subscribed to group 'somewhere' already"):
                await client.subscribe("somewhere")
            await client.publish("nowhere", b"?")  # refused before, and once more
            with pytest.raises(PublishError):
                await client.flush()
            with pytest.raises(UsageError, match="bytes"):
                await client.publish("elsewhere", "text")  # type: ignore[arg-type]

    run(test)


def test_a_subscribe_that_is_refused_joins_nothing_and_harms_nothing() -> None:
    async def test() -> None:
        async with peer() as address, await antiphon.connect(address, options=HASTY) as client:
            with pytest.raises(UsageError, match="group 'g' is named twice"):
                await client.subscribe("g", "g")
            with pytest.raises(UsageError, match="cannot be the name of a group"):
                await client.subscribe("g", "g/h")
            with pytest.raises(UsageError, match="'here' is no position"):
                await client.subscribe("g", after={"g": "here"})
            assert client.groups == []
            await client.subscribe("g")
            with pytest.raises(UsageError, match="has subscribed to group 'g' already"):
                await client.subscribe("f", "g")
            assert client.groups == ["g"]
            await client.publish("g", b"1")
            assert await messages(client, 1) == [("g", b"1")]

    run(test)


def test_who_joins_a_group_twice_still_reads_it() -> None:
    async def test() -> None:
        async with peer() as address, Node("member", address=LOOPBACK, options=HASTY) as node:
            group = await node.join("g", stack="sequencer", contacts=[address])
            with pytest.raises(UsageError, match="is a member of group 'g' already"):
                await node.join("g", stack="sequencer", contacts=[address])
            await group.send(b"hello", order="agreed")
            async for event in node:
                if isinstance(event, Message):
                    assert event.payload == b"hello"
                    break

    run(test)


def test_an_option_of_the_service_that_cannot_be_meant_is_refused() -> None:
    async def test() -> None:
        options = antiphon.Options(of_stacks={"sequencer.balance_ms": -1})
        with pytest.raises(UsageError, match=r"'sequencer\.balance_ms' cannot be -1; give 0 or more"):
            async with Node("peer", address=LOOPBACK, options=options):
                pass

    run(test)


def test_a_client_whose_peer_is_gone_is_told_when_it_subscribes() -> None:
    async def test() -> None:
        async with peer() as address:
            client = await antiphon.connect(address, options=HASTY, linger_s=0.1)
        with pytest.raises(JoinError):
            await client.subscribe("g", timeout_s=0.3)
        await client.close()

    run(test)


def test_a_slow_reader_holds_its_senders_up_and_loses_nothing() -> None:
    async def test() -> None:
        async with peer() as address:
            reader = await antiphon.connect(address, options=HASTY, queue_messages_max=50)
            await reader.subscribe("g")
            async with await antiphon.connect(address, options=HASTY) as sender:
                sending = asyncio.create_task(sender.publish_many("g", [b"%d" % number for number in range(20_000)]))
                await asyncio.sleep(0.2)
                assert [payload for _, payload in await messages(reader, 20_000)] == [
                    b"%d" % number for number in range(20_000)
                ]
                await sending
            await reader.close()

    run(test)


def test_plain_threads_connect_too() -> None:
    address = free_address()
    ready, done = threading.Event(), threading.Event()

    def serve() -> None:
        async def run_peer() -> None:
            async with Node("peer", address=address, options=HASTY) as node:
                node.serve("sequencer")
                ready.set()
                await asyncio.to_thread(done.wait)

        asyncio.run(run_peer())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(10)
        with antiphon.sync.connect(address, options=HASTY) as one, antiphon.sync.connect(address) as other:
            one.subscribe("a", "b")
            other.publish("a", b"1")
            other.publish("b", b"2")
            other.flush()
            read = [event for event in (one.recv(timeout_s=5) for _ in range(4)) if isinstance(event, Message)]
            assert [(event.group, event.payload) for event in read] == [("a", b"1"), ("b", b"2")]
            assert one.groups == ["a", "b"]
            assert one.unsubscribe("a")
    finally:
        done.set()
        thread.join()


def test_a_node_and_a_client_share_groups() -> None:
    async def test() -> None:
        async with peer() as address, Node("member", address=LOOPBACK, options=HASTY) as node:
            group = await node.join("g", stack="sequencer", contacts=[address])
            async with await antiphon.connect(address, options=HASTY) as client:
                await client.subscribe("g")
                await group.send(b"hello", order="agreed")
                assert await messages(client, 1) == [("g", b"hello")]

    run(test)
