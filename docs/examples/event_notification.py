"""Event notification with open groups: whoever notices something tells a group that it is not in.

    antiphon sequencer --address 127.0.0.1:7400
    python event_notification.py 127.0.0.1:7400 watch fire doors
    python event_notification.py 127.0.0.1:7400 tell fire "smoke in the kitchen"

Watchers subscribe to kinds of events, each a group. All watchers of the same kinds see the same events in the same
order, over all kinds. Who tells an event needs no subscription, and gets its place acknowledged.
"""

import asyncio
import contextlib
import sys

import antiphon


async def watch(address: str, *kinds: str, count: int | None = None) -> list[tuple[str, str]]:
    """Print events as they come; after `count` of them, return them."""
    seen = []
    async with await antiphon.connect(address) as client:
        await client.subscribe(*kinds)
        print("watching", *kinds, flush=True)
        async for event in client:
            if isinstance(event, antiphon.Message):
                seen.append((event.group, event.payload.decode()))
                print(*seen[-1], sep=": ", flush=True)
                if len(seen) == count:
                    break
    return seen


async def tell(address: str, kind: str, *events: str) -> None:
    async with await antiphon.connect(address) as client:
        for event in events:
            await client.publish(kind, event.encode())
        await client.flush()  # each has its place in the order; an error says if nobody ever watched such events


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        address, action, *rest = sys.argv[1:]
        asyncio.run(watch(address, *rest) if action == "watch" else tell(address, *rest))
