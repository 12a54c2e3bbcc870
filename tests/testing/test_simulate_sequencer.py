"""Groups of the sequencing service in virtual time: members that leave while others send."""

import asyncio

import pytest

import antiphon
from antiphon.testing import Host, Result, simulate


async def serve(host: Host) -> None:
    async with antiphon.Node(host.name, address=host.at()) as node:
        node.serve("sequencer")
        await host.ending.wait()


async def read(node: antiphon.Node) -> None:
    async for _ in node:
        pass


async def come_and_go(host: Host) -> None:
    async with antiphon.Node(host.name, address=host.at()) as node:
        reading = asyncio.create_task(read(node))
        for stay in range(4):
            group = await node.join("g", stack="sequencer", contacts=[host.members()["service"]])
            await asyncio.sleep(0.3 + 0.0037 * stay)
            await group.leave()
            await asyncio.sleep(0.2)
        reading.cancel()


def sender(order: antiphon.Order, pause_s: float) -> object:
    async def send(host: Host) -> None:
        async with antiphon.Node(host.name, address=host.at()) as node:
            reading = asyncio.create_task(read(node))
            group = await node.join("g", stack="sequencer", contacts=[host.members()["service"]])
            while not host.calm.is_set():
                await group.send(b"x", order=order)
                await asyncio.sleep(pause_s)
            await host.ending.wait()
            reading.cancel()

    return send


def run(order: antiphon.Order) -> Result:
    programs = {"service": serve, "guest": come_and_go, "talker": sender(order, 0.003)}
    return simulate(programs, seed=1, faults="none", active_s=1.7)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["agreed"])
def test_who_has_left_is_owed_nothing_that_was_placed_behind_its_leave(order: antiphon.Order) -> None:
    """Though it had been sent before the sender heard of the leave."""
    result = run(order)
    assert result.kept, result.report("…")
    views = {
        view.index: view for rows in result.rows for view in rows if (view.process, view.kind) == ("talker", "view")
    }
    assert len(views) > 5
    talker = next(rows for rows in result.rows if rows[0].process == "talker")
    before = after = None
    crossed = 0
    for row in talker:
        if row.kind == "send":
            before = row.number
        elif row.kind == "view":
            after = before
        elif row.kind == "depart" and after is not None and row.number is not None:
            crossed += row.number <= after
    assert crossed, "some messages were on their way when a view changed"
