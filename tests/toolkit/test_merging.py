"""States that merge after a partition: the policies, and runs in virtual time and on real sockets."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

import antiphon
from antiphon.faults import Delay, Loss, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate
from antiphon.toolkit import (
    ComponentState,
    MergingState,
    SharedDictionary,
    largest_wins,
    last_writer,
    union,
)
from tests.runtime.cluster import run, until
from tests.runtime.test_node_partitionable import islands, part

SECOND_NS = 1000 * MILLISECOND_NS
NAMES = ("ann", "bob", "cid", "dan")
seen: dict[str, list[Sequence[ComponentState[set[str]]]]] = {}
"""What `merge` was called with, by process; of one run."""


def component(state: object, members: str, write: int) -> ComponentState[object]:
    return ComponentState(state, tuple(map(antiphon.ProcessId, members)), (1,), 1, (write, members[0]))


def test_the_largest_component_wins_and_of_equal_ones_the_last_to_write() -> None:
    assert largest_wins([component("one", "ab", 1), component("two", "c", 9)]) == "one"
    assert largest_wins([component("one", "a", 1), component("two", "c", 9)]) == "two"


def test_the_last_writer_wins() -> None:
    assert last_writer([component("one", "ab", 1), component("two", "c", 9)]) == "two"


def test_sets_and_dictionaries_are_united() -> None:
    assert union([component({1}, "a", 1), component({2}, "b", 2)]) == {1, 2}
    later, earlier = component({"k": "late", "x": "1"}, "a", 5), component({"k": "early", "y": "2"}, "b", 4)
    assert union([later, earlier]) == {"k": "late", "x": "1", "y": "2"}


def test_operations_in_any_order_are_refused() -> None:
    class Channel:
        process = antiphon.ProcessId("a")
        name = "g"

    with pytest.raises(antiphon.UsageError, match="one order"):
        MergingState(Channel(), set[str], set(), add, merge=union, order="causal")  # type: ignore[arg-type]


def add(basket: set[str], item: bytes, sender: antiphon.ProcessId) -> None:
    basket.add(f"{item.decode()} of {sender.name}")


async def shop(host: Host) -> tuple[tuple[str, ...], int]:
    """Put things into the basket, on whatever side."""
    own = seen.setdefault(host.name, [])

    def merge(components: Sequence[ComponentState[set[str]]]) -> set[str]:
        own.append(components)
        merged: set[str] = union(components)
        return merged

    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join("basket", members=host.members(), policy="partitionable", stack="domain")
        async with MergingState(group, set[str], set[str](), add, merge=merge) as basket:
            for number in range(8):
                await asyncio.sleep(0.5)
                await basket.send(f"{number}".encode())
            await host.ending.wait()
            await basket.until(lambda items: len(items) == 8 * len(NAMES))
            return tuple(sorted(basket.state)), basket.merges


def cut(random: Random) -> FaultPlan:
    """Two partitions, drawn by chance, one perhaps in the middle of the merge after the other."""
    cuts = []
    begin_ns = int(random.uniform(0.5, 1.5) * SECOND_NS)
    for length_s in (random.uniform(1.2, 2.0), random.uniform(0.1, 2.0)):
        place = {name: random.randrange(3) for name in NAMES}
        end_ns = begin_ns + int(length_s * SECOND_NS)
        for island in range(3):
            here = frozenset(name for name in NAMES if place[name] == island)
            cuts.append(NetworkFault(Partition(here, frozenset(NAMES) - here, begin_ns, end_ns)))
        begin_ns = end_ns + int(random.uniform(0.0, 0.4) * SECOND_NS)
    if random.random() < 0.5:
        cuts.append(NetworkFault(Loss(0.05)))
    return FaultPlan(Delay(MILLISECOND_NS, 3 * MILLISECOND_NS), cuts, heal_ns=7 * SECOND_NS)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_and_all_are_called_alike(seed: int) -> None:
    seen.clear()
    result = simulate(dict.fromkeys(NAMES, shop), seed=seed, faults=cut(Random(seed)))
    assert result.kept, result.report("")
    wanted = tuple(sorted(f"{number} of {name}" for name in NAMES for number in range(8)))
    assert {state for state, _ in result.returned.values()} == {wanted}
    last = [calls[-1] for calls in seen.values()]
    assert all(calls == last[0] for calls in last)
    assert {member.name for component in last[0] for member in component.members} == set(NAMES)


async def fail_at_bob(host: Host) -> tuple[int, str]:
    """Bob's `merge` raises when the partition ends. What each says at the end: its items, and what it saw fail."""
    told: list[str] = []

    def merge(components: Sequence[ComponentState[set[str]]]) -> set[str]:
        if host.name == "bob" and any(len(each.state) > 10 for each in components):  # not when they find each other
            raise ValueError("no such merge")
        merged: set[str] = union(components)
        return merged

    async with antiphon.Node(host.name, address=host.at(), queue_messages_max=30) as node:
        group = await node.join("basket", members=host.members(), policy="partitionable", stack="domain")
        basket = MergingState(group, set[str], set[str](), add, merge=merge)
        try:
            async with basket:
                for number in range(60):
                    await asyncio.sleep(0.1)
                    try:
                        await asyncio.wait_for(basket.send(f"{number}".encode()), 2)
                    except ValueError as error:
                        told.append(f"send: {error}")
                        break
                try:
                    await basket.until(lambda items: len(items) >= 150)
                except ValueError as error:
                    told.append(f"until: {error}")
                await host.ending.wait()
        except ValueError as error:
            told.append(f"end: {error}")
        assert not basket.is_merging
        return len(basket.state), " ".join(told)


def test_a_merge_that_raises_is_told_and_holds_nobody_up() -> None:
    there, here = frozenset(("cid",)), frozenset(("ann", "bob"))
    sides = ((here, there), (there, here))
    cuts = [NetworkFault(Partition(one, other, SECOND_NS, 3 * SECOND_NS)) for one, other in sides]
    plan = FaultPlan(Delay(MILLISECOND_NS, 3 * MILLISECOND_NS), cuts, heal_ns=7 * SECOND_NS)
    result = simulate(dict.fromkeys(NAMES[:3], fail_at_bob), seed=1, faults=plan, active_s=7)
    assert result.kept, result.report("")
    assert result.returned["bob"][1] == "send: no such merge until: no such merge end: no such merge"
    assert result.returned["ann"] == result.returned["cid"]
    assert result.returned["ann"][0] >= 150


def test_a_dictionary_on_real_sockets_merges() -> None:
    async def test() -> None:
        async with islands("a", "b", "c") as made:
            for island in made:
                island.reading.cancel()
            await asyncio.gather(*(island.reading for island in made), return_exceptions=True)
            copies = [SharedDictionary(island.group) for island in made]
            async with copies[0], copies[1], copies[2]:
                await until(lambda: all(island.names() == "a b c" for island in made))
                await copies[0].set("colour", "red")
                await asyncio.gather(*(copy.until(lambda entries: entries == {"colour": "red"}) for copy in copies))
                part(made, "ab", "c")
                await until(lambda: [island.names() for island in made] == ["a b", "a b", "c"])
                assert [island.group.is_primary for island in made] == [True, True, False]
                await copies[0].set("size", "large")
                await copies[2].set("shape", "round")
                await copies[2].remove("colour")
                await copies[1].until(lambda entries: entries == {"colour": "red", "size": "large"})
                await copies[2].until(lambda entries: entries == {"shape": "round"})
                part(made)
                wanted = {"colour": "red", "size": "large", "shape": "round"}
                await asyncio.gather(*(copy.until(lambda entries: entries == wanted) for copy in copies))
                assert all(island.group.is_primary for island in made)

    run(test)
