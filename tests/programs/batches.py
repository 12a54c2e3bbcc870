"""One group read in batches, with bursts, private messages and barriers; readers are cancelled and begin anew."""

import asyncio
from contextlib import suppress

import antiphon
from antiphon.testing import Host
from tests.programs.common import HEALED_S, Play, check_event, draw, enter, names, node_at, until_ending


async def main(host: Host) -> int:
    async with node_at(host, queue_messages_max=32) as node:
        group = await enter(node, host, "group")
        await until_ending(host, burst(host, group), read_and_stop(node, group))
    return host.starts


async def burst(host: Host, group: antiphon.Group) -> None:
    random = draw()
    for number in range(8):
        chance = random.random()
        if chance < 0.5:
            await group.send_many([b"%d %d" % (number, each) for each in range(20)], order="causal")
        elif chance < 0.7 and group.view.members:
            member = group.view.members[int(random.random() * len(group.view.members))]
            await group.send(b"to you", to=member)
        elif chance < 0.8:
            await group.barrier(b"here")
        else:
            await group.send_many([b"agreed", b"also"], order="agreed")
        await asyncio.sleep(random.random())
    await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
    await group.send(b"at last", order="safe")


async def read_and_stop(node: antiphon.Node, group: antiphon.Group) -> None:
    """By a reader that is cancelled now and then: nothing may be lost by that."""
    random = draw()
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05 + random.random()):
                if random.random() < 0.5:
                    async for event in group.batches():
                        check_event(node, event)
                else:
                    async for single in group:
                        check_event(node, single)


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed, 2, 4), main))
