"""The outbox: bursts, order, waiting for room."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.kernel.errors import ClosedError
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.outbox import BYTES_MAX, MESSAGES_MAX, NOT_MEASURED, Outbox, OutboxLane, SendMode
from tests.runtime.cluster import run

CAUSAL = SendMode(2)


class Stepping:
    """A driver; while it is `stepping`, what is to follow is noted."""

    def __init__(self, stepping: bool) -> None:
        self.stepping = stepping
        self.calls: list[Callable[[], None]] = []

    def afterwards(self, call: Callable[[], None]) -> bool:
        if self.stepping:
            self.calls.append(call)
        return self.stepping


class Sink:
    """An engine that takes as many messages of an offer as it is told to."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.offers: list[tuple[SendMode, list[bytes]]] = []
        self.unblocks: list[tuple[Outbox, OutboxLane]] = []

    def offer(self, payloads: list[bytes], way: SendMode) -> int:
        count = min(self.room, len(payloads))
        self.room -= count
        self.offers.append((way, payloads[:count]))
        while self.unblocks:
            outbox, lane = self.unblocks.pop()
            outbox.unblock(lane)
        return count


def test_what_is_sent_within_a_step_goes_when_it_is_done_in_one_offer() -> None:
    async def test() -> None:
        steps = Stepping(True)
        sink = Sink(100)
        outbox, lane = Outbox(steps), OutboxLane(sink.offer)
        for _ in range(2):  # step by step, in one turn of the loop
            outbox.put(lane, [b"1"], CAUSAL, NOT_MEASURED)
            outbox.put(lane, [b"2"], CAUSAL, NOT_MEASURED)
            assert not sink.offers
            [call] = steps.calls
            steps.calls.clear()
            call()
            assert sink.offers == [(CAUSAL, [b"1", b"2"])]
            sink.offers.clear()
        await asyncio.sleep(0)
        assert not sink.offers

    run(test)


def test_the_first_goes_at_once_and_the_rest_of_its_turn_in_one_offer_per_run() -> None:
    async def test() -> None:
        sink = Sink(100)
        outbox, lane = Outbox(Stepping(False)), OutboxLane(sink.offer)
        reliable, private, barrier = SendMode(0), SendMode(2, (ProcessId("a"),)), SendMode(4, barrier=True)
        for payload, way in ((b"1", CAUSAL), (b"2", CAUSAL), (b"3", reliable), (b"4", CAUSAL), (b"5", private)):
            outbox.put(lane, [payload], way, NOT_MEASURED)
        outbox.put(lane, [b"6"], SendMode(2, (ProcessId("a"),)), NOT_MEASURED)
        outbox.put(lane, [b"7"], barrier, NOT_MEASURED)
        assert sink.offers == [(CAUSAL, [b"1"])]  # at once
        await asyncio.sleep(0)
        assert sink.offers[1:] == [
            (CAUSAL, [b"2"]),
            (reliable, [b"3"]),
            (CAUSAL, [b"4"]),
            (private, [b"5", b"6"]),
            (barrier, [b"7"]),
        ]
        assert outbox.messages == 0

    run(test)


def test_what_is_not_taken_is_offered_again_in_order() -> None:
    async def test() -> None:
        sink = Sink(2)
        outbox, lane = Outbox(Stepping(False)), OutboxLane(sink.offer)
        outbox.put(lane, [b"1", b"2", b"3"], CAUSAL, NOT_MEASURED)
        await asyncio.sleep(0)
        assert outbox.messages == 1
        outbox.put(lane, [b"4"], CAUSAL, NOT_MEASURED)
        await asyncio.sleep(0)
        assert len(sink.offers) == 1
        sink.room = 9
        outbox.unblock(lane)
        await asyncio.sleep(0)
        assert sink.offers == [(CAUSAL, [b"1", b"2"]), (CAUSAL, [b"3", b"4"])]

    run(test)


def test_room_that_comes_during_the_offer_is_not_missed() -> None:
    async def test() -> None:
        sink = Sink(2)
        outbox, lane = Outbox(Stepping(False)), OutboxLane(sink.offer)
        sink.unblocks.append((outbox, lane))
        outbox.put(lane, [b"1", b"2", b"3"], CAUSAL, NOT_MEASURED)
        sink.room = 2
        await asyncio.sleep(0)
        assert outbox.messages == 0
        assert [payloads for _, payloads in sink.offers] == [[b"1", b"2"], [b"3"]]

    run(test)


def test_a_full_outbox_makes_calls_wait_and_lets_them_on_in_their_order() -> None:
    async def test() -> None:
        sink, other = Sink(0), Sink(0)
        outbox, lane, other_lane = Outbox(Stepping(False)), OutboxLane(sink.offer), OutboxLane(other.offer)
        assert outbox.put(lane, [b""] * (MESSAGES_MAX + 1), CAUSAL, NOT_MEASURED) == MESSAGES_MAX
        assert outbox.put(lane, [b""], CAUSAL, NOT_MEASURED) == 0
        first = asyncio.create_task(outbox.send(lane, [b"1", b"2"], CAUSAL, 2))
        given_up = asyncio.create_task(outbox.send(lane, [b"3"], CAUSAL, 1))
        last = asyncio.create_task(outbox.send(other_lane, [b"4"], CAUSAL, 1))
        await asyncio.sleep(0)
        given_up.cancel()
        sink.room = 1
        outbox.unblock(lane)
        await asyncio.sleep(0)
        assert not first.done()  # it has put in one of two
        sink.room = MESSAGES_MAX
        outbox.unblock(lane)
        assert outbox.put(other_lane, [b"5"], CAUSAL, NOT_MEASURED) == 0  # those who wait come first
        await first
        await last
        assert outbox.put(other_lane, [b"5"], CAUSAL, NOT_MEASURED) == 1
        with pytest.raises(asyncio.CancelledError):
            await given_up
        sink.room = other.room = 9
        outbox.unblock(lane)
        outbox.unblock(other_lane)
        await asyncio.sleep(0)
        assert sink.offers[-1][1] == [b"2"]
        assert [payload for _, payloads in other.offers for payload in payloads] == [b"4", b"5"]
        assert outbox.messages == 0

    run(test)


def test_a_full_group_holds_up_what_was_sent_after_it_to_others() -> None:
    async def test() -> None:
        full, free = Sink(0), Sink(100)
        outbox, full_lane, free_lane = Outbox(Stepping(False)), OutboxLane(full.offer), OutboxLane(free.offer)
        outbox.put(free_lane, [b"1"], CAUSAL, NOT_MEASURED)
        outbox.put(full_lane, [b"2"], CAUSAL, NOT_MEASURED)
        outbox.put(free_lane, [b"3"], CAUSAL, NOT_MEASURED)
        await asyncio.sleep(0)
        assert free.offers == [(CAUSAL, [b"1"])]
        full.room = 1
        outbox.unblock(full_lane)
        assert free.offers == [(CAUSAL, [b"1"]), (CAUSAL, [b"3"])]

    run(test)


def test_what_a_group_leaves_behind_holds_up_nobody() -> None:
    async def test() -> None:
        full, free = Sink(0), Sink(100)
        outbox, full_lane, free_lane = Outbox(Stepping(False)), OutboxLane(full.offer), OutboxLane(free.offer)
        outbox.put(full_lane, [b"1"] * MESSAGES_MAX, CAUSAL, NOT_MEASURED)
        waiter = asyncio.create_task(outbox.send(free_lane, [b"2"], CAUSAL, 1))
        await asyncio.sleep(0)
        outbox.close(full_lane, ClosedError("closed"))
        outbox.discard(full_lane)
        await waiter
        await asyncio.sleep(0)
        assert free.offers == [(CAUSAL, [b"2"])]
        assert (outbox.messages, full_lane.messages) == (0, 0)

    run(test)


def test_one_long_message_may_pass_the_limit_and_then_it_is_full() -> None:
    async def test() -> None:
        outbox, lane = Outbox(Stepping(False)), OutboxLane(Sink(0).offer)
        assert outbox.put(lane, [b"x", bytes(16 * BYTES_MAX), b"y"], CAUSAL, NOT_MEASURED) == 2
        assert outbox.put(lane, [b"y"], CAUSAL, NOT_MEASURED) == 0

    run(test)


def test_barriers_are_offered_one_by_one() -> None:
    async def test() -> None:
        sink = Sink(100)
        outbox, lane = Outbox(Stepping(False)), OutboxLane(sink.offer)
        barrier = SendMode(4, barrier=True)
        for payload in (b"1", b"2"):
            outbox.put(lane, [payload], barrier, NOT_MEASURED)
        await asyncio.sleep(0)
        assert sink.offers == [(barrier, [b"1"]), (barrier, [b"2"])]

    run(test)


def test_to_drain_is_to_wait_for_what_was_there() -> None:
    async def test() -> None:
        sink = Sink(2)
        outbox, lane = Outbox(Stepping(False)), OutboxLane(sink.offer)
        await outbox.drain(lane)  # nothing is there
        outbox.put(lane, [b"1", b"2", b"3"], CAUSAL, NOT_MEASURED)
        draining = asyncio.create_task(outbox.drain(lane))
        await asyncio.sleep(0)
        outbox.put(lane, [b"4"], CAUSAL, NOT_MEASURED)
        await asyncio.sleep(0)
        assert not draining.done()
        sink.room = 1
        outbox.unblock(lane)
        await draining
        assert outbox.messages == 1
        draining = asyncio.create_task(outbox.drain(lane))
        await asyncio.sleep(0)
        outbox.close(lane, ClosedError("closed"))
        with pytest.raises(ClosedError):
            await draining

    run(test)


def test_those_who_wait_hear_of_the_end() -> None:
    async def test() -> None:
        outbox, lane = Outbox(Stepping(False)), OutboxLane(Sink(0).offer)
        outbox.put(lane, [b""] * MESSAGES_MAX, CAUSAL, NOT_MEASURED)
        waiter = asyncio.create_task(outbox.send(lane, [b"1"], CAUSAL, 1))
        await asyncio.sleep(0)
        outbox.close(lane, ClosedError("closed"))
        with pytest.raises(ClosedError):
            await waiter

    run(test)


def test_a_caller_that_would_wait_for_ever_is_refused_and_nobody_else() -> None:
    async def test() -> None:
        reader, other = object(), object()
        outbox, lane = Outbox(Stepping(False)), OutboxLane(Sink(0).offer)
        outbox.put(lane, [b""] * MESSAGES_MAX, CAUSAL, NOT_MEASURED)
        waiters = [asyncio.create_task(outbox.send(lane, [b"1"], CAUSAL, 1, caller)) for caller in (reader, other)]
        await asyncio.sleep(0)
        outbox.refuse(lane, reader, ClosedError("for ever"))
        with pytest.raises(ClosedError, match="for ever"):
            await waiters[0]
        assert not waiters[1].done()
        outbox.close(lane, ClosedError("closed"))
        with pytest.raises(ClosedError, match="closed"):
            await waiters[1]

    run(test)
