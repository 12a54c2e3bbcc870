"""Locks and leaders on a group that does what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import ClosedError, ExcludedError, LevelNotOfferedError, Stalled, UsageError
from antiphon.toolkit import DeadlockError, Leader, LockClaim, LockLostError, Locks, StaleTokenError, TokenGuard, Tools
from tests.runtime.cluster import run, until
from tests.toolkit.hub import Hub, Member


class Site:
    """One member with locks and a leader."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.tools = Tools(member)
        self.locks = Locks(self.tools)
        self.leader = Leader(self.tools)


@asynccontextmanager
async def sites(names: str) -> AsyncIterator[tuple[Hub, list[Site]]]:
    hub = Hub()
    all_sites = [Site(member) for member in hub.found(names)]
    for site in all_sites:
        await site.tools.__aenter__()
        await site.tools.live()
    try:
        yield hub, all_sites
    finally:
        for site in all_sites:
            site.member.end()
            await site.tools.close()


def on_hub(names: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[[], None]]:
    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def bounded() -> None:
            async def body() -> None:
                async with sites(names) as (hub, all_sites):
                    await test(hub, *all_sites)

            run(body)

        bounded.__doc__ = test.__doc__
        return bounded

    return decorate


async def pause() -> None:
    """Let everything happen that can happen without time."""
    for _ in range(50):
        await asyncio.sleep(0)


async def waits(claim: LockClaim) -> asyncio.Task[LockClaim]:
    task = asyncio.create_task(claim.acquire())
    await pause()
    assert not task.done()
    return task


@on_hub("abc")
async def test_writers_are_served_one_after_the_other(hub: Hub, a: Site, b: Site, c: Site) -> None:
    first = await a.locks.write("x").acquire()
    second, third = await waits(b.locks.write("x")), await waits(c.locks.write("x"))
    assert [site.locks.holder("x") for site in (a, b, c)] == [a.member.process] * 3
    assert a.locks.waiting("x") == [b.member.process, c.member.process]
    first.release()
    assert (await second).token > first.token
    assert not third.done()
    (await second).release()
    assert (await third).token > (await second).token
    (await third).release()
    await pause()
    assert a.locks.holder("x") is None
    assert a.locks.table.export() == b.locks.table.export() == c.locks.table.export()


@on_hub("ab")
async def test_items_are_independent(hub: Hub, a: Site, b: Site) -> None:
    async with a.locks.write("x") as one, b.locks.write("y") as other:
        assert one.is_held
        assert other.is_held
        assert one.token != other.token


@on_hub("abc")
async def test_readers_share_and_hold_writers_off(hub: Hub, a: Site, b: Site, c: Site) -> None:
    one, other = await a.locks.read("x").acquire(), await b.locks.read("x").acquire()
    assert one.token == other.token
    assert one.token % 2 == 1
    await pause()
    assert c.locks.readers("x") == [a.member.process, b.member.process]
    writer = await waits(c.locks.write("x"))
    late = await waits(a.locks.read("x"))
    one.release()
    await pause()
    assert not writer.done()
    other.release()
    assert (await writer).token > one.token
    assert not late.done()
    (await writer).release()
    assert (await late).token > (await writer).token
    (await late).release()


@on_hub("ab")
async def test_a_read_lock_waits_for_nobody(hub: Hub, a: Site, b: Site) -> None:
    """5.3: the sender goes on as if its read lock were already replicated."""
    b.member.is_held = True
    async with asyncio.timeout(1), a.locks.read("x"):
        assert b.locks.readers("x") == []
        b.member.release()
        await until(lambda: b.locks.readers("x") == [a.member.process])


@on_hub("ab")
async def test_a_member_that_has_not_heard_of_a_request_has_not_agreed(hub: Hub, a: Site, b: Site) -> None:
    b.member.is_held = True
    writer = await waits(a.locks.write("x"))
    reader = await b.locks.read("x").acquire()
    b.member.release()
    await pause()
    assert not writer.done()
    reader.release()
    assert (await writer).token > reader.token


@on_hub("abc")
async def test_the_lock_of_a_failed_member_is_free(hub: Hub, a: Site, b: Site, c: Site) -> None:
    held = await a.locks.write("x").acquire()
    await a.locks.read("y").acquire()
    waiting, writer = await waits(b.locks.write("x")), await waits(c.locks.write("y"))
    hub.fail("a")
    assert (await waiting).token > held.token
    assert (await writer).is_held


@on_hub("abc")
async def test_a_holder_that_was_excluded_is_told_and_fenced_off(hub: Hub, a: Site, b: Site, c: Site) -> None:
    guard, told = TokenGuard(), asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with a.locks.write("x") as claim:
            guard.check(claim.token)
            told.set_result(claim)
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    claim = await told
    waiting = await waits(b.locks.write("x"))
    a.member.is_held = True
    hub.expel("a")
    guard.check((await waiting).token)
    assert not holding.done()
    with pytest.raises(StaleTokenError):
        guard.check(claim.token)
    a.member.release()
    with pytest.raises(LockLostError, match="took this process to have failed"):
        await holding


@on_hub("ab")
async def test_it_comes_back_with_the_state_and_higher_tokens(hub: Hub, a: Site, b: Site) -> None:
    claim = await a.locks.write("x").acquire()
    held = await b.locks.write("y").acquire()
    waiting = await waits(a.locks.write("y"))
    hub.expel("a")
    await claim.lost()
    with pytest.raises(LockLostError, match="the claim to write 'y' was lost"):
        await waiting
    held.release()
    again = await b.locks.write("x").acquire()
    hub.readmit(a.member)
    queued = await waits(a.locks.write("x"))
    again.release()
    assert (await queued).token > again.token > claim.token


@on_hub("ab")
async def test_what_a_stalled_holder_has_is_lost(hub: Hub, a: Site, b: Site) -> None:
    claim = await a.locks.write("x").acquire()
    a.member.put(Stalled(group="g", view=hub.view))
    await claim.lost()
    with pytest.raises(LockLostError, match="no majority"):
        claim.check()
    reading = await waits(a.locks.read("y"))
    hub.install(hub.view.members)
    assert (await reading).is_held
    await pause()
    assert b.locks.holder("x") is None, "released when the majority was back"


@on_hub("ab")
async def test_a_time_out_takes_the_request_back(hub: Hub, a: Site, b: Site) -> None:
    held = await a.locks.write("x").acquire()
    with pytest.raises(TimeoutError, match="write 'x' was not granted within"):
        await b.locks.write("x", timeout_s=0.01).acquire()
    await pause()
    assert a.locks.waiting("x") == []
    held.release()
    async with b.locks.write("x", timeout_s=1):
        pass


@on_hub("ab")
async def test_a_request_that_is_given_up_before_it_arrives_is_no_holder(hub: Hub, a: Site, b: Site) -> None:
    a.member.is_held = True
    asking = await waits(a.locks.write("x"))
    asking.cancel()
    await pause()
    a.member.release()
    async with b.locks.write("x", timeout_s=1):
        pass


@on_hub("ab")
async def test_a_circle_over_two_items_is_found_by_the_youngest(hub: Hub, a: Site, b: Site) -> None:
    async def take(site: Site, first: str, second: str, other: asyncio.Event, mine: asyncio.Event) -> str:
        async with site.locks.write(first):
            mine.set()
            await other.wait()
            try:
                async with site.locks.write(second):
                    return "both"
            except DeadlockError:
                return "gave way"

    one, two = asyncio.Event(), asyncio.Event()
    outcomes = await asyncio.gather(take(a, "x", "y", two, one), take(b, "y", "x", one, two))
    assert sorted(outcomes) == ["both", "gave way"]


@on_hub("ab")
async def test_a_circle_through_a_read_lock_is_found(hub: Hub, a: Site, b: Site) -> None:
    async def take(site: Site, read: str, write: str, other: asyncio.Event, mine: asyncio.Event) -> str:
        async with site.locks.read(read):
            mine.set()
            await other.wait()
            try:
                async with site.locks.write(write):
                    return "both"
            except DeadlockError:
                return "gave way"

    one, two = asyncio.Event(), asyncio.Event()
    outcomes = await asyncio.gather(take(a, "x", "y", two, one), take(b, "y", "x", one, two))
    assert "gave way" in outcomes


@on_hub("ab")
async def test_a_chain_is_no_circle(hub: Hub, a: Site, b: Site) -> None:
    async def chain(site: Site) -> None:
        async with site.locks.write("x"), site.locks.write("y"):
            await pause()

    await asyncio.gather(*(chain(site) for site in (a, b, a, b)))


@on_hub("ab")
async def test_a_joiner_gets_the_queue_and_agrees(hub: Hub, a: Site, b: Site) -> None:
    held = await a.locks.write("x").acquire()
    waiting = await waits(b.locks.write("x"))
    (member,) = hub.join("c")
    c = Site(member)
    async with c.tools:
        await c.tools.live()
        assert c.locks.holder("x") == a.member.process
        assert c.locks.table.last == a.locks.table.last
        reading = await waits(c.locks.read("x"))
        held.release()
        (await waiting).release()
        assert (await reading).token > (await waiting).token
        (await reading).release()
        async with a.locks.write("x", timeout_s=1) as claim:
            assert claim.is_held
        member.end()


@on_hub("a")
async def test_clocks_that_went_back_are_made_up_for(hub: Hub, a: Site) -> None:
    guard = TokenGuard()
    guard.check(3 * 10**18)
    with pytest.raises(StaleTokenError) as caught:
        async with a.locks.write("x") as claim:
            guard.check(claim.token)
    async with a.locks.write("x", above=caught.value.highest) as claim:
        guard.check(claim.token)
    async with a.locks.write("x") as later:
        guard.check(later.token)
        assert later.token > claim.token


def test_tokens_rise_over_restarts_of_all_members_without_a_disk() -> None:
    """A new group knows nothing of the old one; the clocks do."""

    async def test() -> None:
        guard = TokenGuard()
        for _ in range(3):
            async with sites("ab") as (_, (a, b)):
                for site in (a, b, a):
                    async with site.locks.write("x") as claim:
                        guard.check(claim.token)
                async with b.locks.read("x") as claim:
                    guard.check(claim.token)

    run(test)


@on_hub("ab")
async def test_the_candidate_that_has_waited_longest_leads_next(hub: Hub, a: Site, b: Site) -> None:
    changed = asyncio.create_task(b.leader.changed())
    await pause()
    term = await a.leader.term().acquire()
    assert a.leader.current == a.member.process
    assert await changed == a.member.process
    following = await waits(b.leader.term())
    assert a.leader.candidates == [b.member.process]
    changed = asyncio.create_task(b.leader.changed())
    await pause()
    hub.fail("a")
    assert await changed == b.member.process
    assert (await following).token > term.token


@on_hub("a")
async def test_mistakes_are_told(hub: Hub, a: Site) -> None:
    for name in ("", "x" * 201):
        with pytest.raises(UsageError, match="the name of a lock has 1 to 200 bytes"):
            a.locks.write(name)
    with pytest.raises(UsageError, match="negative"):
        a.locks.read("x", timeout_s=-1)
    with pytest.raises(UsageError, match="no token"):
        a.locks.write("x", above=-1)
    async with a.locks.write("x") as claim:
        assert repr(claim) == f"<LockClaim to write 'x': held, token {claim.token}>"
        with pytest.raises(UsageError, match="holds 'x' already, to write"):
            await a.locks.read("x").acquire()
        with pytest.raises(UsageError, match="make a claim for each use"):
            await claim.acquire()
    assert "released" in repr(claim)
    with pytest.raises(UsageError, match="made before"):
        Locks(a.tools, "more")
    assert repr(a.locks) == "<Locks 'locks' in group 'g'>"
    tools = Tools(a.member)
    Locks(tools)
    with pytest.raises(UsageError, match="already"):
        Locks(tools)


def test_a_group_whose_views_part_is_refused() -> None:
    async def test() -> None:
        (member,) = Hub().found("a")
        member.policy = "partitionable"  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match="tools need `primary`"):
            Tools(member)

    run(test)


@on_hub("a")
async def test_a_stack_without_the_level_is_told(hub: Hub, a: Site) -> None:
    async def refuse(*arguments: object, **named: object) -> None:
        raise LevelNotOfferedError("safe", "other", ("causal",), ("vector",))

    a.member.send = refuse  # type: ignore[method-assign]
    with pytest.raises(LevelNotOfferedError, match="safe"):
        await a.locks.write("x").acquire()


@on_hub("ab")
async def test_the_end_of_the_group_ends_all_claims(hub: Hub, a: Site, b: Site) -> None:
    held = await a.locks.write("x").acquire()
    blocked = await waits(b.locks.write("x"))
    b.member.end()
    with pytest.raises(ClosedError):
        await blocked
    with pytest.raises(ClosedError):
        await b.locks.read("y").acquire()
    with pytest.raises(ClosedError):
        await b.leader.changed()
    a.member.end()
    await held.lost()
    with pytest.raises(LockLostError, match="no longer a member"):
        held.check()


@on_hub("ab")
async def test_an_exclusion_without_a_return_is_told(hub: Hub, a: Site, b: Site) -> None:
    hub.expel("b")
    await pause()
    b.member.end()
    await pause()
    with pytest.raises(ExcludedError):
        await b.locks.write("x").acquire()


@on_hub("ab")
async def test_what_others_send_is_checked(hub: Hub, a: Site, b: Site) -> None:
    from antiphon.toolkit.locks import _ENCODER, AT_MAX, _Acquire

    for payload in (b"", b"nonsense", _ENCODER.encode(_Acquire("x", 1, 1, AT_MAX + 1))):
        b.tools.post(b.locks, payload, order="safe")
    b.tools.post(b.locks, _ENCODER.encode(_Acquire("x", 1, 1, 5)), order="causal")
    await pause()
    assert a.tools.strays == b.tools.strays == 4
    assert a.locks.holder("x") is None
