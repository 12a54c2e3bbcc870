"""Two causality domains, and a flush before turning from one to the other: what follows the flush is read after."""

import asyncio
from contextlib import suppress

import antiphon
from antiphon.testing import Host
from tests.programs.common import Play, check_event, draw, enter, names, node_at, until_ending

FIRST = antiphon.CausalityDomain(name="first")
SECOND = antiphon.CausalityDomain(name="second")


async def main(host: Host) -> int:
    async with node_at(host) as node:
        groups: dict[str, antiphon.Group] = {}

        async def join(name: str, domain: antiphon.CausalityDomain) -> None:
            groups[name] = await enter(node, host, name, domain=domain)

        await until_ending(host, cross(host, node, groups), read(node), join("one", FIRST), join("two", SECOND))
    return host.starts


async def cross(host: Host, node: antiphon.Node, groups: dict[str, antiphon.Group]) -> None:
    random = draw()
    while len(groups) < 2:
        await asyncio.sleep(0.05)
    with suppress(antiphon.ClosedError):  # the reader sees that the others went on without this process
        for number in range(10):
            text = f"{host.name}{host.starts} {number}".encode()
            await groups["one"].send(text)
            await node.flush("first")
            await groups["two"].send(text)
            await asyncio.sleep(random.random() * 0.5)


async def read(node: antiphon.Node) -> None:
    """What is read in the second group was read in the first, if anything of that sender's start was."""
    last: dict[bytes, int] = {}
    async for event in node:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            start, number = event.payload.split()
            if event.group == "one":
                last[start] = int(number)
            else:
                seen = last.get(start, -1)
                assert seen == -1 or seen >= int(number), f"{event.payload!r} in two, but only {seen} in one"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 2, 4), main), apart=True)
