"""Reading what was published before: late joiners, clients that were away, positions, and what is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import antiphon
from antiphon import Connection, Node, PositionLostError, UsageError
from antiphon.runtime.positions import parse_position
from antiphon.stacks.sequencer.place import Place
from antiphon.stacks.sequencer.replay import ReplayJob
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, free_address
from tests.runtime.test_connection import messages

KEEPING = replace(HASTY, of_stacks={"sequencer.retained_kib": 64})


@asynccontextmanager
async def keeping_peer(storage: Path | None = None) -> AsyncIterator[str]:
    options = KEEPING
    if storage is not None:
        options = replace(KEEPING, of_stacks={**KEEPING.of_stacks, "sequencer.durable": 1})
    async with Node("peer", address=free_address(), options=options, storage=storage) as node:
        node.serve("sequencer")
        yield node.address


async def positions_after(client: Connection, count: int, *groups: str) -> dict[str, str]:
    """Read so many messages; where the client is then."""
    await messages(client, count)
    return {group: client.position(group) for group in groups}


def test_a_late_joiner_is_told_all_that_is_kept_in_one_order() -> None:
    async def test() -> None:
        async with keeping_peer() as address:
            first = await antiphon.connect(address, options=HASTY)
            await first.subscribe("a", "b", "c")
            for number in range(60):
                await first.publish("abc"[number % 3], b"%d" % number)
            told = await messages(first, 60)
            await first.flush()
            late = await antiphon.connect(address, options=HASTY)
            await late.subscribe("c", "a", "b", after={"a": "", "b": "", "c": ""})
            await first.publish("b", b"new")
            assert await messages(late, 61) == [*told, ("b", b"new")]
            await late.close()
            await first.close()

    run(test)


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_client_that_was_away_goes_on_at_its_position(is_durable: bool, tmp_path: Path) -> None:
    async def test() -> None:
        async with keeping_peer(tmp_path if is_durable else None) as address:
            writer = await antiphon.connect(address, options=HASTY)
            await writer.subscribe("a", "b")
            away = await antiphon.connect(address, options=HASTY, linger_s=0.1)
            await away.subscribe("a", "b")
            sent = []
            for number in range(40):
                group = "ab"[number % 2]
                await writer.publish_many(group, [b"%d" % number, b"and %d" % number, b"again %d" % number])
                sent += [(group, payload % number) for payload in (b"%d", b"and %d", b"again %d")]
            positions = await positions_after(away, 50, "a", "b")
            assert "." in positions["a"] + positions["b"]  # in the midst of a batch
            await away.close()
            await writer.publish("a", b"while it was away")
            await writer.flush()
            back = await antiphon.connect(address, options=HASTY)
            await back.subscribe("a", "b", after=positions)
            await writer.publish("b", b"live")
            assert await messages(back, 72) == [*sent[50:], ("a", b"while it was away"), ("b", b"live")]
            await back.close()
            await writer.close()

    run(test)


def test_what_is_not_kept_any_more_is_said_to_be_lost() -> None:
    async def test() -> None:
        async with keeping_peer() as address:
            writer = await antiphon.connect(address, options=HASTY)
            await writer.subscribe("g")
            await writer.publish("g", b"first")
            [position] = (await positions_after(writer, 1, "g")).values()
            for _ in range(30):
                await writer.publish("g", b"x" * 5000)
            await messages(writer, 30)
            await writer.flush()
            await asyncio.sleep(0.1)
            late = await antiphon.connect(address, options=HASTY)
            with pytest.raises(PositionLostError, match="does not have all that was published in group 'g'"):
                await late.subscribe("g", after={"g": position})
            kept = await antiphon.connect(address, options=HASTY)
            await kept.subscribe("g", after={"g": ""})
            await writer.publish("g", b"end")
            assert (await messages(kept, 2))[0] == ("g", b"x" * 5000)
            with pytest.raises(UsageError, match="before anything is read"):
                await kept.subscribe("h", after={"h": ""})
            for client in (late, kept, writer):
                await client.close()

    run(test)


def test_positions_are_read_and_nonsense_is_refused() -> None:
    assert parse_position("") == (0, 0)
    assert parse_position("17") == (18, 0)
    assert parse_position("17.3") == (17, 3)
    with pytest.raises(UsageError, match="is no position"):
        parse_position("yesterday")


def test_places_of_several_groups_come_in_the_order_of_their_contexts() -> None:
    job = ReplayJob({1: (5, 7), 2: (1, 2)})
    job.take(1, 5, [Place(1, 5, 1, {1: 5, 2: 0}), Place(1, 6, 3, {1: 6, 2: 1}), Place(1, 7, 5, {1: 7, 2: 9})], True)
    job.take(2, 1, [Place(2, 1, 2, {2: 1, 1: 5}), Place(2, 2, 4, {2: 2, 1: 6})], True)
    assert [(place.group, place.number) for place in job.in_order()] == [(1, 5), (2, 1), (1, 6), (2, 2), (1, 7)]
