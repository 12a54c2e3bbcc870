"""Founding by name: founders that take their incarnations from the clock, and those that start again."""

import asyncio
from collections.abc import Mapping

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.policies import Policy
from antiphon.runtime import DeclarationError, Group, JoinError, Message, Node, ViewChange
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK, Place, name_of, talk

STACKS = ("vector", "conversation")


async def started(names: str) -> dict[str, Node]:
    nodes = {name: Node(name, address=LOOPBACK, options=HASTY, linger_s=0.5) for name in names}
    for node in nodes.values():
        await node.start()
    return nodes


def listed(nodes: Mapping[str, Node]) -> dict[str, str]:
    return {name: node.address for name, node in nodes.items()}


async def found(
    nodes: Mapping[str, Node], members: Mapping[str, str], stack: str = "vector", policy: Policy = "primary"
) -> list[Place]:
    """All of `nodes` join at once."""
    groups: list[Group] = await asyncio.gather(
        *(
            node.join("g", members=members, policy=policy, stack=name_of(stack), found_after_s=0.3)
            for node in nodes.values()
        )
    )
    return [Place(node, group) for node, group in zip(nodes.values(), groups, strict=True)]


async def close(*nodes: Node) -> None:
    await asyncio.gather(*(node.close() for node in nodes))


def kill(node: Node) -> None:
    assert node._driver is not None
    node._driver.stop("killed")


async def again(node: Node) -> Node:
    """The process starts once more, at the same address."""
    kill(node)
    back = Node(node.process.name, address=node.address, options=HASTY, linger_s=0.5)
    await back.start()
    return back


async def in_one_view(groups: list[Group], count: int) -> None:
    await until(lambda: all(len(group.view.members) == count for group in groups))
    await until(lambda: len({group.view.members for group in groups}) == 1)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("policy", ["primary", "static"])
def test_founders_learn_each_others_incarnations(stack: str, policy: Policy) -> None:
    async def test() -> None:
        nodes = await started("abc")
        places = await found(nodes, listed(nodes), stack, policy)
        members = tuple(node.process for node in nodes.values())
        assert [place.group.view.members for place in places] == [members] * 3
        assert [place.group.view.id for place in places] == [1] * 3
        await talk(places)
        await close(*nodes.values())

    run(test)


def test_a_founder_that_is_missing_is_waited_for_and_let_in_later() -> None:
    async def test() -> None:
        nodes = await started("abc")
        members = listed(nodes)
        late = nodes.pop("c")
        places = await found(nodes, members)
        assert [len(place.group.view.members) for place in places] == [2, 2]
        places.append(Place(late, await late.join("g", members=members)))
        await in_one_view([place.group for place in places], 3)
        await talk(places)
        await close(*nodes.values(), late)

    run(test)


def test_a_minority_founds_nothing() -> None:
    async def test() -> None:
        nodes = await started("abc")
        with pytest.raises(JoinError, match="'a', the first of them, founds it when it has heard all"):
            await nodes["a"].join("g", members=listed(nodes), found_after_s=0.1, timeout_s=0.5)
        with pytest.raises(JoinError, match="'a', the first of them"):
            await nodes["b"].join("g", members=listed(nodes), found_after_s=0.1, timeout_s=0.5)
        places = await found(nodes, listed(nodes))  # by the same nodes, when all are there
        await talk(places)
        await close(*nodes.values())

    run(test)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_founder_that_is_restarted_at_once_comes_back_by_the_same_call(name: str, stack: str) -> None:
    """The first founder, too: it does not found a second group."""

    async def test() -> None:
        nodes = await started("abc")
        members = listed(nodes)
        places = {place.process.name: place for place in await found(nodes, members, stack)}
        for _ in range(3):
            before = nodes[name].process
            nodes[name] = await again(nodes[name])
            group = await nodes[name].join("g", members=members, stack=name_of(stack), found_after_s=0.3)
            places[name] = Place(nodes[name], group)
            await in_one_view([place.group for place in places.values()], 3)
            assert before not in group.view.members
            assert nodes[name].process in group.view.members
        for place in places.values():
            place.events.clear()
            await place.group.send(repr(place.process).encode())
        wanted = {repr(place.process).encode() for place in places.values()}
        for place in places.values():
            while wanted - {event.payload for event in place.events if isinstance(event, Message)}:
                await place.message()
        await close(*nodes.values())

    run(test)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_founder_that_is_restarted_while_the_group_is_founded_makes_no_second_group(name: str) -> None:
    async def test() -> None:
        nodes = await started("abc")
        members = listed(nodes)
        for delay_s in (0.0, 0.001, 0.003, 0.01, 0.05):
            group = f"g{delay_s}"
            joins = {
                each: asyncio.create_task(node.join(group, members=members, found_after_s=0.3))
                for each, node in nodes.items()
            }
            await asyncio.sleep(delay_s)
            joins[name].cancel()
            nodes[name] = await again(nodes[name])
            joins[name] = asyncio.create_task(nodes[name].join(group, members=members, found_after_s=0.3))
            groups = await asyncio.gather(*joins.values())
            await in_one_view(groups, 3)
            assert groups[0].view.members == groups[1].view.members == groups[2].view.members
            await asyncio.gather(*(each.leave() for each in groups))
        await close(*nodes.values())

    run(test)


def test_founders_that_meet_compare_their_declarations() -> None:
    async def test() -> None:
        nodes = await started("ab")
        members = listed(nodes)
        first = asyncio.create_task(nodes["a"].join("g", members=members, found_after_s=0.3))
        with pytest.raises(DeclarationError, match="rule conservative"):
            await nodes["b"].join("g", members=members, domain=CausalityDomain(rule="conservative"))
        assert (await first).view.members == (nodes["a"].process,)
        static = [
            nodes[name].join("s", members=members, policy="static", domain=CausalityDomain(name=name)) for name in "ab"
        ]
        results = await asyncio.gather(*static, return_exceptions=True)
        assert [type(result) for result in results] == [DeclarationError] * 2
        await close(*nodes.values())

    run(test)


def test_the_first_view_tells_of_all_founders() -> None:
    async def test() -> None:
        nodes = await started("ab")
        for place in await found(nodes, listed(nodes)):
            change = await place.until(ViewChange)
            assert isinstance(change, ViewChange)
            assert set(change.joined) == {node.process for node in nodes.values()}
        await close(*nodes.values())

    run(test)


def test_founders_that_have_all_left_meet_again() -> None:
    """View ids go on after the last that any of them was in."""

    async def test() -> None:
        nodes = await started("abc")
        last = 0
        for _ in range(2):
            places = await found(nodes, listed(nodes))
            assert {place.group.view.id for place in places} == {last + 1}
            for place in places:  # one after the other: the last one sees the most views
                last = max(last, place.group.view.id)
                assert await place.group.leave()
        await close(*nodes.values())

    run(test)
