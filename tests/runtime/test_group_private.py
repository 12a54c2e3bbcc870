"""Messages to one member, barriers and flushes, on real sockets."""

import asyncio
from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.kernel.errors import ClosedError, MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.pipeline import reference
from antiphon.runtime import Barrier, Message, ViewChange
from tests.runtime.cluster import bad_network, cluster, read, run
from tests.runtime.places import Place, Walls, everyone, founded, talk


def test_a_message_to_one_member_is_read_by_that_one_alone() -> None:
    async def test() -> None:
        async with founded() as places:
            a, b, _ = places
            await a.group.send(b"for b", to=b.process)
            await a.group.send_many([b"for me"], to=a.process)
            await a.group.send(b"for all")
            for place, payloads in zip(
                places, ([b"for me", b"for all"], [b"for b", b"for all"], [b"for all"]), strict=True
            ):
                messages = await read(place.group, len(payloads))
                assert [message.payload for message in messages] == payloads
                assert [message.private for message in messages] == [payload != b"for all" for payload in payloads]
                assert messages[-1].number == 3  # numbered like all others

    run(test)


def test_what_answers_a_message_to_one_member_comes_after_it_everywhere() -> None:
    async def test() -> None:
        async with cluster(faults=bad_network()) as (nodes, groups):
            a, b, c = groups
            for turn in range(20):
                await a.send(b"%d first" % turn)
                await a.send(b"%d ask" % turn, to=nodes[1].process)
                asked = (await read(b, 2))[-1]
                assert asked.payload == b"%d ask" % turn
                await b.send(b"%d then" % turn)
                assert [m.payload for m in await read(c, 2)] == [b"%d first" % turn, b"%d then" % turn]
                await read(b, 1)

    run(test)


def test_a_barrier_has_the_same_place_everywhere_and_ends_the_view() -> None:
    async def test() -> None:
        async with founded() as places:
            for place in places:
                await place.group.send_many([repr(place.process).encode()] * 50)
            await places[1].group.barrier(b"now")
            for place in places:
                await place.group.send(b"after")
            before: list[set[tuple[ProcessId, int]]] = []
            for place in places:
                barrier = await place.until(Barrier)
                assert isinstance(barrier, Barrier)
                assert (barrier.payload, barrier.sender, barrier.number) == (b"now", ProcessId("b"), 51)
                before.append({(e.sender, e.number) for e in place.events if isinstance(e, Message)})
                view = await anext(aiter(place.group))
                assert isinstance(view, ViewChange)
                assert (view.view.id, view.joined, view.view.members) == (2, (), places[0].group.view.members)
                assert barrier.view_id == 1
            assert before[0] == before[1] == before[2]
            assert {(ProcessId("b"), 50), (ProcessId("b"), 52)} & before[0] == {(ProcessId("b"), 50)}

    run(test)


def test_the_history_tells_of_both_and_passes_the_audit(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded(history=tmp_path) as places:
            await talk(places)
            await places[0].group.send(b"one", to=places[1].process)
            await places[0].group.send(b"two", to=places[1].process)
            await places[1].until(Message)
            await places[1].group.barrier(b"now")
            for place in places:
                await place.until(Barrier)
                await place.until(ViewChange)
            await talk(places)

    run(test)
    rows = list(HistoryFiles.open(tmp_path).read_rows())
    private = [row for row in rows if row.destinations]
    assert {(row.kind, row.process, row.destinations) for row in private} == {
        ("send", "a", ("b/1",)),
        ("deliver", "b", ("b/1",)),
    }
    assert sum(row.count or 0 for row in private) == 4
    barriers = [(row.kind, row.process, row.sender, row.number, row.level) for row in rows if row.label == "barrier"]
    assert sorted(barriers) == [
        ("deliver", "a", "b", 2, "safe"),
        ("deliver", "b", "b", 2, "safe"),
        ("deliver", "c", "b", 2, "safe"),
        ("send", "b", "b", 2, "safe"),
    ]
    audit = reference.audit(tmp_path)
    assert audit.verdict == "kept", audit.findings


def test_a_barrier_that_is_too_long_is_refused_and_harms_nobody() -> None:
    async def test() -> None:
        async with founded("a") as (place,):
            with pytest.raises(MessageTooLargeError):
                await place.group.barrier(bytes(16_385))
            await place.group.barrier(bytes(16_384))
            await place.until(Barrier)

    run(test)


def test_a_flush_waits_for_every_member_or_for_so_many() -> None:
    async def test() -> None:
        walls = Walls()
        async with cluster(faults=walls.faults) as (nodes, groups):
            a, b, c = [Place(node, group) for node, group in zip(nodes, groups, strict=True)]
            await a.group.send(b"one")
            await a.group.flush()
            walls.between([a], [c])  # each still hears b; and since the view is static, nobody is given up
            await a.group.send(b"two")
            await a.group.flush(k=1)
            waiting = asyncio.create_task(a.group.flush())
            assert [message.payload for message in await read(b.group, 2)] == [b"one", b"two"]
            await b.group.flush()  # of what it has delivered: c has got it from b
            await a.node.flush(k=1)
            assert not waiting.done()
            walls.between()
            await waiting

    run(test)


def test_a_flush_ends_with_the_member_it_waits_for_and_with_the_group() -> None:
    async def test() -> None:
        async with founded() as places:
            places[2].kill()
            await places[0].group.send(b"one")
            await places[0].group.flush()  # there is a view without c now, and b has it
            await everyone(places[:2], "a/1", "b/1")
            places[1].kill()
            await places[0].group.send(b"two")
            flushing = asyncio.create_task(places[0].group.flush())
            await asyncio.sleep(0)
            places[0].kill()
            with pytest.raises(ClosedError):
                await flushing
            with pytest.raises(ClosedError):
                await places[0].group.flush()

    run(test)


def test_what_cannot_be_asked_for() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            with pytest.raises(UsageError, match="x/1 is not a member of group 'g'"):
                await groups[0].send(b"x", to=ProcessId("x"))
            with pytest.raises(UsageError, match="goes in causal order, not 'fifo'"):
                await groups[0].send(b"x", order="fifo", to=nodes[1].process)
            with pytest.raises(UsageError, match="join with `primary`"):
                await groups[0].barrier(b"x")
            await groups[0].send(b"x")
            await groups[0].flush()
            await nodes[0].flush()

    run(test)


def test_a_member_that_fails_with_a_message_on_its_way_to_it_holds_up_nobody() -> None:
    async def test() -> None:
        async with founded() as places:
            places[2].kill()
            for _ in range(100):
                await places[0].group.send(b"gone", to=places[2].process)
            await everyone(places[:2], "a/1", "b/1")
            await talk(places[:2])

    run(test)
