"""Two leaves and their leaders: what goes to all is delivered in one order in all leaves, and what one sender sends, to
its leaf or to all, in the order of its calls.
"""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import Everywhere, Hierarchy, StateError
from tests.programs.common import PATIENCE_S, Play, draw, node_at, until_ending

LEAVES = {"north": ("a", "b", "c"), "south": ("d", "e")}
FIRST = "north"


async def main(host: Host) -> list[str]:
    seen: list[str] = []
    try:
        await take_part(host, seen)
    except* StateError:
        pass  # all leaders were gone that knew the sequence: it is over, and what was delivered is in order
    return seen


async def take_part(host: Host, seen: list[str]) -> None:
    leaf = next(name for name, members in LEAVES.items() if host.name in members)
    addresses = host.members()
    own = LEAVES[leaf]
    contacts = [addresses[name] for name in LEAVES[FIRST]] if leaf != FIRST else []
    async with node_at(host, linger_s=1.0) as node:
        if host.starts == 1 and host.name == own[0]:
            group = await node.join(leaf, members={host.name: host.at()}, policy="primary")
        else:
            others = [addresses[name] for name in own if name != host.name]
            group = await node.join(leaf, contacts=others, timeout_s=PATIENCE_S)
        async with Hierarchy(node, group, leaders="leaders", contacts=contacts) as hierarchy:
            await until_ending(host, talk(host, hierarchy), follow(node, hierarchy, seen))


async def talk(host: Host, hierarchy: Hierarchy) -> None:
    random = draw()
    for number in range(8):
        text = f"{host.name}/{host.starts} {number}".encode()
        if random.random() < 0.5:
            await hierarchy.send(text)
        else:
            await hierarchy.send_all(text)
        if random.random() < 0.5:
            await asyncio.sleep(2 * random.random())


async def follow(node: antiphon.Node, hierarchy: Hierarchy, seen: list[str]) -> None:
    last: dict[str, int] = {}
    async for event in hierarchy:
        if isinstance(event, antiphon.Excluded):
            raise antiphon.ExcludedError(event.group, node.process)
        if isinstance(event, Everywhere):
            seen.append(event.payload.decode())
        if isinstance(event, Everywhere | antiphon.Message):
            sender, number = event.payload.decode().split()
            assert int(number) > last.get(sender, -1), f"{event.payload!r} after {last[sender]}"
            last[sender] = int(number)


def one_order(result: Result) -> None:
    """Any two who have both have them in the same order."""
    for one in result.returned.values():
        for other in result.returned.values():
            common = [text for text in one if text in other]
            assert common == [text for text in other if text in one], f"{one} against {other}"
        assert len(one) == len(set(one)), f"twice: {one}"


def play(seed: int) -> Play:
    names = [name for members in LEAVES.values() for name in members]
    return Play(dict.fromkeys(names, main), one_order)
