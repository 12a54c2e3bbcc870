"""A message that the engine refuses, although it came past the checks at the call: the node lives on, and tells."""

import asyncio
from pathlib import Path

import pytest

from antiphon import Group, UsageError
from antiphon.kernel.levels import AGREED
from antiphon.pipeline import reference
from antiphon.runtime.outbox import SendMode
from tests.runtime.cluster import cluster, read, run

WORDS = "a message to one member is `causal`"


def send_wrongly(group: Group) -> int:
    """Put a message into the send queue that no call would have let through."""
    mode = SendMode(AGREED, (group.view.members[0],))
    return group._outbox.put(group._lane, (b"wrong",), mode, 5)


def test_the_call_gets_the_error_and_all_else_goes_on() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            with pytest.raises(UsageError, match=WORDS):
                send_wrongly(groups[0])
            await groups[0].send(b"right")
            assert [message.number for message in await read(groups[1], 1)] == [1]
            assert [node.statistics()["sends_refused"] for node in nodes] == [1, 0, 0]
            await groups[0].flush()

    run(test)


def test_if_the_call_has_returned_the_next_one_gets_it() -> None:
    async def test() -> None:
        async with cluster() as (nodes, groups):
            await groups[0].send(b"first")  # what follows in this turn waits for its end
            assert send_wrongly(groups[0]) == 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert nodes[0].statistics()["sends_refused"] == 1
            with pytest.raises(UsageError, match=WORDS):
                await groups[0].send(b"told")
            await groups[0].send(b"second")
            assert [message.payload for message in await read(groups[1], 2)] == [b"first", b"second"]

    run(test)


def test_who_waits_for_all_to_leave_gets_it() -> None:
    async def test() -> None:
        async with cluster() as (_, groups):
            await groups[0].send(b"first")
            assert send_wrongly(groups[0]) == 1
            with pytest.raises(UsageError, match=WORDS):
                await groups[0].flush()
            await groups[0].send(b"second")
            await groups[0].flush()

    run(test)


def test_where_calls_are_recorded_the_history_stays_true(tmp_path: Path) -> None:
    """The refused message has its number there already: nothing more is sent to this group, and all else goes on."""

    async def test() -> None:
        async with cluster(history=tmp_path) as (nodes, groups):
            await groups[0].send(b"before")
            await groups[0].flush()
            with pytest.raises(UsageError, match=WORDS):
                send_wrongly(groups[0])
            for _ in range(2):
                with pytest.raises(UsageError, match=WORDS):
                    await groups[0].send(b"never")
            await groups[1].send(b"of another")
            assert [len(await read(group, 2)) for group in groups] == [2, 2, 2]
            assert nodes[0].statistics()["sends_refused"] == 1

    run(test)
    assert [finding for finding in reference.audit(tmp_path).findings if finding.violations] == []
