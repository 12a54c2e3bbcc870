"""State transfer, each corner on purpose: on a hub that does what the test says."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from antiphon import Barrier, Excluded, Message, ProcessId, UsageError, View, ViewChange
from antiphon.toolkit import Service, StateError, TransferError, transfer
from antiphon.toolkit.messages import Again, SnapshotOffer
from antiphon.toolkit.state import Joiner
from tests.runtime.cluster import run, until
from tests.toolkit.hub import Hub, Member
from tests.toolkit.ledger import Ledger


@asynccontextmanager
async def ledgers(hub: Hub, names: str) -> AsyncIterator[list[Ledger]]:
    """The founders' ledgers; who comes later is added to the list to be closed with them."""
    opened = [await Ledger(member).open() for member in hub.found(names)]
    try:
        yield opened
    finally:
        await asyncio.gather(*(ledger.close() for ledger in opened))


async def enter(opened: list[Ledger], *members: Member, **settings: int) -> list[Ledger]:
    new = [await Ledger(member, **settings).open() for member in members]
    opened += new
    return new


def test_a_barrier_is_passed_on_and_numbered_with_the_rest() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            await opened[0].service.send(b"one")
            await opened[0].service.barrier(b"now")
            await opened[0].service.send(b"two")
            (late,) = await enter(opened, *hub.join("c"))
            for ledger in opened:
                await ledger.until(b"one", b"two")
            kinds = [type(event) for event in opened[1].events][:5]
            assert kinds == [ViewChange, Message, Barrier, ViewChange, Message]
            assert [event.payload for event in opened[1].events if isinstance(event, Barrier)] == [b"now"]
            await opened[0].service.barrier(b"again")
            await until(lambda: any(isinstance(event, Barrier) for event in late.events))

    run(test)


def test_founders_have_nothing_to_fetch() -> None:
    async def test() -> None:
        async with ledgers(Hub(), "abc") as opened:
            await opened[0].service.send(b"one")
            for ledger in opened:
                await ledger.until(b"one")
                assert (ledger.restores, ledger.snapshots) == (0, 0)
                assert isinstance(ledger.events[0], ViewChange)

    run(test)


def test_a_joiner_gets_the_state_before_its_first_event_and_goes_on_from_there() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            await opened[0].service.send(b"one")
            await opened[1].service.send(b"two")
            (late,) = await enter(opened, *hub.join("c"))
            await opened[0].service.send(b"three")
            for ledger in opened:
                await ledger.until(b"one", b"two", b"three")
            assert [type(event) for event in late.events] == [ViewChange, Message]
            assert [ledger.snapshots for ledger in opened] == [1, 0, 0]  # by the oldest

    run(test)


def test_what_the_state_contains_is_not_delivered_again() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            (member,) = hub.join("c")
            hub.members[ProcessId("a")].flushed.clear()  # the transfer cannot end yet…
            (late,) = await enter(opened, member)
            for number in range(10):
                await opened[1].service.send(b"%d" % number)
            lines = [b"%d" % number for number in range(10)]
            await opened[0].until(*lines)
            await until(lambda: late.restores == 1)
            await late.service.tell(Again(), ProcessId("a"))  # …and another snapshot contains all that
            await until(lambda: opened[0].snapshots == 2)
            hub.members[ProcessId("a")].flushed.set()
            await opened[1].service.send(b"last")
            for ledger in opened:
                await ledger.until(*lines, b"last")
            assert sum(isinstance(event, Message) for event in late.events) == 1

    run(test)


def test_messages_of_views_that_were_over_are_in_the_state_also_when_their_sender_is_gone() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "abx") as opened:
            hub.members[ProcessId("a")].flushed.clear()
            (late,) = await enter(opened, *hub.join("c"))
            await opened[2].service.send(b"last words")
            hub.fail("x")
            await opened[0].until(b"last words")
            hub.fail("a")  # b provides, in a view without x
            await opened[1].service.send(b"on")
            await late.until(b"last words", b"on")
            assert [event.payload for event in late.events if isinstance(event, Message)] == [b"on"]
            assert opened[1].snapshots == 1

    run(test)


@pytest.mark.parametrize("left", [False, True])
def test_a_provider_that_goes_away_is_followed_by_the_next(left: bool) -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "abc") as opened:
            await opened[0].service.send(b"one")
            hub.members[ProcessId("a")].flushed.clear()
            (late,) = await enter(opened, *hub.join("d"))
            await until(lambda: opened[0].snapshots == 1)
            hub.fail("a", left=left)
            await opened[1].service.send(b"two")
            for ledger in opened[1:]:
                await ledger.until(b"one", b"two")
            assert (opened[1].snapshots, opened[2].snapshots) == (1, 0)
            assert late.error is None

    run(test)


def test_a_snapshot_whose_provider_fails_before_all_have_what_is_in_it_is_not_used() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            # What only `a` has delivered: the hub's other members never see it.
            opened[0].lines.append(b"lost with a")
            hub.members[ProcessId("a")].flushed.clear()
            (late,) = await enter(opened, *hub.join("c"))
            await until(lambda: late.restores == 1)
            hub.fail("a")
            await opened[1].service.send(b"on")
            await late.until(b"on")

    run(test)


def test_joiners_complete_one_by_one_and_provide_in_turn() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            await opened[0].service.send(b"one")
            (second,) = await enter(opened, *hub.join("b"))
            await opened[0].service.send(b"two")
            await second.until(b"one", b"two")
            third_member, fourth_member = hub.join("c", "d")
            hub.fail("a")  # so that b is the oldest with the state
            await opened[0].close()
            new = await enter(opened, third_member, fourth_member)
            await second.service.send(b"three")
            for ledger in new:
                await ledger.until(b"one", b"two", b"three")
            assert second.snapshots >= 2
            opened.pop(0)

    run(test)


def test_a_joiner_learns_who_else_lacks_the_state() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            await opened[0].service.send(b"one")
            _idle, quick_member = hub.join("b", "c")  # b's application does not run at all
            (quick,) = await enter(opened, quick_member)
            await quick.until(b"one")
            await until(lambda: sum(message.payload.find(b"complete") > 0 for message in hub.sent) == 1)
            hub.fail("a")  # b is the oldest now, but c is the oldest with the state
            (last_member,) = hub.join("d")
            (last,) = await enter(opened, last_member)
            await last.until(b"one")
            assert quick.snapshots == 2  # one for each of those that lack it

    run(test)


def test_when_nobody_has_the_state_all_are_told() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            hub.members[ProcessId("a")].flushed.clear()
            new = await enter(opened, *hub.join("b", "c"))
            hub.fail("a")
            for ledger in new:
                error = await ledger.until_error()
                assert isinstance(error, StateError)
                assert "the state is lost" in str(error)

    run(test)


def test_who_holds_back_too_much_drops_it_and_asks_again() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            hub.members[ProcessId("a")].flushed.clear()
            (late,) = await enter(opened, *hub.join("c"), events_max=20)
            await until(lambda: late.restores == 1)
            lines = [b"%d" % number for number in range(30)]
            for line in lines:
                await opened[1].service.send(line)
            await until(lambda: opened[0].snapshots >= 2)
            hub.members[ProcessId("a")].flushed.set()
            await late.until(*lines)

    run(test)


def test_what_views_did_that_are_in_the_state_is_not_done_again() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            (slow_member,) = hub.join("c")
            (quick,) = await enter(opened, *hub.join("d"))
            await opened[0].service.send(b"one")
            await quick.until(b"one")
            await until(lambda: sum(b"complete" in message.payload for message in hub.sent) == 1)
            hub.fail("a")  # the snapshot that c can have now knows that d has joined and has the state
            (slow,) = await enter(opened, slow_member)
            await slow.until(b"one")
            hub.fail("b")
            (last,) = await enter(opened, *hub.join("e"))
            await last.until(b"one")
            assert slow.snapshots == 1  # for e, and none for d

    run(test)


def test_whoever_gets_the_state_after_its_provider_failed_provides_it_to_the_rest() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            await opened[0].service.send(b"one")
            provider = hub.members[ProcessId("a")]
            provider.flushed.clear()
            quick_member, slow_member = hub.join("b", "c")
            (quick,) = await enter(opened, quick_member)
            await until(lambda: quick.restores == 1)
            quick_member.is_held = True  # so that it does not hear of the next view before it has the state
            hub.fail("a")
            provider.flushed.set()
            await until(lambda: any(b"complete" in message.payload for message in hub.sent))
            quick_member.release()
            (slow,) = await enter(opened, slow_member)
            await slow.until(b"one")
            assert quick.snapshots == 1

    run(test)


@pytest.mark.parametrize("why", ["its provider is gone", "more messages came"])
def test_a_snapshot_that_is_void_is_not_used_even_if_it_is_complete(why: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        gate = asyncio.Event()

        class Fetching(Joiner):
            async def _fetch(self, offer: SnapshotOffer) -> transfer.Header:
                await gate.wait()
                return transfer.Header(2, [], [], [], [])

        async def ignore(*_: object) -> None:
            pass

        provider, joiner = ProcessId("a"), ProcessId("b")
        joining = Fetching(ignore, ignore)
        joining.install(View(2, (provider, joiner)), False)
        joining.hear_offer(SnapshotOffer("", b""), provider)
        adopted: list[transfer.Header] = []
        obtaining = asyncio.create_task(joining.obtain(adopted.append))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.set()
        if why == "its provider is gone":
            joining.install(View(3, (joiner,)), False)
        else:
            joining.overflow([])
        await until(lambda: why in caplog.text)
        assert adopted == []
        joining.end()
        assert not await obtaining

    run(test)


def test_a_snapshot_that_is_older_than_what_was_dropped_is_not_used() -> None:
    async def test() -> None:
        hub = Hub()
        founder, other = hub.found("ab")
        provider, sender = Ledger(founder), Ledger(other)
        opened = [await sender.open()]
        try:
            (late,) = await enter(opened, *hub.join("c"), events_max=20)
            await sender.service.send(b"for c", to=ProcessId("c"))
            lines = [b"%d" % number for number in range(30)]
            for line in lines:
                await sender.service.send(line)
            await until(lambda: bool(late.service._joiner._dropped))
            opened.append(await provider.open())  # only now: and its first snapshot is of the view in which c joined
            await late.until(*lines, b"for c")  # which is in no state, and so was kept
            assert provider.snapshots == 2
        finally:
            for ledger in opened:
                await ledger.close()

    run(test)


def test_whoever_was_excluded_while_it_joined_begins_anew() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "ab") as opened:
            await opened[0].service.send(b"one")
            hub.members[ProcessId("a")].flushed.clear()
            (late,) = await enter(opened, *hub.join("c"))
            await until(lambda: late.restores == 1)
            await opened[1].service.send(b"two")
            alone = hub.expel("c")
            hub.readmit(alone)
            await opened[1].service.send(b"three")
            await until(lambda: late.restores == 2)
            await late.service.tell(Again(), ProcessId("a"))
            await until(lambda: opened[0].snapshots == 3)
            hub.members[ProcessId("a")].flushed.set()
            await opened[0].service.send(b"four")
            for ledger in opened:
                await ledger.until(b"one", b"two", b"three", b"four")
            assert Excluded not in [type(event) for event in late.events]
            assert [event.payload for event in late.events if isinstance(event, Message)] == [b"four"]

    run(test)


def test_whoever_breaks_off_fetching_the_state_can_begin_anew() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            await opened[0].service.send(b"one")
            hub.members[ProcessId("a")].flushed.clear()
            late = Ledger(hub.join("b")[0])
            async with late.service:
                first = asyncio.create_task(anext(late.service))
                await until(lambda: late.restores == 1)
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
                hub.members[ProcessId("a")].flushed.set()
                assert isinstance(await anext(late.service), ViewChange)
                assert (late.lines, late.restores, opened[0].snapshots) == ([b"one"], 2, 2)

    run(test)


def test_whoever_was_excluded_and_comes_back_gets_the_state_anew() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "abc") as opened:
            await opened[0].service.send(b"one")
            for ledger in opened:
                await ledger.until(b"one")
            asking = asyncio.create_task(opened[0].service.ask(b"?"))
            for ledger in opened:
                await ledger.until(b"one", b"asked ?")
            assert len(await asking) == 3
            alone = hub.expel("a")
            await opened[1].service.send(b"two")
            await opened[1].until(b"one", b"asked ?", b"two")
            hub.readmit(alone)
            await opened[2].service.send(b"three")
            for ledger in opened:
                await ledger.until(b"one", b"asked ?", b"two", b"three")
            kinds = [type(event) for event in opened[0].events]
            assert kinds == [ViewChange, Message, Excluded, ViewChange, Message]
            assert (opened[0].restores, opened[1].snapshots) == (1, 1)
            replies = await opened[0].service.ask(b"!")
            assert [repr(reply.process) for reply in replies] == ["b/1", "c/1", "a/2"]

    run(test)


def test_the_end_of_the_group_before_the_state_came_is_the_end_of_the_stream() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            hub.members[ProcessId("a")].flushed.clear()
            member = hub.join("b")[0]
            late = Ledger(member)
            async with late.service:
                await opened[0].service.send(b"one")
                first = asyncio.create_task(anext(late.service))
                await until(lambda: late.restores == 1)
                member.end()
                hub.members[ProcessId("a")].flushed.set()
                events = [await first, *[event async for event in late.service]]
                assert {type(event) for event in events} <= {ViewChange, Message}
                assert isinstance(events[0], ViewChange)

    run(test)


def test_a_snapshot_that_cannot_be_made_is_an_error_at_last() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:

            def broken() -> Iterable[bytes]:
                opened[0].snapshots += 1
                raise RuntimeError("no paper")

            opened[0].service._provider._snapshot = broken
            (late,) = await enter(opened, *hub.join("b"))
            error = await late.until_error()
            assert isinstance(error, StateError)
            assert "10 attempts" in str(error)
            assert "no paper" in str(error)
            assert opened[0].snapshots == 10

    run(test)


def test_the_token_is_asked_for_and_good_for_once() -> None:
    async def test() -> None:
        server = transfer.SnapshotServer(asyncio.Event().wait)  # type: ignore[arg-type]
        header = transfer.Header(1, [], [], [], [])
        offer = await server.offer("127.0.0.1", "joiner", header, [b"secret"])
        try:
            wrong = SnapshotOffer(offer.address, b"?" * 32)
            for attempt in (wrong, offer, offer):
                async with transfer.Fetch(attempt) as fetch:
                    if attempt is offer and server._offered:
                        assert await fetch.header() == header
                        assert await anext(fetch.chunks()) == b"secret"
                    else:
                        with pytest.raises(TransferError):
                            await fetch.header()
        finally:
            await server.close()

    run(test)


def test_a_large_state_goes_in_slices_at_the_pace_of_the_joiner() -> None:
    async def test() -> None:
        taken = 0

        def chunks() -> Iterable[bytes]:
            nonlocal taken
            for _ in range(64):
                taken += 1
                yield bytes(1024 * 1024)

        async def stable() -> None:
            pass

        server = transfer.SnapshotServer(stable)
        offer = await server.offer("127.0.0.1", "joiner", transfer.Header(1, [], [], [], []), chunks())
        try:
            async with transfer.Fetch(offer) as fetch:
                await fetch.header()
                source = fetch.chunks()
                assert len(await anext(source)) == transfer.CHUNK_BYTES_MAX
                former = -1
                while taken != former:  # the joiner does not read on, so the provider soon stands still
                    former = taken
                    await asyncio.sleep(0.05)
                assert taken < 64
                size = transfer.CHUNK_BYTES_MAX + sum([len(chunk) async for chunk in source])
                assert size == 64 * 1024 * 1024
        finally:
            await server.close()

    run(test)


def test_reliable_is_refused_where_state_is_kept_and_half_a_pair_everywhere() -> None:
    async def test() -> None:
        hub = Hub()
        async with ledgers(hub, "a") as opened:
            with pytest.raises(UsageError, match="use `fifo`"):
                await opened[0].service.send(b"x", order="reliable")
            with pytest.raises(UsageError, match="both `snapshot` and `restore`"):
                Service(hub.members[ProcessId("a")], snapshot=opened[0].snapshot)

    run(test)
