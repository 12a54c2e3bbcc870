"""Clients that choose a server, replies to one client, and causal order over two services."""

import asyncio

import pytest

from antiphon import ProcessId
from antiphon.toolkit import (
    Client,
    ClientDomain,
    ClientMessage,
    ClientReply,
    Diffusion,
    ServerGoneError,
    UnansweredError,
    gateway,
    wire,
)
from antiphon.toolkit.frames import read_frame
from tests.runtime.cluster import run, until
from tests.toolkit.hub import Hub
from tests.toolkit.ledger import Ledger
from tests.toolkit.test_clients import Server, client_of, converse, servers


async def last_message(server: Server) -> ClientMessage:
    """The first message of a client that this server's application reads."""
    await until(lambda: any(isinstance(event, ClientMessage) for event in server.ledger.events))
    return next(event for event in server.ledger.events if isinstance(event, ClientMessage))


def test_a_reply_reaches_its_client_and_no_other() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(opened[0]) as one, client_of(opened[1]) as other:
            asking = asyncio.create_task(one.request(b"how many?"))
            message = await last_message(opened[1])
            await opened[1].service.reply(message, b"42")  # by a member that is not the client's gateway
            reply = await asking
            assert (reply.payload, reply.sender, reply.request) == (b"42", ProcessId("b"), message.number)
            await opened[1].service.reply(message, b"43")
            await opened[1].service.diffuse(b"news")
            second, third = await anext(one), await anext(one)
            assert isinstance(second, ClientReply)
            assert (second.payload, second.request) == (b"43", message.number)
            assert isinstance(third, Diffusion)
            assert await anext(other) == third
            assert all(b"4" not in line for server in opened for line in server.ledger.lines)

    run(test)


def test_only_the_chosen_server_acts_on_a_request() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "abc") as opened, client_of(opened[0]) as client:
            await client.send(b"hello")
            await client.flush()
            assert client.servers == tuple(map(ProcessId, "abc"))
            asking = asyncio.create_task(client.request(b"for b", to=ProcessId("b")))
            await opened[1].ledger.until(b"hello", b"for b")
            message = opened[1].ledger.events[-1]
            assert isinstance(message, ClientMessage)
            assert message.to == ProcessId("b")
            await opened[1].service.reply(message, b"done")
            assert (await asking).payload == b"done"
            await client.send(b"for all")
            for server in (opened[0], opened[2]):
                await server.ledger.until(b"hello", b"for all")
            await opened[1].ledger.until(b"hello", b"for b", b"for all")

    run(test)


def test_the_client_is_told_that_its_server_is_gone() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(opened[0]) as client:
            asking = asyncio.create_task(client.request(b"for b", to=ProcessId("b")))
            await opened[1].ledger.until(b"for b")
            hub.fail("b")
            with pytest.raises(ServerGoneError, match="b/1 is no member of group 'g'"):
                await asking
            assert client.servers == (ProcessId("a"),)
            with pytest.raises(ServerGoneError, match=r"Client\.servers"):
                await client.send(b"again", to=ProcessId("b"))

    run(test)


def test_a_request_without_a_reply_ends_in_time() -> None:
    async def test() -> None:
        async with servers(Hub(), "a") as (server,), client_of(server) as client:
            with pytest.raises(UnansweredError, match="s have passed"):
                await client.request(b"anybody?", timeout_s=0.1)
            assert client._requests == {}

    run(test)


def test_a_reply_finds_its_client_behind_another_gateway() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "abc") as opened, client_of(*opened) as client:
            asking = asyncio.create_task(client.request(b"q", to=ProcessId("c")))
            message = await last_message(opened[2])
            await client.flush()
            hub.fail("a")
            await opened.pop(0).close()
            await opened[1].service.reply(message, b"answer")
            assert (await asking).payload == b"answer"
            await client.send(b"next")
            await client.flush()
            assert [line for line in opened[0].ledger.lines if line != b"next"] == []
            assert opened[1].ledger.lines == [b"q", b"next"]

    run(test)


def test_replies_to_others_are_no_gap_for_a_client_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat tells a client how far it has come, also past messages that were not for it."""
    monkeypatch.setattr(gateway, "LOG_MESSAGES_MAX", 3)
    monkeypatch.setattr(gateway, "HEARTBEAT_S", 0.01)

    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened:
            reader, writer = await converse(opened[0].gateway.address, wire.Hello("g", "quiet", 0, True, []))
            await read_frame(reader)
            message = ClientMessage(
                payload=b"", client="busy", number=1, order="causal", gateway=ProcessId("a"), to=None
            )
            for _ in range(10):
                await opened[0].service.reply(message, b"for another")
            heard: list[wire.FromGateway] = []
            while not (heard and isinstance(heard[-1], wire.StableUpTo) and heard[-1].position == [(("a", 1), 10)]):
                heard.append(wire.from_gateway.decode(await read_frame(reader)))
            assert all(isinstance(frame, wire.StableUpTo) for frame in heard)
            writer.close()
            hello = wire.Hello("g", "quiet", 0, False, [(("a", 1), 10)])
            reader, writer = await converse(opened[1].gateway.address, hello)
            welcome = wire.from_gateway.decode(await read_frame(reader))
            assert isinstance(welcome, wire.Welcome)
            assert not welcome.missed
            writer.close()

    run(test)


@pytest.mark.parametrize("ordered", [True, False])
def test_what_a_client_sends_to_two_services_is_in_causal_order(ordered: bool) -> None:
    """Member b of the first service lags behind; without the domain, the second service gets its message first."""

    async def test() -> None:
        first, second = Hub(), Hub()
        domain = ClientDomain() if ordered else None
        async with servers(first, "ab") as one, servers(second, "c") as two:
            first.members[ProcessId("b")].is_held = True  # b has not delivered it yet
            gateways = [one[0].gateway.address], [two[0].gateway.address]
            async with Client("g", gateways[0], domain=domain) as x, Client("g", gateways[1], domain=domain) as y:
                await x.send(b"cause")
                following = asyncio.create_task(y.send(b"effect"))
                await one[0].ledger.until(b"cause")
                if not ordered:
                    await two[0].ledger.until(b"effect")
                    await following
                    return
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert two[0].ledger.lines == []
                first.members[ProcessId("b")].release()
                await two[0].ledger.until(b"effect")
                await following

    run(test)


def test_what_a_client_receives_counts_as_a_cause_too() -> None:
    async def test() -> None:
        first, second = Hub(), Hub()
        domain = ClientDomain()
        async with servers(first, "ab") as one, servers(second, "c") as two:
            gateways = [one[0].gateway.address], [two[0].gateway.address]
            async with Client("g", gateways[0], domain=domain) as x, Client("g", gateways[1], domain=domain) as y:
                await y.send(b"one")  # nothing has happened in the first service: no wait
                await until(lambda: x._served.is_set())
                first.members[ProcessId("b")].is_held = True
                await one[0].service.diffuse(b"cause")
                assert isinstance(await anext(x), Diffusion)
                following = asyncio.create_task(y.send(b"effect"))
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert two[0].ledger.lines == [b"one"]
                first.members[ProcessId("b")].release()
                await two[0].ledger.until(b"one", b"effect")
                await following

    run(test)


def test_a_sync_survives_the_change_of_gateways() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(*opened) as client:
            hub.members[ProcessId("b")].is_held = True
            await client.send(b"one")
            syncing = asyncio.create_task(client.sync())
            await opened[0].ledger.until(b"one")
            assert not syncing.done()
            hub.fail("a")
            await opened.pop(0).close()
            hub.members[ProcessId("b")].release()
            await syncing

    run(test)


def test_settle_waits_for_a_member_that_fetches_the_state() -> None:
    """The joiner's group has delivered the message, but its application gets it, or the state that contains it,
    later."""

    async def test() -> None:
        hub = Hub()
        async with servers(hub, "a") as (server,):
            (joining,) = hub.join("b")
            await server.service.send(b"one")
            settling = asyncio.create_task(server.service.settle())
            await server.ledger.until(b"one")
            await asyncio.sleep(0.02)
            assert not settling.done()
            joiner = await Ledger(joining).open()
            await settling
            await joiner.until(b"one")
            await joiner.close()

    run(test)
