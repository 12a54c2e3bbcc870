"""Clients through gateways: their messages arrive once and in order, and they hear what is diffused, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import Client, ClientMessage, Diffusion, Gateway, GatewayError, Service
from tests.programs.common import PATIENCE_S, LostState, Play, check_event, check_loss, draw, node_at, until_ending

SERVERS = ("a", "b", "c")
PORT = 7500


class Ledger:
    """What clients sent, and how it is handed on."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def snapshot(self) -> list[bytes]:
        return ["\n".join(self.lines).encode()]

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        text = b"".join([chunk async for chunk in chunks]).decode()
        self.lines = text.split("\n") if text else []


async def serve(host: Host) -> list[str] | None:
    """What is in the ledger; None if it is lost."""
    ledger, lost = Ledger(), LostState()
    members = {name: address for name, address in host.members().items() if name in SERVERS}
    async with node_at(host) as node:
        if host.starts == 1:
            group = await node.join("ledger", members=members, policy="primary")
        else:
            others = [address for name, address in members.items() if name != host.name]
            group = await node.join("ledger", contacts=others, timeout_s=PATIENCE_S)
        with lost:
            async with (
                Service(group, snapshot=ledger.snapshot, restore=ledger.restore) as service,
                Gateway(service, address=host.at(PORT)),
            ):
                await until_ending(host, diffuse(host, service), follow(node, service, ledger))
    return None if lost.happened else ledger.lines


async def diffuse(host: Host, service: Service) -> None:
    random = draw()
    for number in range(8):
        await service.diffuse(f"{host.name}/{host.starts} {number}".encode())
        await asyncio.sleep(random.random())


async def follow(node: antiphon.Node, service: Service, ledger: Ledger) -> None:
    async for event in service:
        check_event(node, event)
        if isinstance(event, ClientMessage):
            ledger.lines.append(event.payload.decode())


async def use(host: Host) -> list[str]:
    """A client: sends numbered lines, and checks what it hears."""
    gateways = [f"{host.addresses[name]}:{PORT}" for name in SERVERS]
    async with Client("ledger", gateways, patience_s=PATIENCE_S) as client:
        await until_ending(host, send(host, client), hear(client))
    return []


async def send(host: Host, client: Client) -> None:
    random = draw()
    with suppress(GatewayError):  # the group lost its majority
        for number in range(10):
            await client.send(f"{host.name}/{host.starts} {number}".encode(), order="agreed")
            await asyncio.sleep(random.random() * 0.6)


async def hear(client: Client) -> None:
    last: dict[str, int] = {}
    try:
        async for event in client:
            if isinstance(event, Diffusion):
                sender, number = event.payload.decode().split()
                assert int(number) > last.get(sender, -1), f"{event.payload!r} after {last[sender]}"
                last[sender] = int(number)
    except GatewayError:
        return  # the group lost its majority


def once_and_in_order(result: Result) -> None:
    """A server's ledger has each client's lines once, in order, from the first on."""
    check_loss(result, lost=any(result.returned.get(name, []) is None for name in SERVERS))
    for name in SERVERS:
        by_client: dict[str, list[int]] = {}
        for line in result.returned.get(name) or []:
            client, number = line.split()
            by_client.setdefault(client, []).append(int(number))
        for client, numbers in by_client.items():
            assert numbers == list(range(len(numbers))), f"{name} has {numbers} of client {client}"


def play(seed: int) -> Play:
    clients = ["x", "y", "z"][: 1 + seed % 3]
    return Play({**dict.fromkeys(SERVERS, serve), **dict.fromkeys(clients, use)}, once_and_in_order)
