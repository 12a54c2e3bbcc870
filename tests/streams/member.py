"""One member of the scenario: `python -m tests.streams.member SETTINGS`, a process of its own.

It joins and reads through `Feeds`; each row of a feed that it sees, and each repeated one, it writes to a file, as JSON
lines. What it does is told by lines on its standard input: with the first it begins to send messages of its own at
`rate`, with the second it stops, and writes down how many they were. It ends when its standard input does.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import IO, Any

from antiphon import Message, Node
from antiphon.toolkit import Feeds
from antiphon.toolkit.feeds import decode_row

ORDERS = ("causal", "agreed", "safe", "fifo")
BEAT_S = 0.02


async def send(group: Any, name: str, rate: float, enough: asyncio.Event) -> int:
    """Send until it is enough; how many messages that were."""
    sent = 0
    burst = max(1, int(rate * BEAT_S))
    while not enough.is_set():
        order = ORDERS[sent // burst % len(ORDERS)]
        await group.send_many([f"{name} {sent + number}".encode() for number in range(burst)], order=order)
        sent += burst
        await asyncio.sleep(burst / rate)
    return sent


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
    enough = asyncio.Event()
    with open(settings["seen"], "w") as seen:
        async with Node(name, address=settings["members"][name], incarnation=1) as node:
            group = await node.join("quotes", members=settings["members"], policy="primary")
            reading = asyncio.create_task(read(group, seen))
            await loop.run_in_executor(None, sys.stdin.readline)
            sending = asyncio.create_task(send(group, name, settings["rate"], enough))
            await loop.run_in_executor(None, sys.stdin.readline)
            enough.set()
            whole = Path(f"{settings['sent']}.new")
            whole.write_text(str(await sending))
            whole.rename(settings["sent"])
            await loop.run_in_executor(None, sys.stdin.read)
            await group.leave()
            await reading


asyncio.run(main(json.loads(sys.argv[1])))
