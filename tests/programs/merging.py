"""A state that parts and merges with its group (`MergingState` on the stack `domain`), under all faults: in the end all
have the same, and in it everything that was added by those that were not killed since."""

import asyncio

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import MergingState, union
from tests.programs.common import HEALED_S, Play, draw, names, node_at

GROUP = "basket"
ITEMS = 10


def add(basket: set[str], item: bytes, sender: antiphon.ProcessId) -> None:
    basket.add(item.decode())


async def main(host: Host) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The basket in the end, and what this life of the process has put into it."""
    added: list[str] = []
    async with node_at(host) as node:
        if host.starts == 1:
            group = await node.join(GROUP, members=host.members(), policy="partitionable", stack="domain")
        else:
            others = [address for name, address in host.members().items() if name != host.name]
            group = await node.join(GROUP, contacts=others, policy="partitionable", stack="domain")
        async with MergingState(group, set[str], set[str](), add, merge=union) as basket:
            await shop(host, basket, added)
            await host.calm.wait()
            await basket.until(lambda items: items.issuperset(added))
            await host.ending.wait()
            return tuple(sorted(basket.state)), tuple(added)


async def shop(host: Host, basket: "MergingState[set[str]]", added: list[str]) -> None:
    """Put things into the basket, the last one when the network has healed."""
    random = draw()
    loop = asyncio.get_running_loop()
    for number in range(ITEMS):
        if number == ITEMS - 1:
            await asyncio.sleep(max(0.0, HEALED_S - loop.time()))
        item = f"{host.name}{host.starts}:{number}"
        await basket.send(item.encode())
        added.append(item)
        await asyncio.sleep(random.random())


def same_for_all(result: Result) -> None:
    baskets = {basket for basket, _ in result.returned.values()}
    assert len(baskets) <= 1, f"baskets differ: {result.returned}"
    for basket in baskets:
        lost = [item for _, added in result.returned.values() for item in added if item not in basket]
        assert not lost, f"lost: {lost}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), same_for_all)
