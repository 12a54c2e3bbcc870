"""What each member of a rolling update does (rolling.py): sends all the time, in all orders, and reads."""

import asyncio
import os

import antiphon

GAP_S = float(os.environ.get("ROLLING_GAP_S", "0.01"))
ORDERS: tuple[antiphon.Order, ...] = ("causal", "agreed", "fifo", "safe")


async def main(node: antiphon.Node, groups: dict[str, antiphon.Group]) -> None:
    """Send until cancelled; then all that was sent is delivered before the node has left."""
    group = groups["orders"]
    reading = asyncio.create_task(read(group))
    number = 0
    try:
        while True:
            await group.send(f"{node.process} {number}".encode(), order=ORDERS[number % len(ORDERS)])
            number += 1
            await asyncio.sleep(GAP_S)
    finally:
        reading.cancel()


async def read(group: antiphon.Group) -> None:
    """Print the version of each view."""
    async for event in group:
        if isinstance(event, antiphon.ViewChange):
            print(f"view {event.view.id} version {event.view.version} members {len(event.view.members)}", flush=True)
