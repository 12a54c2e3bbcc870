"""A group on the stack `domain` whose messages are for chosen members, at all levels, under all faults; in half of the
seeds its views part and merge. Beside the audit, the programs themselves compare what they were handed: nobody is
handed what is not for it, and members that go from one view to the same next one were handed the same of what is for
both, ordered messages in one order."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from tests.programs.common import (
    HEALED_S,
    LEVELS,
    Play,
    check_event,
    draw,
    enter,
    names,
    node_at,
    payload,
    until_ending,
)

GROUP = "chosen"
Handed = tuple[str, int, str, bool]
"""Sender, number, destinations (these incarnations alone), and whether it is ordered."""
Stay = tuple[int, list[Handed]]
"""A view, and what was handed over in it."""
Returned = tuple[str, list[Stay]]
"""A process, and its views."""


async def join(node: antiphon.Node, host: Host, parts: bool) -> antiphon.Group:
    if not parts:
        return await enter(node, host, GROUP, stack="domain")
    if host.starts == 1:
        return await node.join(GROUP, members=host.members(), policy="partitionable", stack="domain")
    others = [address for name, address in host.members().items() if name != host.name]
    return await node.join(GROUP, contacts=others, policy="partitionable", stack="domain")


async def part(host: Host) -> Returned:
    return await take_part(host, True)


async def stay(host: Host) -> Returned:
    return await take_part(host, False)


async def take_part(host: Host, parts: bool) -> Returned:
    stays: list[Stay] = []
    async with node_at(host) as node:
        group = await join(node, host, parts)
        await until_ending(host, speak(host, group), read(node, group, stays))
        return repr(node.process), stays


async def speak(host: Host, group: antiphon.Group) -> None:
    """Send to all kinds of subsets at all levels, and once more to all when the network has healed."""
    random = draw()
    loop = asyncio.get_running_loop()
    for number in range(16):
        last = number == 15
        if last:
            await asyncio.sleep(max(0.0, HEALED_S - loop.time()))
        members = list(group.view.members)
        to = random.sample(members, random.randint(1, len(members))) if members and not last else None
        named = ",".join(sorted(repr(member) for member in to)) if to else ""
        message = f"{named};".encode() + payload(random, host, number)
        try:
            await group.send(message, order=LEVELS[int(random.random() * len(LEVELS))], to=to)
        except antiphon.UsageError:
            assert to is not None  # one of them is gone since
        if random.random() < 0.7:
            await asyncio.sleep(random.random() ** 2)


async def read(node: antiphon.Node, group: antiphon.Group, stays: list[Stay]) -> None:
    async for event in group:
        check_event(node, event)
        if isinstance(event, antiphon.ViewChange):
            stays.append((event.view.id, []))
        elif isinstance(event, antiphon.Message):
            named = event.payload.split(b";")[0].decode()
            assert not named or repr(node.process) in named.split(","), f"{event} at {node.process}"
            ordered = event.order in ("agreed", "safe")
            stays[-1][1].append((repr(event.sender), event.number, named, ordered))


def both(handed: list[Handed], one: str, other: str) -> list[Handed]:
    """What of this is for both."""
    return [item for item in handed if not item[2] or {one, other} <= set(item[2].split(","))]


def check(result: Result) -> None:
    seen: dict[tuple[int, int], list[tuple[str, list[Handed]]]] = {}
    for name, stays in result.returned.values():
        for place, (view, handed) in enumerate(stays):
            following = stays[place + 1][0] if place + 1 < len(stays) else 0
            seen.setdefault((view, following), []).append((name, handed))
    for (view, following), companions in seen.items():
        for one, mine in companions:
            for other, theirs in companions:
                a, b = both(mine, one, other), both(theirs, one, other)
                where = f"{one} and {other} in view {view}, before {following}"
                assert set(a) == set(b), f"{where}: {set(a) ^ set(b)}"
                assert [item for item in a if item[3]] == [item for item in b if item[3]], f"{where}: order"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), part if seed % 2 else stay), check)
