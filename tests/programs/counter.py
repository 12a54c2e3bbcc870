"""The replicated counter: each member adds numbers; in the end all counters show the same."""

import asyncio
from collections.abc import AsyncIterator

import antiphon
from antiphon.testing import Host, Result
from antiphon.toolkit import Service
from tests.programs.common import (
    HEALED_S,
    LostState,
    Play,
    check_event,
    check_loss,
    draw,
    enter,
    names,
    node_at,
    until_ending,
)


class Counter:
    """A number, and how it is handed on."""

    def __init__(self) -> None:
        self.value = 0
        self.additions = 0

    def snapshot(self) -> list[bytes]:
        return [b"%d %d" % (self.value, self.additions)]

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        value, additions = b"".join([chunk async for chunk in chunks]).split()
        self.value, self.additions = int(value), int(additions)


async def main(host: Host) -> tuple[int, int, int] | None:
    """The value, how many additions, and in which view; None if the counter is lost."""
    counter, lost = Counter(), LostState()
    async with node_at(host) as node:
        group = await enter(node, host, "counter")
        with lost:
            async with Service(group, snapshot=counter.snapshot, restore=counter.restore) as service:
                await until_ending(host, add(service), count(node, service, counter))
    return None if lost.happened else (counter.value, counter.additions, group.view.id)


async def add(service: Service) -> None:
    random = draw()
    for _ in range(12):
        await service.send(b"%d" % int(random.random() * 100))
        await asyncio.sleep(random.random() * 0.8)
    await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
    await service.send(b"1000")


async def count(node: antiphon.Node, service: Service, counter: Counter) -> None:
    async for event in service:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            counter.value += int(event.payload)
            counter.additions += 1


def agree(result: Result) -> None:
    """Those who ended in one view count alike."""
    check_loss(result, lost=None in result.returned.values())
    by_view: dict[int, set[tuple[int, int]]] = {}
    for value, additions, view in filter(None, result.returned.values()):
        by_view.setdefault(view, set()).add((value, additions))
    assert all(len(found) == 1 for found in by_view.values()), f"counters differ: {result.returned}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), agree)
