"""The application's queue: limits, readers, the end."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.kernel.identity import ProcessId, View
from antiphon.runtime import Barrier, Batch, Excluded, Message, Question, ReaderError, Stalled, ViewChange
from antiphon.runtime.readers import BatchReader, MessageReader
from antiphon.runtime.stream import QUESTIONS_MAX, TURN_MESSAGES, Stream
from tests.runtime.cluster import run


class Calls:
    """A stream, and what it asked for."""

    def __init__(self, messages_max: int = 10, bytes_max: int = 1000) -> None:
        self.calls: list[str] = []
        self.taken: list[tuple[int, int, int]] = []
        self.stream = Stream(
            "g",
            messages_max=messages_max,
            bytes_max=bytes_max,
            on_full=self._note("full"),
            on_room=self._note("room"),
            on_taken=lambda batch, number, count, size: self.taken.append((number, count, size)),
            on_view=lambda change: self.calls.append(f"view {change.view.id}"),
            on_transitional=lambda view: self.calls.append(f"view {view.view_id} ends"),
            on_barrier=lambda barrier: self.calls.append(f"barrier {barrier.number}"),
            on_excluded=lambda group: self.calls.append("excluded"),
        )

    def _note(self, call: str) -> Callable[[], None]:
        return lambda: self.calls.append(call)

    def put(self, number: int, count: int, size: int = 1, private: bool = False, sender_name: str = "a") -> None:
        payloads = [b"x" * size] * count
        sender = ProcessId(sender_name)
        self.stream.put(
            Batch(
                payloads=payloads,
                sender=sender,
                number=number,
                order="causal",
                group="g",
                view_id=1,
                private=private,
            )
        )

    def put_barrier(self, number: int) -> None:
        self.stream.put(Barrier(payload=b"", sender=ProcessId("a"), number=number, group="g", view_id=1))

    def put_view(self, id: int) -> None:
        self.stream.put(ViewChange(group="g", view=View(id, ()), joined=(), left=(), failed=()))


def test_full_at_the_limit_of_messages_and_room_at_half() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 9)
        assert it.calls == []
        it.put(10, 3)
        assert it.calls == ["full"]
        reader = MessageReader(it.stream)
        for _ in range(6):
            await anext(reader)
        assert it.calls == ["full"]
        await anext(reader)
        assert it.calls == ["full", "room"]

    run(test)


def test_full_at_the_limit_of_bytes() -> None:
    async def test() -> None:
        it = Calls(bytes_max=1000)
        it.put(1, 1, 999)
        assert it.calls == []
        it.put(2, 1, 1)
        assert it.calls == ["full"]
        await anext(MessageReader(it.stream))
        assert it.calls == ["full", "room"]

    run(test)


def test_deliveries_are_told_as_they_are_taken() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 3, 5)
        it.put(4, 2, 5)
        assert it.taken == []
        reader = MessageReader(it.stream)
        await anext(reader)
        assert it.taken == [(1, 1, 5)]
        # The next reader goes on in the middle of the batch.
        batches = BatchReader(it.stream)
        batch = await anext(batches)
        assert isinstance(batch, Batch)
        assert (batch.number, len(batch.payloads)) == (2, 2)
        await anext(batches)
        assert it.taken == [(1, 1, 5), (2, 2, 10), (4, 2, 10)]

    run(test)


def test_a_second_reader_is_refused_while_the_first_waits() -> None:
    async def test() -> None:
        it = Calls()
        waiting = asyncio.create_task(anext(MessageReader(it.stream)))
        await asyncio.sleep(0)
        with pytest.raises(ReaderError, match="another reader"):
            MessageReader(it.stream)
        it.put(1, 1)
        assert isinstance(await waiting, Message)

    run(test)


def test_a_reader_that_was_followed_by_another_is_refused() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 2)
        first = MessageReader(it.stream)
        await anext(first)
        await anext(MessageReader(it.stream))
        with pytest.raises(ReaderError):
            await anext(first)

    run(test)


def test_to_cancel_a_reader_loses_nothing() -> None:
    async def test() -> None:
        it = Calls()
        reader = MessageReader(it.stream)
        waiting = asyncio.create_task(anext(reader))
        await asyncio.sleep(0)
        it.put(1, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        message = await anext(reader)
        assert isinstance(message, Message)
        assert message.number == 1

    run(test)


def test_the_end_drops_and_counts_what_nobody_read() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 12)
        it.stream.end(None)
        assert it.calls == ["full", "room"]
        it.put(13, 2)
        assert it.stream.unread == 14
        assert [event async for event in MessageReader(it.stream)] == []

    run(test)


def test_the_end_by_error_is_told_to_a_waiting_reader() -> None:
    async def test() -> None:
        it = Calls()
        waiting = asyncio.create_task(anext(MessageReader(it.stream)))
        await asyncio.sleep(0)
        it.stream.end(ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            await waiting

    run(test)


def test_a_busy_reader_lets_others_have_their_turn() -> None:
    async def test() -> None:
        it = Calls(messages_max=10**6)
        it.put(1, 2 * TURN_MESSAGES)
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1

        asyncio.get_running_loop().call_soon(turn)
        reader = MessageReader(it.stream)
        for _ in range(TURN_MESSAGES + 1):
            await anext(reader)
        assert turns == 1

    run(test)


@pytest.mark.parametrize("reader", [MessageReader, BatchReader])
def test_views_are_told_as_they_are_taken(reader: type[MessageReader | BatchReader]) -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 1)
        it.put_view(2)
        it.stream.put(Stalled(group="g", view=View(2, ())))
        reading = reader(it.stream)
        await anext(reading)
        assert it.calls == []
        assert isinstance(await anext(reading), ViewChange)
        assert it.calls == ["view 2"]
        assert isinstance(await anext(reading), Stalled)
        assert it.calls == ["view 2"]

    run(test)


@pytest.mark.parametrize("reader", [MessageReader, BatchReader])
def test_barriers_are_told_as_they_are_taken_and_unread_ones_count(reader: type[MessageReader | BatchReader]) -> None:
    async def test() -> None:
        it = Calls()
        it.put_barrier(1)
        it.put_barrier(2)
        it.put_view(2)
        assert isinstance(await anext(reader(it.stream)), Barrier)
        assert it.calls == ["barrier 1"]
        it.stream.end(None)
        it.put_barrier(3)
        assert it.calls == ["barrier 1"]  # and no view either: the application lacks what comes before it
        assert it.stream.unread == 2

    run(test)


def test_private_messages_stay_private_in_whole_and_in_part() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 3, private=True)
        message = await anext(MessageReader(it.stream))
        batch = await anext(BatchReader(it.stream))
        assert isinstance(message, Message)
        assert isinstance(batch, Batch)
        assert (message.private, batch.private, batch.number) == (True, True, 2)
        it.put(4, 1)
        message = await anext(MessageReader(it.stream))
        assert isinstance(message, Message)
        assert not message.private

    run(test)


def test_what_is_there_at_the_finish_is_still_read() -> None:
    async def test() -> None:
        it = Calls()
        waiting = asyncio.ensure_future(anext(MessageReader(it.stream)))
        await asyncio.sleep(0)
        it.put(1, 1)
        it.stream.put(Excluded(group="g", view=View(1, ()), unsettled=0))
        it.stream.finish()
        assert isinstance(await waiting, Message)
        reader = MessageReader(it.stream)
        assert it.calls == []
        assert isinstance(await anext(reader), Excluded)
        assert it.calls == ["excluded"]  # when it is read, not before
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    run(test)


def test_a_finish_wakes_who_waits() -> None:
    async def test() -> None:
        it = Calls()

        async def read() -> list[object]:
            return [event async for event in MessageReader(it.stream)]

        waiting = asyncio.create_task(read())
        await asyncio.sleep(0)
        it.stream.finish()
        assert await waiting == []

    run(test)


def test_at_the_end_views_count_as_taken_up_to_the_first_unread_message() -> None:
    async def test() -> None:
        it = Calls()
        it.put_view(2)
        it.put_view(3)
        it.put(1, 1)
        it.put_view(4)
        it.stream.end(None)
        it.put_view(5)
        assert it.calls == ["view 2", "view 3"]
        other = Calls()
        other.stream.end(None)
        other.put_view(2)
        other.put(1, 1)
        other.put_view(3)
        assert other.calls == ["view 2"]

    run(test)


def test_a_listener_is_told_of_what_waits_and_of_what_comes() -> None:
    async def test() -> None:
        it = Calls()
        it.put_view(1)
        it.put(1, 3)
        heard: list[object] = []
        it.stream.listen(heard.append)
        it.stream.tell()
        it.put(4, 2, size=5)
        it.put_barrier(6)
        assert [type(event).__name__ for event in heard] == ["ViewChange", "Batch", "Batch", "Barrier"]
        assert it.taken == [(1, 3, 3), (4, 2, 10)]
        assert (it.stream.messages, it.stream.bytes) == (0, 0)
        with pytest.raises(ReaderError):
            MessageReader(it.stream)
        it.stream.listen(None)
        it.put(7, 1)
        assert len(heard) == 4
        assert isinstance(await anext(MessageReader(it.stream)), Message)

    run(test)


def test_nobody_listens_while_a_reader_waits() -> None:
    async def test() -> None:
        it = Calls()
        reading = asyncio.create_task(anext(MessageReader(it.stream)))
        await asyncio.sleep(0)
        with pytest.raises(ReaderError):
            it.stream.listen(lambda event: None)
        reading.cancel()

    run(test)


def test_what_was_prepared_for_one_reader_is_there_for_the_next() -> None:
    async def test() -> None:
        it = Calls(messages_max=10_000, bytes_max=10_000)
        stream = Stream(
            "g", messages_max=10_000, bytes_max=10_000, on_full=it._note("full"), on_room=it._note("room"),
            on_taken=None, on_view=lambda change: None, on_transitional=lambda view: None,
            on_barrier=lambda barrier: None, on_excluded=lambda group: None,
        )  # fmt: skip
        it.stream = stream
        it.put(1, 1000, size=2)
        first = MessageReader(stream)
        for number in range(1, 11):
            message = await anext(first)
            assert isinstance(message, Message)
            assert message.number == number
        second = BatchReader(stream)
        batches = [await anext(second), await anext(second)]
        assert all(isinstance(batch, Batch) for batch in batches)
        assert [(batch.number, len(batch.payloads)) for batch in batches if isinstance(batch, Batch)] == [
            (11, 246),
            (257, 744),
        ]
        assert (stream.messages, stream.bytes) == (0, 0)
        with pytest.raises(ReaderError):
            await anext(first)
        it.put(1001, 20)
        third = MessageReader(stream)
        await anext(third)
        stream.end(None)
        assert stream.unread == 19

    run(test)


def test_questions_that_nobody_reads_are_bounded() -> None:
    async def test() -> None:
        it = Calls()
        for number in range(QUESTIONS_MAX + 5):
            it.stream.put(Question("g", b"%d" % number, 1.0, print))
        reader = MessageReader(it.stream)
        taken = [await anext(reader) for _ in range(QUESTIONS_MAX)]
        it.stream.put(Question("g", b"again", 1.0, print))
        taken.append(await anext(reader))
        expected = [*(b"%d" % number for number in range(QUESTIONS_MAX)), b"again"]
        assert [event.payload for event in taken if isinstance(event, Question)] == expected
        assert it.calls == []

    run(test)


def test_messages_that_are_not_wanted_count_as_taken_where_they_stand() -> None:
    async def test() -> None:
        it = Calls()
        it.put(1, 2, sender_name="me")
        it.put(1, 1)
        it.put(3, 6, sender_name="me")
        it.put(2, 1)
        it.put(9, 2, sender_name="me")
        assert it.calls == ["full"]
        reader = MessageReader(it.stream, "me")
        first = await anext(reader)
        assert isinstance(first, Message)
        assert (first.sender.name, first.number) == ("a", 1)
        assert it.taken == [(1, 2, 2), (1, 1, 1)]
        second = await anext(reader)
        assert isinstance(second, Message)
        assert second.number == 2
        assert it.taken == [(1, 2, 2), (1, 1, 1), (3, 6, 6), (2, 1, 1)]
        assert it.calls == ["full", "room"]
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        assert it.taken[-1] == (9, 2, 2)
        assert not waiting.done()
        it.put(11, 1, sender_name="me")
        it.put_view(2)
        assert isinstance(await waiting, ViewChange)
        assert it.taken[-1] == (11, 1, 1)
        await_all = MessageReader(it.stream)
        it.put(12, 1, sender_name="me")
        assert isinstance(await anext(await_all), Message)  # who asks for them has them

    run(test)


def test_a_listener_is_not_handed_what_it_does_not_want() -> None:
    async def test() -> None:
        it = Calls()
        heard: list[object] = []
        it.stream.listen(heard.append, "me")
        it.put(1, 2, sender_name="me")
        it.put(1, 1)
        it.put(3, 1, sender_name="me")
        assert [event.number for event in heard if isinstance(event, Batch)] == [1]
        assert it.taken == [(1, 2, 2), (1, 1, 1), (3, 1, 1)]

    run(test)
