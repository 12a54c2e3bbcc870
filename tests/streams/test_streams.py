"""Listener and feeder in real groups on loopback: what is delivered is in the journal, and rows are seen once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon import Excluded, JoinError, Message, ProcessId, View
from antiphon.history.journal import GAP, MESSAGE, VIEW, JournalReader
from antiphon.history.journal_writer import JournalWriter
from antiphon.history.spool import SENDABLE, Position, Spool
from antiphon.streams import feeder as feeder_module
from antiphon.streams.feeder import Feeder
from antiphon.streams.listener import Listener
from antiphon.streams.membership import StreamPlace as Seat
from antiphon.toolkit.feeds import Feeds, decode_row, encode_row
from tests.history.test_spool import staged
from tests.runtime.cluster import run, until
from tests.runtime.places import HASTY, Place, founded

FEED = "0" * 31 + "1"


def seat(places: list[Place], name: str) -> Seat:
    return Seat(group="g", name=name, contacts=[place.node.address for place in places], options=HASTY)


@asynccontextmanager
async def listening(directory: Path, places: list[Place]) -> AsyncIterator[Listener]:
    with JournalWriter(directory, group="g", listener="ear") as journal:
        listener = Listener(journal, seat(places, "ear"))
        task = asyncio.create_task(listener.run())
        try:
            await until(lambda: listener.offset > 0 and "ear" in {m.name for m in places[0].group.view.members})
            yield listener
            listener.stop()
        except BaseException:
            task.cancel()
            raise
        finally:
            await asyncio.gather(task, return_exceptions=True)
        await task


def journal_rows(directory: Path) -> list[dict[str, Any]]:
    reader = JournalReader(directory)
    return [row for batch in reader.read(0, reader.end()) for row in batch.to_pylist()]


def test_a_listener_writes_all_that_it_is_handed_and_marks_where_it_was_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded() as places:
            async with listening(tmp_path, places) as listener:
                for number in range(300):
                    await places[number % 3].group.send(b"%d" % number, order=("causal", "agreed", "safe")[number % 3])
                await until(lambda: listener.offset >= 301)
            await places[0].group.send(b"missed")
            await places[0].view("a/1", "b/1", "c/1")
            async with listening(tmp_path, places) as listener:
                before = listener.offset
                await places[1].group.send(b"heard")
                await until(lambda: listener.offset > before)

    run(test)
    rows = journal_rows(tmp_path)
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    messages = [row for row in rows if row["kind"] == MESSAGE]
    assert {row["payload"] for row in messages} == {b"%d" % number for number in range(300)} | {b"heard"}
    assert len(messages) == 301
    numbers = [row["number"] for row in messages if row["sender"] == "a" and row["listener"] == "ear/1"]
    assert numbers == list(range(1, 101))
    assert {row["level"] for row in messages} == {"causal", "agreed", "safe"}
    kinds = [row["kind"] for row in rows if row["kind"] != MESSAGE]
    assert kinds[0] == VIEW
    gap = kinds.index(GAP)
    assert kinds[gap + 1] == VIEW
    assert kinds.count(GAP) == 1
    back = next(row for row in rows if row["kind"] == VIEW and row["listener"] == "ear/2")
    assert "ear/2" in back["members"]
    assert "ear/1" not in back["members"]
    times = [row["time_ns"] for row in rows]
    assert times == sorted(times)


async def rows_seen(place: Place, count: int) -> tuple[list[bytes], int]:
    """The rows that a member sees through `Feeds`, until there are `count`, and how many came before in vain."""
    feeds, seen, repeated = Feeds(), [], 0
    async for event in place.group:
        if isinstance(event, Message):
            taken = feeds.take(event)
            if taken is None:
                repeated += 1
            else:
                seen.append(taken.payload)
            if len(seen) == count:
                break
    return seen, repeated


def test_a_feeder_sends_published_batches_and_settles_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded() as places:
            spool = Spool(tmp_path)
            payloads = [b"%d" % number for number in range(400)]  # in order, whatever the levels
            levels = Random(1).choices(SENDABLE, k=400)
            spool.publish(0, [staged(spool, *payloads, levels=levels)], "q")
            feeder = Feeder(spool, seat(places, "mouth"))
            task = asyncio.create_task(feeder.run())
            await until(lambda: spool.position().batch == 0)
            spool.publish(1, [staged(spool, b"c")], "q")
            await until(lambda: spool.position() == Position(1, 402))
            for place in places:
                assert await rows_seen(place, 401) == ([*payloads, b"c"], 0)
            feeder.stop()
            await task
            await places[0].view("a/1", "b/1", "c/1")

    run(test)


def test_a_feeder_that_dies_before_it_settles_sends_again_and_members_see_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with founded() as places:
            spool = Spool(tmp_path)
            payloads = [b"%d" % number for number in range(500)]
            spool.publish(0, [staged(spool, *payloads)], "q")
            spool.publish(1, [staged(spool, b"last")], "q")
            died = asyncio.Event()

            def die(*_: object) -> None:
                died.set()
                raise RuntimeError("killed between delivery and settling")

            monkeypatch.setattr(spool, "settle", die)
            with pytest.raises(RuntimeError):
                await Feeder(spool, seat(places, "mouth")).run()
            assert died.is_set()
            monkeypatch.undo()
            feeder = Feeder(spool, seat(places, "mouth"))
            task = asyncio.create_task(feeder.run())
            await until(lambda: spool.position() == Position(1, 502))
            for place in places:
                assert await rows_seen(place, 501) == ([*payloads, b"last"], 500)
            feeder.stop()
            await task

    run(test)


def test_a_feeder_waits_until_its_former_incarnations_are_out_of_the_view(tmp_path: Path) -> None:
    feeder = Feeder(Spool(tmp_path), Seat(group="g", name="mouth", contacts=[]))
    old, new, other = ProcessId("mouth", 1), ProcessId("mouth", 2), ProcessId("a")
    for members, may_send in [((), False), ((other,), False), ((other, old, new), False), ((other, new), True)]:
        feeder._view = View(1, members)
        assert feeder._is_alone(new) is may_send


def test_a_feeder_that_was_excluded_comes_back_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with founded() as places:
            spool = Spool(tmp_path)
            lives = 0
            read = Feeder._read

            async def read_twice(self: Feeder, group: Any) -> None:
                """The first life ends as one does that the others gave up, in the middle of everything."""
                nonlocal lives
                lives += 1
                if lives > 1:
                    return await read(self, group)
                async for event in group.batches():
                    if not isinstance(event, Excluded) and type(event).__name__ == "Batch":
                        group._abandon()
                        return None
                    if type(event).__name__ == "ViewChange":
                        self._view = event.view
                        self._moved.set()
                return None

            monkeypatch.setattr(feeder_module.Feeder, "_read", read_twice)
            spool.publish(0, [staged(spool, *(b"%d" % number for number in range(50)))], "q")
            feeder = Feeder(spool, seat(places, "mouth"))
            task = asyncio.create_task(feeder.run())
            await until(lambda: spool.position() == Position(0, 51))
            for place in places:
                seen, _ = await rows_seen(place, 50)
                assert seen == [b"%d" % number for number in range(50)]
            feeder.stop()
            await task
            assert lives == 2

    run(test)


def test_a_listener_marks_rows_of_a_feed_that_came_before_also_after_it_was_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with founded() as places:
            for first in (1, 2):
                async with listening(tmp_path, places) as listener:
                    before = listener.offset
                    for number in (first, first + 1):
                        await places[0].group.send(encode_row(FEED, number, b"%d" % number))
                    await until(lambda: listener.offset >= before + 2)  # noqa: B023
                await places[0].view("a/1", "b/1", "c/1")

    run(test)
    rows = [row for row in journal_rows(tmp_path) if row["kind"] == MESSAGE]
    assert [(row["feed"], row["feed_number"], row["payload"], row["repeated"]) for row in rows] == [
        (FEED, 1, b"1", False),
        (FEED, 2, b"2", False),
        (FEED, 2, b"2", True),
        (FEED, 3, b"3", False),
    ]


def test_who_is_let_in_by_nobody_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        place = Seat(group="g", name="ear", contacts=["127.0.0.1:9"], join_s=0.3)
        with JournalWriter(tmp_path, group="g", listener="ear") as journal, pytest.raises(JoinError):
            await Listener(journal, place).run()

    run(test)


def test_rows_are_told_from_other_messages_and_forgotten_feeds_are_the_quietest() -> None:
    assert decode_row(encode_row(FEED, 7, b"row")) == (FEED, 7, b"row")
    assert decode_row(b"row") is None
    assert decode_row(encode_row(FEED, 7, b"")[:-1]) is None
    feeds = Feeds({FEED: 3})
    assert [feeds.is_new(FEED, number) for number in (3, 4, 4, 2, 5)] == [False, True, False, False, True]
    assert Feeds(feeds.positions).is_new(FEED, 5) is False
