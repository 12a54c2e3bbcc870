"""One group on the stack `label`: queues by label, comparisons, destinations that are any set, GBCASTs, and all other
levels."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import HEALED_S, LEVELS, Play, draw, enter, names, node_at, payload, read, until_ending

QUEUES = ("red", "blue", None)


async def main(host: Host) -> int:
    async with node_at(host) as node:
        group = await enter(node, host, "group", stack="label")
        await until_ending(host, speak(host, group), read(node, group))
    return host.starts


async def speak(host: Host, group: antiphon.Group) -> None:
    """Send in all ways that the stack has, and once more when the network has healed."""
    random = draw()
    loop = asyncio.get_running_loop()
    for number in range(18):
        if number == 17:
            await asyncio.sleep(max(0.0, HEALED_S - loop.time()))
        members = list(group.view.members)
        to = random.sample(members, random.randint(1, len(members))) if members and random.random() < 0.4 else None
        message, way = payload(random, host, number), random.random()
        try:
            if way < 0.35:
                await group.send(message, order="abcast", label=QUEUES[int(random.random() * 3)], to=to)
            elif way < 0.65:
                label = f"clock={int(10 * loop.time())}" if random.random() < 0.7 else "none=x"
                await group.send(message, order="reliable", label=label, to=to)
            elif way < 0.72:
                await group.barrier(message[: group.barrier_bytes_max])
            else:
                await group.send(message, order=LEVELS[int(random.random() * len(LEVELS))], to=to)
        except antiphon.UsageError:
            assert to is not None  # one of them is gone since
        if random.random() < 0.7:
            await asyncio.sleep(random.random() ** 2)


def check(result: Result) -> None:
    assert result.judgement.delivered["abcast"] > 0


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), check)
