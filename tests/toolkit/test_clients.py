"""Clients and their gateways: once, in order, also from one gateway to the next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon import Excluded, MessageTooLargeError, ProcessId, Stalled, UsageError
from antiphon.toolkit import Client, ClientMessage, Diffusion, Gateway, GatewayError, Missed, Service, gateway, wire
from antiphon.toolkit.frames import FRAME_BYTES_MAX, FrameError, read_frame, send_frame, split_host
from antiphon.toolkit.messages import Relayed
from tests.runtime.cluster import run, until
from tests.toolkit.hub import Hub
from tests.toolkit.ledger import Ledger


class Server:
    """A member, its ledger and its gateway."""

    def __init__(self, ledger: Ledger, clients_max: int = 1000) -> None:
        self.ledger = ledger
        self.service = ledger.service
        self.gateway = Gateway(ledger.service, clients_max=clients_max)

    async def open(self) -> "Server":
        await self.ledger.open()
        await self.gateway.__aenter__()
        return self

    async def close(self) -> None:
        await self.gateway.__aexit__(None, None, None)
        await self.ledger.close()


@asynccontextmanager
async def servers(hub: Hub, names: str, clients_max: int = 1000) -> AsyncIterator[list[Server]]:
    opened = [await Server(Ledger(member), clients_max).open() for member in hub.found(names)]
    try:
        yield opened
    finally:
        for server in opened:
            await server.close()


def client_of(*opened: Server, patience_s: float = 20.0) -> Client:
    return Client("g", [server.gateway.address for server in opened], patience_s=patience_s)


async def said(client: Client, count: int) -> list[bytes]:
    events = [await anext(client) for _ in range(count)]
    assert all(isinstance(event, Diffusion) for event in events)
    return [event.payload for event in events if isinstance(event, Diffusion)]


def test_a_client_speaks_to_all_servers_and_hears_what_they_diffuse() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(opened[0]) as client:
            await client.send(b"one")
            await client.send(b"two", order="agreed")
            for server in opened:
                await server.ledger.until(b"one", b"two")
                first = next(event for event in server.ledger.events if isinstance(event, ClientMessage))
                assert (first.client, first.number, first.gateway) == (client.id, 1, ProcessId("a"))
            await client.flush()
            await opened[1].service.diffuse(b"news")
            assert await said(client, 1) == [b"news"]
            await opened[0].ledger.until(b"one", b"two", b"news")
            assert hub.view.members == (ProcessId("a"), ProcessId("b"))  # and no vector time has room for more

    run(test)


def test_what_is_accepted_waits_until_all_members_have_it() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(opened[0]) as client:
            hub.members[ProcessId("a")].flushed.clear()
            await client.send(b"one")
            await opened[1].ledger.until(b"one")
            flushing = asyncio.create_task(client.flush())
            await opened[0].service.diffuse(b"later")
            await said(client, 1)
            assert not flushing.done()
            hub.members[ProcessId("a")].flushed.set()
            await flushing

    run(test)


def test_a_client_whose_gateway_dies_goes_to_another_and_nothing_is_lost_or_doubled() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "abc") as opened, client_of(*opened) as client:
            await client.send(b"one")
            await client.flush()
            hub.members[ProcessId("a")].flushed.clear()
            await client.send(b"two")  # delivered, but its client does not know
            await opened[1].ledger.until(b"one", b"two")
            await opened[2].service.diffuse(b"n1")
            assert await said(client, 1) == [b"n1"]
            hub.fail("a")
            await opened.pop(0).close()
            await opened[1].service.diffuse(b"n2")
            await client.send(b"three")
            await client.flush()
            assert await said(client, 1) == [b"n2"]
            for server in opened:
                lines = [line for line in server.ledger.lines if not line.startswith(b"n")]
                assert lines == [b"one", b"two", b"three"]
            copies = [m for m in hub.sent if b"two" in m.payload]
            assert len(copies) <= 2

    run(test)


def test_copies_are_dropped_at_every_member() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened:
            for rank, number, payload in ((0, 1, b"x"), (1, 1, b"x"), (1, 2, b"y"), (0, 2, b"y"), (0, 1, b"x")):
                await opened[rank].service.tell(Relayed("someone", number, payload), None)
            await opened[0].service.send(b"end")
            for server in opened:
                await server.ledger.until(b"x", b"y", b"end")

    run(test)


def test_a_gateway_that_joined_later_knows_what_clients_have_said() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "a") as opened, client_of(opened[0]) as client:
            hub.members[ProcessId("a")].flushed.clear()
            await client.send(b"one")
            await opened[0].ledger.until(b"one")
            hub.members[ProcessId("a")].flushed.set()
            opened.append(await Server(Ledger(hub.join("b")[0])).open())
            await opened[1].ledger.until(b"one")
            await opened[1].service.tell(Relayed(client.id, 1, b"one"), None)
            await client.send(b"two")
            for server in opened:
                await server.ledger.until(b"one", b"two")

    run(test)


async def converse(address: str, *messages: wire.FromClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*split_host(address))
    for message in messages:
        await send_frame(writer, wire.encode(message))
    return reader, writer


def test_a_gateway_first_delivers_what_its_new_client_has_seen_elsewhere() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened:
            hub.members[ProcessId("b")].is_held = True
            await opened[0].service.tell(Relayed("me", 1, b"mine"), None)
            await opened[0].service.diffuse(b"seen")
            await opened[0].ledger.until(b"mine", b"seen")
            hello = wire.Hello("g", "me", 1, False, [(("a", 1), 2)])
            reader, writer = await converse(opened[1].gateway.address, hello, wire.Multicast(2, "causal", b"next"))
            welcome = asyncio.create_task(read_frame(reader))
            for other in (
                "x",
                "y",
            ):  # who has seen nothing is served at once, and by then the first would have been, too
                theirs, their_writer = await converse(opened[1].gateway.address, wire.Hello("g", other, 0, True, []))
                await read_frame(theirs)
                their_writer.close()
            await opened[0].service.send(b"still alone")
            await opened[0].ledger.until(b"mine", b"seen", b"still alone")
            assert not welcome.done()
            hub.members[ProcessId("b")].release()
            assert wire.from_gateway.decode(await welcome) == wire.Welcome(False, [(("a", 1), 2)], [("a", 1), ("b", 1)])
            await opened[0].ledger.until(b"mine", b"seen", b"still alone", b"next")
            writer.close()

    run(test)


def test_a_client_that_was_away_is_sent_what_it_has_not_seen_or_told_that_it_missed_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "LOG_MESSAGES_MAX", 5)

    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened:
            for number in range(10):
                await opened[0].service.diffuse(b"%d" % number)
            await until(lambda: len(opened[1].ledger.lines) == 10)
            for seen, missed in ((7, False), (5, False), (4, True), (0, True)):
                reader, writer = await converse(
                    opened[1].gateway.address, wire.Hello("g", f"saw {seen}", 0, False, [(("a", 1), seen)])
                )
                welcome = wire.from_gateway.decode(await read_frame(reader))
                assert isinstance(welcome, wire.Welcome)
                assert welcome.missed == missed
                for number in range(max(5, seen), 10):
                    diffusion = wire.from_gateway.decode(await read_frame(reader))
                    assert diffusion == wire.DiffusionFrame(("a", 1), number + 1, b"%d" % number)
                writer.close()

    run(test)


def test_missed_is_an_event() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(*opened) as client:
            await opened[0].service.diffuse(b"one")
            await until(lambda: client._served.is_set())
            await opened[0].service.diffuse(b"two")
            await said(client, 1 if client._position else 2)
            opened[1].gateway._log.clear()  # b has lost what it had, and is more than one message ahead
            hub.members[ProcessId("a")].is_held = True
            await opened[1].service.diffuse(b"three")
            await until(lambda: len(opened[1].gateway._log) == 1)
            opened[1].gateway._log.clear()
            await opened[0].gateway.__aexit__(None, None, None)
            while not isinstance(await anext(client), Missed):
                pass
            await opened[1].service.diffuse(b"four")
            assert await said(client, 1) == [b"four"]
            await opened[0].gateway.__aenter__()

    run(test)


def test_a_client_that_does_not_read_is_sent_away_with_the_reason() -> None:
    async def test() -> None:
        async with servers(Hub(), "a") as (server,):
            reader, writer = await converse(server.gateway.address, wire.Hello("g", "slow", 0, True, []))
            await read_frame(reader)
            assert server.gateway.clients == 1
            for _ in range(200):
                await server.service.diffuse(bytes(100_000))
            await until(lambda: server.gateway.clients == 0)
            while not isinstance(message := wire.from_gateway.decode(await read_frame(reader)), wire.Refused):
                pass
            assert "read faster" in message.why
            with pytest.raises(FrameError):
                await read_frame(reader)
            writer.close()

    run(test)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([wire.Multicast(1, "causal", b"")], "begins with Hello"),
        ([wire.Hello("other", "me", 0, True, [])], "serves group 'g', not 'other'"),
        ([wire.Hello("g", "i" * 65, 0, True, [])], "at most 64 characters"),
        ([wire.Hello("g", "me", 0, False, [(("s", n), 1) for n in range(1025)])], "at most 1024 servers"),
        ([wire.Hello("g", "me", 0, True, []), wire.Multicast(2, "causal", b"")], "message 1 is missing"),
        ([wire.Hello("g", "me", 0, True, []), wire.Multicast(1, "fifo", b"")], "order causal, agreed, safe"),
        ([wire.Hello("g", "me", 0, True, []), wire.Hello("g", "me", 0, True, [])], "nothing else"),
    ],
)
def test_whoever_does_not_keep_to_the_rules_is_sent_away(messages: list[wire.FromClient], why: str) -> None:
    async def test() -> None:
        async with servers(Hub(), "a") as (server,):
            reader, writer = await converse(server.gateway.address, *messages)
            while not isinstance(message := wire.from_gateway.decode(await read_frame(reader)), wire.Refused):
                pass
            assert why in message.why
            writer.close()

    run(test)


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\0\0\0\5hello", b"\0\0\0", b""])
def test_garbage_ends_its_own_connection_only(garbage: bytes) -> None:
    async def test() -> None:
        async with servers(Hub(), "a") as (server,), client_of(server) as client:
            reader, writer = await asyncio.open_connection(*split_host(server.gateway.address))
            writer.write(garbage)
            writer.write_eof()
            await reader.read(FRAME_BYTES_MAX)
            writer.close()
            await client.send(b"one")
            await client.flush()

    run(test)


def test_strangers_that_say_nothing_cannot_use_up_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "GREETINGS_MAX", 3)

    async def test() -> None:
        async with servers(Hub(), "a") as (server,), client_of(server) as client:
            await until(lambda: server.gateway.clients == 1)
            silent = [await converse(server.gateway.address) for _ in range(4)]
            message = wire.from_gateway.decode(await read_frame(silent[3][0]))
            assert isinstance(message, wire.Refused)
            assert "too many" in message.why
            await client.send(b"one")
            await client.flush()
            for _, writer in silent:
                writer.close()

    run(test)


def test_no_more_clients_than_the_limit() -> None:
    async def test() -> None:
        async with servers(Hub(), "a", clients_max=1) as (server,), client_of(server) as client:
            await client.flush()
            await until(lambda: server.gateway.clients == 1)
            with pytest.raises(GatewayError, match="serves 1 clients already"):
                async with client_of(server, patience_s=0.3) as second:
                    await anext(second)

    run(test)


def test_two_hundred_clients_on_two_servers() -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened:
            clients = [client_of(*opened[turn % 2 :], *opened[: turn % 2]) for turn in range(200)]
            for client in clients:
                await client.__aenter__()
            for client in clients:
                await client.send(client.id.encode())
            await asyncio.gather(*(client.flush() for client in clients))
            assert sum(server.gateway.clients for server in opened) == 200
            await opened[0].service.diffuse(b"news")
            assert [await said(client, 1) for client in clients] == [[b"news"]] * 200
            for server in opened:
                assert sorted(server.ledger.lines[:-1]) == sorted(client.id.encode() for client in clients)
            assert len(hub.view.members) == 2
            await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))

    run(test)


@pytest.mark.parametrize("kind", [Stalled, Excluded])
def test_a_gateway_that_is_cut_off_sends_its_clients_away(kind: type[Stalled | Excluded]) -> None:
    async def test() -> None:
        hub = Hub()
        async with servers(hub, "ab") as opened, client_of(*opened) as client:
            await client.flush()
            await until(lambda: opened[0].gateway.clients == 1)
            hub.members[ProcessId("a")].put(kind(group="g", view=hub.view))
            await until(lambda: opened[1].gateway.clients == 1)
            await client.send(b"on")
            await opened[1].ledger.until(b"on")

    run(test)


def test_mistakes_of_the_caller() -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match="a list of gateways"):
            Client("g", "127.0.0.1:1")
        with pytest.raises(UsageError, match="host:port"):
            Client("g", ["nowhere"])
        hub = Hub()
        (member,) = hub.found("a")
        with pytest.raises(UsageError, match="`snapshot` and `restore`"):
            Gateway(Service(member))
        async with Client("g", ["127.0.0.1:1"], patience_s=0.2) as client:
            with pytest.raises(UsageError, match="not 'fifo'"):
                await client.send(b"x", order="fifo")
            with pytest.raises(MessageTooLargeError):
                await client.send(bytes(FRAME_BYTES_MAX))
            with pytest.raises(GatewayError, match=r"127\.0\.0\.1:1"):
                await anext(client)
            with pytest.raises(GatewayError):
                await client.send(b"x")
        ledger = Ledger(member)
        async with Gateway(ledger.service) as one:
            with pytest.raises(UsageError, match="no gateway can be opened"):
                async with Gateway(ledger.service, address=one.address):
                    pass

    run(test)
