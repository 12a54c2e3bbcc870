"""Own messages left out, by a node that polls: whole programs in virtual time, recorded and audited."""

import asyncio
from typing import Final

import pytest

import antiphon
from antiphon.testing import Host, simulate

NAMES: Final = ("a", "b", "c")


async def talk(host: Host, reading: str) -> list[str]:
    """Send ten messages and read those of the others; who sent what was read."""
    read: list[str] = []
    done = asyncio.Event()

    def take(event: object) -> None:
        if isinstance(event, antiphon.Message):
            read.append(event.sender.name)
        elif isinstance(event, antiphon.Batch):
            read.extend([event.sender.name] * len(event.payloads))
        if len(read) == 20:
            done.set()

    async with antiphon.Node(host.name, address=host.at(), incarnation=1, poll_s=0.01) as node:
        group = await node.join("group", members=host.members(), policy="static")

        async def listen() -> None:
            if reading == "listen":
                group.listen(take, own=False)
                return
            async for event in group.events(own=False) if reading == "events" else group.batches(own=False):
                take(event)

        listening = asyncio.ensure_future(listen())
        for number in range(10):
            await group.send(b"%d" % number, order="safe" if number % 2 else "causal")
            await asyncio.sleep(0.05)
        await done.wait()
        await host.ending.wait()
        listening.cancel()
    return read


@pytest.mark.parametrize("reading", ["events", "batches", "listen"])
def test_own_messages_are_left_out_and_yet_on_record(reading: str) -> None:
    async def program(host: Host) -> list[str]:
        return await talk(host, reading)

    result = simulate(dict.fromkeys(NAMES, program), seed=5)
    assert result.kept, result.report("")
    for name in NAMES:
        assert sorted(result.returned[name]) == sorted(10 * [other for other in NAMES if other != name])
        [rows] = [rows for rows in result.rows if rows[0].process == name]
        delivered = sum(row.count or 0 for row in rows if row.kind == "deliver")
        assert delivered == 30, "own ones are delivered, too"
