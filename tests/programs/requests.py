"""Requests with replies: everybody asks everybody, and each reply is that of the member that it names."""

import asyncio
from functools import partial

import antiphon
from antiphon.testing import Host
from antiphon.toolkit import Request, Service, UnansweredError
from tests.programs.common import Play, check_event, draw, enter, names, node_at, until_ending

WANTS = ("all", "first", "majority", "none")


async def main(host: Host) -> int:
    async with node_at(host) as node:
        group = await enter(node, host, "service")
        async with Service(group) as service:
            service.answer(partial(answer, host))
            await until_ending(host, ask(host, service), follow(node, service))
    return host.starts


async def answer(host: Host, request: Request) -> bytes:
    if request.payload.endswith(b"3"):
        raise ValueError("no threes")
    if request.payload.endswith(b"7"):
        await asyncio.sleep(0.05)
    return host.name.encode() + b" heard " + request.payload


async def ask(host: Host, service: Service) -> None:
    random = draw()
    for number in range(10):
        want = WANTS[int(random.random() * len(WANTS))]
        question = f"{host.name} {number}".encode()
        try:
            replies = await service.ask(question, want=want, order="agreed", timeout_s=3.0)
        except UnansweredError:
            continue
        for reply in replies:
            if reply.is_good:
                assert reply.payload == reply.process.name.encode() + b" heard " + question, reply
        assert want != "first" or any(reply.is_good for reply in replies), replies
        await asyncio.sleep(random.random() * 0.5)


async def follow(node: antiphon.Node, service: Service) -> None:
    async for event in service:
        check_event(node, event)


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main))
