"""Two groups with the same members, little room, long messages, slow readers: order through back-pressure.

The order of the calls is seen at every reader, over both groups, also while one of them stands still for want of a
majority.
"""

import asyncio

import antiphon
from antiphon.testing import Host
from tests.programs.common import HEALED_S, Play, check_event, draw, enter, names, node_at, until_ending
from tests.programs.seen import Seen, same_payloads

TIGHT = antiphon.Options(pending_bytes_max=6000, window_packets=8)


async def main(host: Host) -> Seen:
    seen = Seen()
    async with node_at(host, options=TIGHT, queue_messages_max=4) as node:
        groups: list[antiphon.Group] = []

        async def join(name: str) -> None:
            groups.append(await enter(node, host, name))

        await until_ending(host, push(host, groups), read(node, seen), join("one"), join("two"))
    seen.check_gaps(between_groups=True)
    return seen


async def push(host: Host, groups: list[antiphon.Group]) -> None:
    """Bursts to both groups in turn, from one task, so that the order of the calls is known."""
    random = draw()
    while len(groups) < 2:
        await asyncio.sleep(0.05)
    number = 0
    for _ in range(5):
        for turn in range(6):
            heads = [
                f"{host.name}{host.starts}:{number + each}:".encode() for each in range(1 + int(random.random() * 4))
            ]
            await groups[turn % 2].send_many([head + bytes(int(random.random() * 2500)) for head in heads])
            number += len(heads)
        await asyncio.sleep(random.random())
    await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
    await groups[0].send(f"{host.name}{host.starts}:{number}:".encode())


async def read(node: antiphon.Node, seen: Seen) -> None:
    random = draw()
    async for event in node:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            seen.read(event, between_groups=True)
        if random.random() < 0.1:
            await asyncio.sleep(random.random() * 0.1)


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 2, 3), main), same_payloads)
