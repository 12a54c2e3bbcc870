"""Two overlapping groups, each read by a task of its own: order holds within each group."""

import asyncio

import antiphon
from antiphon.testing import Host
from tests.programs.common import RETIRED, Play, enter, names, node_at, overlapping, read, talk, until_ending


async def main(host: Host) -> int:
    groups: list[antiphon.Group] = []
    async with node_at(host) as node:

        async def take_part(name: str, founders: list[str]) -> None:
            group = await enter(node, host, name, founders)
            groups.append(group)
            await read(node, group)

        async def talk_somewhere() -> None:
            while not groups:
                await asyncio.sleep(0.1)
            await talk(host, groups)

        parts = [take_part(name, founders) for name, founders in overlapping(host).items()]
        await until_ending(host, talk_somewhere(), *parts)
    return host.starts


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 4, 5), main), may_be_unknown=RETIRED)
