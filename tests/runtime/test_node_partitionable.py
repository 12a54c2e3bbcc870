"""Groups that part and merge, through the public API on real sockets and in virtual time."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate
from tests.runtime.cluster import run, until
from tests.runtime.places import founded, talk

SECOND_NS = 1000 * MILLISECOND_NS
FOREVER_NS = 1 << 60


class Island:
    """A node in a group that may part, and all that it has read."""

    def __init__(self, node: antiphon.Node, cut: Partition) -> None:
        self.node = node
        self.cut = cut
        self.events: list[object] = []
        self.group: antiphon.Group

    async def join(self, members: dict[str, str]) -> None:
        self.group = await self.node.join("g", members=members, policy="partitionable", stack="domain")
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        async for event in self.group:
            self.events.append(event)

    def names(self) -> str:
        return " ".join(sorted(process.name for process in self.group.view.members))

    def payloads(self) -> list[bytes]:
        return [event.payload for event in self.events if isinstance(event, antiphon.Message)]


@asynccontextmanager
async def islands(*names: str) -> AsyncIterator[list[Island]]:
    """Nodes on loopback, each of which can be cut off from the others."""
    cuts = [Partition(frozenset(), frozenset(), 0, FOREVER_NS) for _ in names]
    made = [
        Island(
            antiphon.Node(name, address="127.0.0.1:0", seed=seed, faults=[cut], options=antiphon.Options.fast()), cut
        )
        for seed, (name, cut) in enumerate(zip(names, cuts, strict=True))
    ]
    for island in made:
        await island.node.start()
    members = {island.node.process.name: island.node.address for island in made}
    for island in made:
        await island.join(members)
    try:
        yield made
    finally:
        for island in made:
            island.reading.cancel()
        await asyncio.gather(*(island.node.close() for island in made))


def part(made: list[Island], *sides: str) -> None:
    """Cut all links between these sets of nodes; none: heal."""
    for island in made:
        own = next((side for side in sides if island.node.process.name in side), "")
        here = {other.node.address for other in made if not own or other.node.process.name in own}
        there = {other.node.address for other in made} - here
        island.cut.sources, island.cut.destinations = frozenset(here), frozenset(there)


def test_both_sides_go_on_and_find_together_again() -> None:
    async def test() -> None:
        async with islands("a", "b", "c", "d") as made:
            await until(lambda: all(island.names() == "a b c d" for island in made))
            part(made, "ab", "cd")
            await until(lambda: [island.names() for island in made] == ["a b", "a b", "c d", "c d"])
            await made[0].group.send(b"left", order="safe")
            await made[3].group.send(b"right", order="agreed")
            await until(lambda: b"left" in made[1].payloads() and b"right" in made[2].payloads())
            part(made)
            await until(lambda: all(island.names() == "a b c d" for island in made))
            await made[2].group.send(b"together", order="safe")
            await until(lambda: all(island.payloads()[-1:] == [b"together"] for island in made))
            assert [island.payloads()[0] for island in made] == [b"left", b"left", b"right", b"right"]
            told = [event for event in made[0].events if isinstance(event, antiphon.TransitionalView)]
            assert {process.name for process in told[-1].members} == {"a", "b"}

    run(test)


def test_a_member_leaves_and_another_comes_by_contacts() -> None:
    async def test() -> None:
        async with islands("a", "b") as made:
            await until(lambda: all(island.names() == "a b" for island in made))
            third = antiphon.Node("c", address="127.0.0.1:0", seed=9, options=antiphon.Options.fast())
            async with third:
                group = await third.join("g", contacts=[made[0].node.address], policy="partitionable", stack="domain")
                await until(lambda: made[1].names() == "a b c")
                assert await group.leave()
            await until(lambda: made[0].names() == made[1].names() == "a b")
            changes = [event for event in made[0].events if isinstance(event, antiphon.ViewChange)]
            assert [process.name for process in changes[-1].left] == ["c"]

    run(test)


async def leave_and_come_back(host: Host) -> str:
    async with antiphon.Node(host.name, address=host.at()) as node:
        island = Island(node, Partition(frozenset(), frozenset(), 0, 0))
        await island.join(host.members())
        await asyncio.sleep(1)
        if host.name == "b":
            assert await island.group.leave()
            await island.reading
            await island.join(host.members())
        await host.ending.wait()
        island.reading.cancel()
        return island.names()


def test_a_process_that_left_is_taken_back_in_the_same_life() -> None:
    plan = FaultPlan(Delay(MILLISECOND_NS // 10, MILLISECOND_NS), [], heal_ns=3 * SECOND_NS)
    result = simulate(dict.fromkeys("abc", leave_and_come_back), seed=1, faults=plan, active_s=3)
    assert result.kept, result.report("")
    assert set(result.returned.values()) == {"a b c"}


def test_a_barrier_and_another_stack_are_refused() -> None:
    async def test() -> None:
        async with islands("a") as made:
            with pytest.raises(antiphon.UsageError, match="may part, so it has no barriers"):
                await made[0].group.barrier(b"")
            with pytest.raises(antiphon.UsageError, match="stack 'vector' has no policy 'partitionable'"):
                await made[0].node.join("h", contacts=["127.0.0.1:1"], policy="partitionable")

    run(test)


PAGE = Path(__file__).parents[2] / "docs" / "partitions.md"


def basket_of_the_page() -> Callable[..., Coroutine[Any, Any, tuple[str, ...]]]:
    """The example in docs/partitions.md."""
    block = next(
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "def basket" in code
    )
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    found: Callable[..., Coroutine[Any, Any, tuple[str, ...]]] = names["basket"]
    return found


async def shop(host: Host) -> tuple[str, ...]:
    return await basket_of_the_page()(host.name, host.at(), host.members(), host.ending)


@pytest.mark.parametrize("seed", range(3))
def test_a_basket_on_both_sides_of_a_partition_merges(seed: int) -> None:
    names = ("ann", "bob", "cid")
    here, there = frozenset(("ann",)), frozenset(("bob", "cid"))
    cuts = [
        NetworkFault(Partition(one, other, SECOND_NS, 4 * SECOND_NS)) for one, other in ((here, there), (there, here))
    ]
    plan = FaultPlan(Delay(MILLISECOND_NS, 3 * MILLISECOND_NS), cuts, heal_ns=5 * SECOND_NS)
    result = simulate(dict.fromkeys(names, shop), seed=seed, faults=plan)
    assert result.kept, result.report("")
    assert set(result.returned.values()) == {tuple(sorted(f"{name}{n}" for name in names for n in range(8)))}


def test_a_joiner_of_a_group_that_is_on_another_stack_is_told_and_takes_no_part() -> None:
    """It would be alone in a group of its own, for ever."""

    async def test() -> None:
        async with founded(names="ab") as places:
            async with antiphon.Node("c", address="127.0.0.1:0", options=antiphon.Options.fast()) as node:
                contacts = [places[0].node.address]
                group = await node.join("g", contacts=contacts, policy="partitionable", stack="domain")
                await until(lambda: group.is_over)
                with pytest.raises(antiphon.DeclarationError, match=r"partitionable.*declared it as.*primary"):
                    await group.send(b"to nobody")
            await talk(places)

    run(test)


@pytest.mark.parametrize("stack", ["vector", "domain"])
def test_who_asks_for_a_group_that_may_part_under_another_policy_is_refused(stack: antiphon.StackName) -> None:
    async def test() -> None:
        async with islands("a", "b") as (a, b):
            await until(lambda: a.names() == b.names() == "a b")
            async with antiphon.Node("c", address="127.0.0.1:0", options=antiphon.Options.fast()) as node:
                with pytest.raises(antiphon.DeclarationError, match=r"declared it as.*partitionable"):
                    await node.join("g", contacts=[a.node.address], policy="primary", stack=stack)
            await a.group.send(b"still here")
            await until(lambda: b.payloads() == [b"still here"])

    run(test)
