"""Clients of two services: requests to a chosen server get its reply, and causal order holds over both services."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import (
    Client,
    ClientDomain,
    ClientMessage,
    Gateway,
    GatewayError,
    ServerGoneError,
    Service,
    StateError,
    UnansweredError,
)
from tests.programs.common import PATIENCE_S, RETIRED, Play, check_event, draw, enter, node_at, until_ending

SERVICES = {"left": ["a", "b", "c"], "right": ["b", "c", "d"]}
PORTS = {"left": 7500, "right": 7501}


async def restore(chunks: AsyncIterator[bytes]) -> None:
    async for _ in chunks:
        pass


async def serve(host: Host) -> list[str]:
    """A server of one or both services; returns what clients sent, in the order in which it was handed over."""
    handed: list[str] = []
    async with node_at(host) as node, asyncio.TaskGroup() as tasks:
        for name in SERVICES:
            if host.name in SERVICES[name]:
                tasks.create_task(until_ending(host, serve_group(host, node, name, handed)))
    return handed


async def serve_group(host: Host, node: antiphon.Node, name: str, handed: list[str]) -> None:
    """Serve one of the services; one that has lost its majority may never let this process in again."""
    group = await enter(node, host, name, SERVICES[name])
    async with (
        Service(group, snapshot=list, restore=restore) as service,
        Gateway(service, address=host.at(PORTS[name])),
    ):
        with contextlib.suppress(StateError):  # all members that had the state failed while others were fetching it
            await follow(node, service, handed)


async def follow(node: antiphon.Node, service: Service, handed: list[str]) -> None:
    async for event in service:
        check_event(node, event)
        if isinstance(event, ClientMessage):
            assert event.to in (None, node.process), f"{event.to} was chosen, not {node.process}"
            text = event.payload.decode()
            if event.to is None:
                handed.append(text)
            await service.reply(event, f"{node.process} {text}".encode())


async def use(host: Host) -> int:
    """A client of both services: numbered messages to one or the other, and requests; returns how many got a reply."""
    random = draw()
    domain = ClientDomain()
    replies = 0
    clients = {
        name: Client(
            name,
            [host.addresses.get(server, "10.0.0.99") + f":{PORTS[name]}" for server in servers],
            patience_s=PATIENCE_S,
            domain=domain,
        )
        for name, servers in SERVICES.items()
    }
    async with clients["left"], clients["right"]:
        try:
            for number in range(10):
                client = clients[("left", "right")[int(random.random() * 2)]]
                await client.send(f"{host.name}/{host.starts} {number}".encode())
                if random.random() < 0.5 and client.servers:
                    replies += await ask(client, f"{host.name}/{host.starts} ask {number}", random.random())
                await asyncio.sleep(random.random() * 0.5)
            await host.ending.wait()
        except GatewayError:
            pass  # a service lost its majority
    return replies


async def ask(client: Client, text: str, chance: float) -> int:
    server = client.servers[int(chance * len(client.servers))]
    try:
        reply = await client.request(text.encode(), to=server, timeout_s=20.0)
    except (ServerGoneError, UnansweredError):
        return 0
    assert reply.payload.decode() == f"{server} {text}", f"{reply.payload!r} answers {text!r} to {server}"
    assert reply.sender == server
    return 1


def in_order(result: Result) -> None:
    """Whoever serves both services was handed each client's messages in the order in which they were sent."""
    for name in ("a", "b", "c", "d"):
        last: dict[str, int] = {}
        for text in result.returned.get(name, []):
            client, number = text.split()
            assert int(number) > last.get(client, -1), f"{name} was handed {text} after {last[client]}"
            last[client] = int(number)


def play(seed: int) -> Play:
    clients = ["x", "y"][: 1 + seed % 2]
    mains = {**dict.fromkeys("abcd", serve), **dict.fromkeys(clients, use)}
    return Play(mains, in_order, may_be_unknown=RETIRED)
