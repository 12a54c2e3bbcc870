"""Ready-made objects that part and merge with their group, under all faults: in the end all members have the same; the
counter has counted everything that was added by those that live, and the set holds it."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import ReplicatedCounter, ReplicatedSet
from tests.programs.common import HEALED_S, Play, draw, names, node_at

ITEMS = 8
Shown = tuple[tuple[str, ...], int, tuple[str, ...]]


async def main(host: Host) -> Shown:
    """What the objects hold in the end, and what this life has added."""
    others = [address for name, address in host.members().items() if name != host.name]
    added: list[str] = []
    async with node_at(host) as node:
        way = {"members": host.members()} if host.starts == 1 else {"contacts": others}
        groups = [await node.join(name, policy="partitionable", stack="domain", **way) for name in ("set", "counter")]
        async with ReplicatedSet(groups[0]) as items, ReplicatedCounter(groups[1]) as counter:
            await add(host, items, counter, added)
            await host.calm.wait()
            await host.ending.wait()
            return tuple(items), counter.value, tuple(added)


async def add(host: Host, items: ReplicatedSet, counter: ReplicatedCounter, added: list[str]) -> None:
    """Add things, the last one when the network has healed. What was added to the set counts one."""
    random = draw()
    loop = asyncio.get_running_loop()
    for number in range(ITEMS):
        if number == ITEMS - 1:
            await asyncio.sleep(max(0.0, HEALED_S - loop.time()))
        item = f"{host.name}{host.starts}:{number}"
        try:
            assert await items.add(item), "it was there before"
            await counter.add()
        except (antiphon.ClosedError, TimeoutError):
            continue
        added.append(item)
        await asyncio.sleep(random.random())


def same_for_all(result: Result) -> None:
    shown = {(items, value) for items, value, _ in result.returned.values()}
    assert len(shown) <= 1, f"copies differ: {result.returned}"
    for items, value in shown:
        lost = [item for _, _, added in result.returned.values() for item in added if item not in items]
        assert not lost, f"lost: {lost}"
        assert value >= sum(len(added) for _, _, added in result.returned.values()), f"counted {value}: {items}"
        assert value <= len(items), f"something was counted twice: {value} of {items}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), same_for_all)
