"""A group that stands still for want of a majority: what waits for it, and the ways out."""

import asyncio
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager

import pytest

from antiphon import Message, Node, Stalled, UsageError, ViewChange
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.events import StreamEvent
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK, Place, enter, founded


@asynccontextmanager
async def two_and_two() -> AsyncIterator[tuple[Place, Place, Place, Place]]:
    """p and q in group "a", q and r in group "b", of one causality domain: p and q in a, q and r in b."""
    nodes = [Node(name, address=LOOPBACK, options=HASTY, incarnation=1, linger_s=0.5) for name in "pqr"]
    for node in nodes:
        await node.start()
    p, q, r = nodes
    try:
        places = [
            Place(node, await node.join(name, members={each.process.name: each.address for each in members}))
            for name, members in (("a", (p, q)), ("b", (q, r)))
            for node in members
        ]
        yield places[0], places[1], places[2], places[3]
    finally:
        await asyncio.gather(*(node._close(False, 0.0) for node in nodes))


async def next_message(place: Place, within_s: float) -> StreamEvent | None:
    try:
        async with asyncio.timeout(within_s):
            return await place.until(Message)
    except TimeoutError:
        return None


def test_what_waits_in_a_group_that_stands_still_holds_up_what_must_come_after_until_it_is_left() -> None:
    async def test() -> None:
        async with two_and_two() as (p_a, q_a, q_b, r_b):
            p_a.kill()
            await q_a.group.send(b"nobody will have this")
            await q_a.until(Stalled)
            await q_b.group.send(b"after it")
            assert await next_message(r_b, 0.5) is None
            assert not await q_a.group.leave(timeout_s=0.1)
            message = await next_message(r_b, 5.0)
            assert isinstance(message, Message)
            assert message.payload == b"after it"
            await q_b.group.send(b"and more")
            assert isinstance(await next_message(r_b, 5.0), Message)

    run(test)


def test_a_group_that_stands_still_with_nothing_undone_holds_up_nobody() -> None:
    async def test() -> None:
        async with two_and_two() as (p_a, q_a, q_b, r_b):
            for place in (p_a, q_a):
                await place.group.send(b"everybody has this", order="agreed")
                await place.group.flush()
            p_a.kill()
            await q_a.until(Stalled)
            waiting = asyncio.create_task(q_a.group.send(b"this waits at the call"))
            assert not q_a.group.send_now(b"and this is not taken")
            for number in range(10):
                await q_b.group.send(b"%d" % number, order="agreed" if number % 2 else "causal")
                message = await next_message(r_b, 5.0)
                assert isinstance(message, Message)
                assert message.payload == b"%d" % number
            assert not waiting.done()
            await q_a.group.leave(timeout_s=0.0)
            with pytest.raises(UsageError):
                await waiting

    run(test)


def test_those_that_are_left_of_a_lost_majority_go_on_when_told_to() -> None:
    async def test() -> None:
        async with founded("abcde") as places:
            survivors = [places[1], places[4]]
            with pytest.raises(UsageError, match="nothing is to recover"):
                await survivors[0].group.recover(confirm="g")
            for place in (places[0], places[2], places[3]):
                place.kill()
            for place in survivors:
                await place.until(Stalled)
            with pytest.raises(UsageError, match="confirm='g'"):
                await survivors[1].group.recover(confirm="yes")
            view = await survivors[1].group.recover(confirm="g")
            assert view.members == (ProcessId("b"), ProcessId("e"))
            for place in survivors:
                await place.view("b/1", "e/1")
            back = await enter("a", [survivors[0].node.address], incarnation=2)
            await survivors[0].view("b/1", "e/1", "a/2")
            await back.group.send(b"hello again")
            assert await survivors[1].message() == b"hello again"
            await asyncio.gather(*(place.node.close() for place in (*survivors, back)))

    run(test)


def test_a_group_that_was_left_can_be_joined_again_by_the_same_node() -> None:
    async def test() -> None:
        async with founded("ab") as (a, b):
            for _ in range(3):
                await b.group.send(b"here")
                assert await a.message() == b"here"
                assert await b.group.leave()
                change = await a.view("a/1")
                assert isinstance(change, ViewChange)
                assert (change.left, change.failed) == ((ProcessId("b"),), ())
                b = Place(b.node, await b.node.join("g", contacts=[a.node.address]))
                change = await a.view("a/1", "b/1")
                assert (change.joined, change.failed) == ((ProcessId("b"),), ())
            assert await b.node.close()

    run(test)


def test_a_leaver_whose_next_life_is_at_the_door_has_left_and_not_failed() -> None:
    async def test() -> None:
        async with founded("abc") as places:
            a, b = places[:2]
            leaving = asyncio.create_task(b.group.leave())
            back = await a.join("b", incarnation=2)
            assert await leaving
            changes: list[ViewChange] = []
            while not changes or ProcessId("b", 2) not in changes[-1].view.members:
                change = await a.until(ViewChange)
                assert isinstance(change, ViewChange)
                changes.append(change)
            assert [process for change in changes for process in change.left] == [ProcessId("b")]
            assert [process for change in changes for process in change.failed] == []
            await back.node.close()

    run(test)


def test_what_is_kept_does_not_grow_with_groups_that_were_left() -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK, incarnation=1, options=HASTY) as node:
            for number in range(30):
                group = await node.join(f"group {number}", members={"a": node.address})
                await group.send(b"x")
                assert await group.leave()
            driver = node._driver
            assert driver is not None
            kept: list[Sized] = [
                node._groups,
                driver._members,
                driver._joins,
                driver._addresses._views,
                driver._first_views,
                driver._left,
            ]
            assert [len(each) for each in kept] == [0] * len(kept)
            assert not driver._silenced
            assert not node._streams._members if node._streams is not None else False

    run(test)
