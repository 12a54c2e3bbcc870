"""A replicated dictionary with state transfer: in the end all copies are equal, also those of newcomers."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

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


class Dictionary:
    """Entries, and how they are handed on."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def snapshot(self) -> Iterator[bytes]:
        frozen = self.entries.copy()
        return (json.dumps(item).encode() + b"\n" for item in frozen.items())

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        received = b"".join([chunk async for chunk in chunks])
        self.entries = dict(json.loads(line) for line in received.splitlines())

    def apply(self, line: str) -> None:
        key, _, value = line.partition(" ")
        self.entries.pop(key, None)
        if value:
            self.entries[key] = value


async def main(host: Host) -> tuple[str, int] | None:
    """All entries, and in which view; None if they are lost."""
    dictionary, lost = Dictionary(), LostState()
    async with node_at(host) as node:
        group = await enter(node, host, "dictionary")
        with lost:
            async with Service(group, snapshot=dictionary.snapshot, restore=dictionary.restore) as service:
                await until_ending(host, change(host, service), follow(node, service, dictionary))
    return None if lost.happened else (json.dumps(dictionary.entries), group.view.id)


async def change(host: Host, service: Service) -> None:
    random = draw()
    for number in range(15):
        key = "abcdef"[int(random.random() * 6)]
        value = "" if random.random() < 0.2 else f" {host.name}{host.starts}.{number}"
        await service.send(f"{key}{value}".encode(), order="agreed")
        await asyncio.sleep(random.random() * 0.6)
    await asyncio.sleep(max(0.0, HEALED_S - asyncio.get_running_loop().time()))
    await service.send(f"{host.name} healed".encode(), order="agreed")


async def follow(node: antiphon.Node, service: Service, dictionary: Dictionary) -> None:
    async for event in service:
        check_event(node, event)
        if isinstance(event, antiphon.Message):
            dictionary.apply(event.payload.decode())


def agree(result: Result) -> None:
    """Those who ended in one view have the same entries, in the same order of insertion."""
    check_loss(result, lost=None in result.returned.values())
    by_view: dict[int, set[str]] = {}
    for entries, view in filter(None, result.returned.values()):
        by_view.setdefault(view, set()).add(entries)
    assert all(len(found) == 1 for found in by_view.values()), f"copies differ: {result.returned}"


def play(seed: int) -> Play:
    return Play(dict.fromkeys(names(seed), main), agree)
