"""Nodes made with `rejoin`: whoever was given up comes back by itself, as the next incarnation, in the same stream."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.kernel.identity import ProcessId
from antiphon.pipeline import reference
from antiphon.runtime import Excluded, Message, Node, Stalled, ViewChange
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, LOOPBACK, Place, Walls, everyone, founded, talk


def test_a_minority_comes_back_when_the_network_heals() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("abcde", faults=walls.faults, rejoin=True) as places:
            few, many = places[:2], places[2:]  # the coordinator is among the few
            walls.between(few, many)
            await everyone(many, "c/1", "d/1", "e/1")
            await few[0].until(Stalled)
            walls.between()
            for place in few:
                event = await place.until(Excluded)
                assert isinstance(event, Excluded)
                assert (event.view.id, event.unsettled) == (1, 0)
            names = {"a/2", "b/2", "c/1", "d/1", "e/1"}
            for place in places:
                members: tuple[ProcessId, ...] = ()
                while {repr(member) for member in members} != names:
                    change = await place.until(ViewChange)
                    assert isinstance(change, ViewChange)
                    members = change.view.members
            assert [repr(place.process) for place in few] == ["a/2", "b/2"]
            await talk(places)

    run(test)


def test_what_has_not_left_goes_out_in_the_next_life_and_what_may_be_lost_is_counted() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded(faults=walls.faults, rejoin=True) as places:
            alone = places[2]
            walls.between(places[:2], [alone])
            await everyone(places[:2], "a/1", "b/1")
            await alone.until(Stalled)
            payloads = [b"%06d" % number * 200 for number in range(6000)]  # more than the engine's pending queue takes
            sending = asyncio.create_task(alone.group.send_many(payloads))
            await asyncio.sleep(0)
            walls.between()
            event = await alone.until(Excluded)
            assert isinstance(event, Excluded)
            assert 0 < event.unsettled < len(payloads)
            await alone.view("a/1", "b/1", "c/2")
            await sending
            # The first that the next incarnation sends is the first that the former had not taken.
            first = await places[0].until(Message)
            assert isinstance(first, Message)
            assert (first.sender, first.number) == (ProcessId("c", 2), 1)
            assert first.payload == payloads[event.unsettled]
            last = first
            while last.payload != payloads[-1]:
                last = await places[0].until(Message)  # type: ignore[assignment]
            assert last.number == len(payloads) - event.unsettled

    run(test)


def test_exclusion_from_one_group_is_a_new_life_in_all() -> None:
    async def test() -> None:
        walls = Walls()
        c = Node("c", address=LOOPBACK, incarnation=1, options=HASTY, linger_s=0.5)
        async with founded("ab", faults=walls.faults, rejoin=True) as places, c:
            a, b = places
            there = Place(c, await c.join("h", members={"c": c.address}, policy="primary"))
            here = Place(b.node, await b.node.join("h", contacts=[c.address]))
            await everyone([there, here], "c/1", "b/1")
            walls.between([a], [b])  # but nothing is between b and c
            await a.view("a/1")
            walls.between()
            await b.until(Excluded)
            # The old life is silent in the other group too, and the new one waits until its end was read there.
            await there.view("c/1")
            assert b.process == ProcessId("b")
            await here.until(Excluded)
            await everyone(places, "a/1", "b/2")
            await everyone([there, here], "c/1", "b/2")
            await talk(places)
            await talk([there, here])

    run(test)


def test_a_restarted_process_need_not_know_how_often_it_has_lived() -> None:
    async def test() -> None:
        async with founded() as places:
            places[2].kill()
            await everyone(places[:2], "a/1", "b/1")
            places[2] = await places[0].join("c", rejoin=True, linger_s=0.5)
            await everyone(places, "a/1", "b/1", "c/2")
            assert places[2].process == ProcessId("c", 2)
            await talk(places)

    run(test)


def test_a_node_can_be_closed_between_two_lives() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("ab", faults=walls.faults, rejoin=True) as places:
            a, b = places
            walls.between([a], [b])
            await a.view("a/1")
            walls.between()
            await b.until(Excluded)
            a.kill()  # now nobody lets it in again
            assert await b.node.close()

    run(test)


def test_a_group_that_is_left_between_two_lives_is_not_joined_again() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("ab", faults=walls.faults, rejoin=True) as places:
            a, b = places
            other = await b.node.join("h", members={"b": b.node.address}, policy="primary")
            walls.between([a], [b])
            await a.view("a/1")
            walls.between()
            await until(lambda: b.group.view.id == 0)
            assert await b.group.leave()  # nobody has read of the exclusion yet
            assert b.group.is_over
            # The other group is alone: nobody is there to let the next life in, so it asks in vain.
            async for event in other:
                if isinstance(event, Excluded):
                    break
            await until(lambda: b.process == ProcessId("b", 2))
            await b.until(Excluded)
            with pytest.raises(StopAsyncIteration):
                await anext(aiter(b.group))
            await b.node.close()

    run(test)


def test_a_group_that_was_closed_is_not_joined_again() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded(faults=walls.faults, rejoin=True) as places:
            walls.between(places[:2], places[2:])
            await everyone(places[:2], "a/1", "b/1")
            await places[2].group.close()
            walls.between()
            await until(lambda: places[2].group.is_over)
            assert not await places[2].node.close()
            assert places[2].process == ProcessId("c")

    run(test)


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "not reading"])
def test_each_life_leaves_a_log_of_its_own(tmp_path: Path, reads: bool) -> None:
    async def test() -> None:
        walls = Walls()
        async with founded(faults=walls.faults, rejoin=True, history=tmp_path) as places:
            await talk(places)
            for life in (1, 2):
                await places[0].group.send(b"read late")
                for place in places[:2]:
                    assert await place.message() == b"read late"
                if reads:
                    assert await places[2].message() == b"read late"
                walls.between(places[:2], places[2:])
                await everyone(places[:2], "a/1", "b/1")
                walls.between()
                if not reads:
                    await until(lambda: places[2].group.view.id == 0)
                await everyone(places, "a/1", "b/1", f"c/{life + 1}")
            await talk(places)

    run(test)
    rows = list(HistoryFiles.open(tmp_path).read_rows())
    last = {(row.process, row.incarnation): (row.kind, row.label) for row in rows}
    assert last["c", 1] == last["c", 2] == ("crash", "excluded")
    assert last["c", 3] == last["a", 1] == ("stop", "left")
    heard: Counter[int] = Counter()
    for row in rows:
        if (row.process, row.kind, row.sender) == ("c", "deliver", "a"):
            heard[row.incarnation] += row.count or 0
    assert heard == {1: 2, 2: 1, 3: 1}  # talk, late; late; talk
    for life in (1, 2, 3):
        kinds = [row.kind for row in rows if (row.process, row.incarnation) == ("c", life)]
        assert kinds[:2] == ["start", "view"]
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_a_static_group_ties_a_process_to_its_life() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("ab", faults=walls.faults, rejoin=True) as places:
            a, b = places
            await b.node.join("s", members={"b": b.node.address}, policy="static")
            walls.between([a], [b])
            await a.view("a/1")
            walls.between()
            await b.until(Excluded)
            with pytest.raises(StopAsyncIteration):
                await anext(aiter(b.group))

    run(test)


def test_without_it_nobody_comes_back() -> None:
    async def test() -> None:
        walls = Walls()
        async with founded("ab", faults=walls.faults) as places:
            walls.between(places[:1], places[1:])
            await places[0].view("a/1")
            walls.between()
            await places[1].until(Excluded)
            with pytest.raises(StopAsyncIteration):
                await anext(aiter(places[1].group))

    run(test)


def test_the_history_of_the_next_life_can_be_impossible(tmp_path: Path) -> None:
    async def test() -> None:
        walls = Walls()
        async with Node("c", address=LOOPBACK, options=HASTY, incarnation=2, history=tmp_path):
            pass  # leaves a log where the second life of c wants to write
        async with founded("ac", faults=walls.faults, rejoin=True, history=tmp_path) as places:
            walls.between(places[:1], places[1:])
            await places[0].view("a/1")
            walls.between()
            await places[1].until(Excluded)
            with pytest.raises(Exception, match=r"already holds a log of c/2"):
                await anext(aiter(places[1].group))

    run(test)
