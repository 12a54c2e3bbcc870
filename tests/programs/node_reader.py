"""Three overlapping groups of one causality domain, read as one stream: the order between groups is seen."""

import asyncio
from functools import partial

import antiphon
from antiphon.testing import Host
from tests.programs.common import (
    RETIRED,
    RULES,
    Play,
    check_event,
    draw,
    enter,
    names,
    node_at,
    overlapping,
    talk,
    until_ending,
)
from tests.programs.seen import Seen, same_payloads


async def main(host: Host, rule: str) -> Seen:
    seen = Seen()
    domain = antiphon.CausalityDomain(rule=rule)
    groups: list[antiphon.Group] = []
    async with node_at(host, queue_messages_max=16) as node:

        async def join(name: str, founders: list[str]) -> None:
            groups.append(await enter(node, host, name, founders, domain=domain))

        async def talk_somewhere() -> None:
            while not groups:
                await asyncio.sleep(0.1)
            await talk(host, groups, count=20)

        joins = [join(name, founders) for name, founders in overlapping(host).items()]
        await until_ending(host, talk_somewhere(), read_all(node, groups, seen), *joins)
    return seen


async def read_all(node: antiphon.Node, groups: list[antiphon.Group], seen: Seen) -> None:
    """Reads slowly now and then, and answers some messages in another group."""
    random = draw()
    async for event in node:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            seen.read(event)
        if random.random() < 0.05:
            await asyncio.sleep(random.random() * 0.2)
        if isinstance(event, antiphon.Message) and random.random() < 0.15 and not event.payload.startswith(b"answer"):
            group = groups[int(random.random() * len(groups))] if groups else None
            if group is not None and not group.is_over:
                await group.send(b"answer to " + event.payload[:20])


def play(seed: int) -> Play:
    mains = dict.fromkeys(names(seed, 4, 5), partial(main, rule=RULES[seed // 7 % len(RULES)]))
    return Play(mains, same_payloads, may_be_unknown=RETIRED)
