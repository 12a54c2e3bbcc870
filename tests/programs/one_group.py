"""One group, all levels, single messages read one by one; some readers are slow."""

import asyncio

import antiphon
from antiphon.testing import Host
from tests.programs.common import Play, check_event, draw, enter, names, node_at, talk, until_ending
from tests.programs.seen import Seen, same_payloads


async def main(host: Host) -> Seen:
    seen = Seen()
    async with node_at(host, queue_messages_max=8) as node:
        group = await enter(node, host, "group")
        await asyncio.sleep(draw().random() * 0.5)  # the first messages wait for a reader
        await until_ending(host, talk(host, [group]), read_slowly(node, group, seen))
    seen.check_gaps()
    return seen


async def read_slowly(node: antiphon.Node, group: antiphon.Group, seen: Seen) -> None:
    random = draw()
    slow = random.random() < 0.5
    async for event in group:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            seen.read(event)
        if slow and random.random() < 0.2:
            await asyncio.sleep(random.random() * 0.2)


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), same_payloads)
