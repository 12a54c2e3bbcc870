"""One group on the stack `label`, and processes that send to it from outside, at all levels and to any destinations,
while members fail and views change. What they send is delivered once; they are recorded and audited like members."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import (
    HEALED_S,
    LEVELS,
    PATIENCE_S,
    Play,
    draw,
    enter,
    names,
    node_at,
    payload,
    read,
    talk,
    until_ending,
)

OUTSIDE = ("x", "y")


def inside(host: Host) -> list[str]:
    return [name for name in host.addresses if name not in OUTSIDE]


async def main(host: Host) -> int:
    async with node_at(host) as node:
        group = await enter(node, host, "group", inside(host), stack="label")
        await until_ending(host, talk(host, [group], count=8), read(node, group))
    return host.starts


async def visit(host: Host) -> int:
    async with node_at(host) as node:
        contacts = [address for name, address in host.members().items() if name not in OUTSIDE]
        group = await node.reach("group", contacts=contacts, stack="label", timeout_s=PATIENCE_S)
        await until_ending(host, speak(host, node, group), flush_often(group))
    return host.starts


async def speak(host: Host, node: antiphon.Node, group: antiphon.ReachedGroup) -> None:
    """Send in all ways that there are from outside, and once more when the network has healed."""
    random = draw()
    for number in range(18):
        if number == 17:
            await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
        message, way = payload(random, host, number), random.random()
        members = list(group.view.members)
        to = random.sample(members, random.randint(1, len(members))) if random.random() < 0.4 else None
        try:
            if way < 0.3:
                await group.send(message, order="abcast", label=random.choice(("red", "blue", None)), to=to)
            elif way < 0.5:
                await node.send(message, to="group" if to is None else to, order="causal")
            else:
                await group.send(message, order=LEVELS[int(random.random() * len(LEVELS))], to=to)
        except antiphon.UsageError:
            assert to is not None  # one of them is gone since
        if random.random() < 0.7:
            await asyncio.sleep(random.random() ** 2)


async def flush_often(group: antiphon.ReachedGroup) -> None:
    while True:
        await asyncio.sleep(1.0)
        await group.flush(timeout_s=600.0)


def check(result: Result) -> None:
    assert any(result.judgement.delivered.values())


def play(seed: int) -> Play:
    mains = dict.fromkeys(names(seed), main)
    return Play(mains | dict.fromkeys(OUTSIDE[: 1 + seed % 2], visit), check)
