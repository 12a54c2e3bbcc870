"""A hierarchical group on real sockets: all hear all, in one order, also when leaders die."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from antiphon import ClosedError, Message, Node, UsageError
from antiphon.toolkit import Everywhere, Hierarchy
from antiphon.toolkit.hierarchy import Down
from antiphon.toolkit.messages import OWN
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK


class Place:
    """A node, its end of the hierarchy, and what it has read there."""

    def __init__(self, node: Node, hierarchy: Hierarchy) -> None:
        self.node = node
        self.hierarchy = hierarchy
        self.near: list[bytes] = []
        self.both: list[bytes] = []
        self.far: list[tuple[str, int, bytes]] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.hierarchy:
            if isinstance(event, Message):
                self.near.append(event.payload)
                self.both.append(event.payload)
            elif isinstance(event, Everywhere):
                self.far.append((event.origin.name, event.number, event.payload))
                self.both.append(event.payload)

    def kill(self) -> None:
        driver = self.node._driver
        assert driver is not None
        driver.stop("killed")

    async def close(self) -> None:
        await self.hierarchy.__aexit__(None, None, None)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.node.close()


@asynccontextmanager
async def leaves(*names: str) -> AsyncIterator[list[list[Place]]]:
    """One leaf for each string, one member for each letter in it; all leaders are in their group."""
    made: list[list[Place]] = []
    try:
        for name in names:
            made.append([])
            for letter in name:
                made[-1].append(await enter(letter, f"leaf {name}", made[-1], made[0] if len(made) > 1 else []))
        leading = [place for leaf in made for place in leaf[:2]]
        await until(lambda: all(len(leading_names(place)) == len(leading) for place in leading))
        yield made
    finally:
        await asyncio.gather(*(place.close() for leaf in made for place in leaf))


async def enter(name: str, leaf: str, others: list[Place], elsewhere: list[Place]) -> Place:
    node = Node(name, address=LOOPBACK, incarnation=1, options=HASTY, linger_s=0.5)
    await node.start()
    if others:
        group = await node.join(leaf, contacts=[place.node.address for place in others])
    else:
        group = await node.join(leaf, members={name: node.address}, policy="primary")
    contacts = [place.node.address for place in elsewhere]
    hierarchy = Hierarchy(node, group, leaders="leaders", contacts=contacts)
    return Place(node, await hierarchy.__aenter__())


def test_near_stays_near_and_far_goes_everywhere_in_one_order() -> None:
    async def test() -> None:
        async with leaves("abc", "de") as (first, second):
            await first[2].hierarchy.send(b"near")
            for turn in range(10):
                for place in (first[2], second[1], first[0]):
                    await place.hierarchy.send_all(b"%d" % turn)
            everyone = [*first, *second]
            await until(lambda: all(len(place.far) == 30 for place in everyone))
            assert all(place.far == first[0].far for place in everyone)
            for origin in "cea":
                assert [number for name, number, _ in first[0].far if name == origin] == list(range(1, 11))
            await until(lambda: all(place.near == [b"near"] for place in first))
            assert [place.near for place in second] == [[], []]
            copy = Down(1, ("c", 1), 1, b"0")  # as a leader might repeat it that does not know that it was done
            await first[1].hierarchy._leaf.send(OWN + msgspec.msgpack.encode(copy))
            await first[1].hierarchy.send(b"after the copy")
            await until(lambda: all(place.near == [b"near", b"after the copy"] for place in first))
            assert all(len(place.far) == 30 for place in everyone)
            # No vector time is longer than its group: the leaf's, and that of the leaders.
            assert len(second[0].hierarchy._leaf.view.members) == 2
            assert first[2].hierarchy._leaders is None

    run(test)


def test_leaders_die_and_nothing_is_lost_or_doubled() -> None:
    async def test() -> None:
        async with leaves("abc", "def") as (first, second):
            sending = asyncio.create_task(chatter(second[2], 150))
            await until(lambda: len(first[2].far) > 20)
            first[0].kill()
            await until(lambda: leading_names(first[2]) == ["b", "c", "d", "e"])  # another has taken its place
            second[0].kill()
            await until(lambda: leading_names(first[2]) == ["b", "c", "e", "f"])
            await sending
            everyone = [*first[1:], *second[1:]]
            await until(lambda: all(len(place.far) >= 150 for place in everyone))
            for place in everyone:
                assert place.far == [("f", number, b"%d" % number) for number in range(1, 151)]

    run(test)


def leading_names(place: Place) -> list[str]:
    group = place.hierarchy._leaders
    return [] if group is None else sorted(member.name for member in group.view.members)


async def chatter(place: Place, count: int) -> None:
    """Send so many, never more than a few ahead of what has come back."""
    for number in range(1, count + 1):
        await place.hierarchy.send_all(b"%d" % number)
        while len(place.far) < number - 5:
            await asyncio.sleep(0.001)


def test_a_full_leaf_takes_no_more() -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1, options=HASTY, linger_s=0.1) as node:
            group = await node.join("leaf", members={"a": node.address}, policy="primary")
            with pytest.raises(UsageError, match="join another"):
                async with Hierarchy(node, group, leaders="leaders", size_max=0):
                    pass

    run(test)


def test_send_and_send_all_of_one_sender_keep_the_order_of_the_calls() -> None:
    async def test() -> None:
        async with leaves("abc", "de") as (first, second):
            sender = first[2]
            for turn in range(10):
                await sender.hierarchy.send_all(b"far %d" % turn)
                await sender.hierarchy.send(b"near %d" % turn, order=("fifo", "causal", "agreed")[turn % 3])
            expected = [b"%s %d" % (word, turn) for turn in range(10) for word in (b"far", b"near")]
            await until(lambda: all(place.both == expected for place in first))
            await until(lambda: all(len(place.far) == 10 for place in second))

    run(test)


def test_a_send_that_waits_for_what_cannot_come_down_ends_with_the_hierarchy() -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, options=HASTY, linger_s=0.1, incarnation=1) as node:
            group = await node.join("leaf", members={"a": node.address}, policy="primary")
            hierarchy = Hierarchy(node, group, leaders="leaders", contacts=["127.0.0.1:1"])
            async with hierarchy:
                await hierarchy.send_all(b"never")  # the leaders cannot be reached
                waiting = asyncio.create_task(hierarchy.send(b"after it"))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                await hierarchy.send(b"now", order="reliable")
            with pytest.raises(ClosedError, match="no longer a member of leaf"):
                await waiting

    run(test)
