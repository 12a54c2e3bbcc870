"""One member of the scenario: `python -m tests.streams.member SETTINGS`, a process of its own.

It joins, sends `messages` of its own at `rate`, reads through `Feeds`, and writes each row of a feed that it sees, and
each repeated one, to a file, as JSON lines. It ends when its standard input does.
"""

import asyncio
import json
import sys
from typing import IO, Any

from antiphon import Message, Node
from antiphon.toolkit import Feeds
from antiphon.toolkit.feeds import decode_row

ORDERS = ("causal", "agreed", "safe", "fifo")
BEAT_S = 0.02


async def send(group: Any, name: str, messages: int, rate: float) -> None:
    sent = 0
    while sent < messages:
        burst = min(messages - sent, max(1, int(rate * BEAT_S)))
        await group.send_many([f"{name} {sent + number}".encode() for number in range(burst)], order=ORDERS[sent % 4])
        sent += burst
        await asyncio.sleep(BEAT_S)


async def read(group: Any, seen: IO[str]) -> None:
    feeds = Feeds()
    async for event in group:
        if isinstance(event, Message) and decode_row(event.payload) is not None:
            row = feeds.take(event)
            seen.write(json.dumps({"row": None if row is None else row.payload.decode()}) + "\n")
            seen.flush()


async def main(settings: dict[str, Any]) -> None:
    name = settings["name"]
    loop = asyncio.get_running_loop()
    with open(settings["seen"], "w") as seen:
        async with Node(name, address=settings["members"][name]) as node:
            group = await node.join("quotes", members=settings["members"], policy="primary")
            reading = asyncio.create_task(read(group, seen))
            sending = asyncio.create_task(send(group, name, settings["messages"], settings["rate"]))
            await loop.run_in_executor(None, sys.stdin.read)
            await sending
            await group.leave()
            await reading


asyncio.run(main(json.loads(sys.argv[1])))
