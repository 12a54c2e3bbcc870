"""The outbox: bursts, order, waiting for room."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.kernel.errors import ClosedError
from antiphon.kernel.identity import ProcessId
from antiphon.runtime.outbox import BYTES_MAX, MESSAGES_MAX, Outbox, SendMode
from tests.runtime.cluster import run

CAUSAL = SendMode(2)


def at_once(call: Callable[[], None]) -> bool:
    """No step is being carried out."""
    return False


class Sink:
    """An engine that takes as many messages of an offer as it is told to."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.offers: list[tuple[SendMode, list[bytes]]] = []
        self.unblocks: list[Outbox] = []

    def offer(self, payloads: list[bytes], way: SendMode) -> int:
        count = min(self.room, len(payloads))
        self.room -= count
        self.offers.append((way, payloads[:count]))
        while self.unblocks:
            self.unblocks.pop().unblock()
        return count


def test_what_is_sent_within_a_step_goes_when_it_is_done_in_one_offer() -> None:
    async def test() -> None:
        calls: list[Callable[[], None]] = []

        def afterwards(call: Callable[[], None]) -> bool:
            calls.append(call)
            return True

        sink = Sink(100)
        outbox = Outbox(sink.offer, afterwards)
        for _ in range(2):  # step by step, in one turn of the loop
            outbox.put([b"1"], CAUSAL)
            outbox.put([b"2"], CAUSAL)
            assert not sink.offers
            [call] = calls
            calls.clear()
            call()
            assert sink.offers == [(CAUSAL, [b"1", b"2"])]
            sink.offers.clear()
        await asyncio.sleep(0)
        assert not sink.offers

    run(test)


def test_the_first_goes_at_once_and_the_rest_of_its_turn_in_one_offer_per_run() -> None:
    async def test() -> None:
        sink = Sink(100)
        outbox = Outbox(sink.offer, at_once)
        reliable, private, barrier = SendMode(0), SendMode(2, ProcessId("a")), SendMode(4, barrier=True)
        for payload, way in ((b"1", CAUSAL), (b"2", CAUSAL), (b"3", reliable), (b"4", CAUSAL), (b"5", private)):
            outbox.put([payload], way)
        outbox.put([b"6"], SendMode(2, ProcessId("a")))
        outbox.put([b"7"], barrier)
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
        outbox = Outbox(sink.offer, at_once)
        outbox.put([b"1", b"2", b"3"], CAUSAL)
        await asyncio.sleep(0)
        assert outbox.messages == 1
        outbox.put([b"4"], CAUSAL)
        await asyncio.sleep(0)
        assert len(sink.offers) == 1
        sink.room = 9
        outbox.unblock()
        await asyncio.sleep(0)
        assert sink.offers == [(CAUSAL, [b"1", b"2"]), (CAUSAL, [b"3", b"4"])]

    run(test)


def test_room_that_comes_during_the_offer_is_not_missed() -> None:
    async def test() -> None:
        sink = Sink(2)
        outbox = Outbox(sink.offer, at_once)
        sink.unblocks.append(outbox)
        outbox.put([b"1", b"2", b"3"], CAUSAL)
        sink.room = 2
        await asyncio.sleep(0)
        assert outbox.messages == 1
        assert [len(payloads) for _, payloads in sink.offers] == [2, 0]

    run(test)


def test_a_full_outbox_makes_senders_wait_and_wakes_them() -> None:
    async def test() -> None:
        sink = Sink(0)
        outbox = Outbox(sink.offer, at_once)
        assert outbox.put([b""] * (MESSAGES_MAX + 1), CAUSAL) == MESSAGES_MAX
        assert outbox.put([b""], CAUSAL) == 0
        waiter = asyncio.create_task(outbox.wait())
        given_up = asyncio.create_task(outbox.wait())
        await asyncio.sleep(0)
        sink.room = 1
        outbox.unblock()
        given_up.cancel()
        await waiter
        assert outbox.put([b"", b""], CAUSAL) == 1
        with pytest.raises(asyncio.CancelledError):
            await given_up

    run(test)


def test_one_long_message_may_pass_the_limit_and_then_it_is_full() -> None:
    async def test() -> None:
        outbox = Outbox(Sink(0).offer, at_once)
        assert outbox.put([b"x", bytes(16 * BYTES_MAX), b"y"], CAUSAL) == 2
        assert outbox.put([b"y"], CAUSAL) == 0

    run(test)


def test_barriers_are_offered_one_by_one() -> None:
    async def test() -> None:
        sink = Sink(100)
        outbox = Outbox(sink.offer, at_once)
        barrier = SendMode(4, barrier=True)
        for payload in (b"1", b"2"):
            outbox.put([payload], barrier)
        await asyncio.sleep(0)
        assert sink.offers == [(barrier, [b"1"]), (barrier, [b"2"])]

    run(test)


def test_to_drain_is_to_wait_for_what_was_there() -> None:
    async def test() -> None:
        sink = Sink(2)
        outbox = Outbox(sink.offer, at_once)
        await outbox.drain()  # nothing is there
        outbox.put([b"1", b"2", b"3"], CAUSAL)
        draining = asyncio.create_task(outbox.drain())
        await asyncio.sleep(0)
        outbox.put([b"4"], CAUSAL)
        await asyncio.sleep(0)
        assert not draining.done()
        sink.room = 1
        outbox.unblock()
        await draining
        assert outbox.messages == 1
        draining = asyncio.create_task(outbox.drain())
        await asyncio.sleep(0)
        outbox.fail(ClosedError("closed"))
        with pytest.raises(ClosedError):
            await draining

    run(test)


def test_those_who_wait_hear_of_the_end() -> None:
    async def test() -> None:
        outbox = Outbox(Sink(0).offer, at_once)
        waiter = asyncio.create_task(outbox.wait())
        await asyncio.sleep(0)
        outbox.fail(ClosedError("closed"))
        with pytest.raises(ClosedError):
            await waiter

    run(test)
