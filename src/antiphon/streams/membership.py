"""Membership of a listener or feeder: when it was excluded or killed, it joins again as the next incarnation.

`Node(rejoin=True)` does the same within one stream, but keeps the incarnation in memory. Here it is counted on disk, so
that a process that was killed joins with a number that was never used, and each incarnation starts from scratch.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon import ExcludedError, Group, Node, Options, Trust


@dataclass(frozen=True, kw_only=True)
class StreamPlace:
    """Which group a listener or feeder joins, under which name, and where it receives."""

    group: str
    name: str
    contacts: Sequence[str]
    address: str = "127.0.0.1:0"
    options: Options | None = None
    trust: Trust = field(default_factory=Trust)
    join_s: float = 30.0
    """How long it tries to join before it gives up."""


@asynccontextmanager
async def member(place: StreamPlace, next_incarnation: Callable[[], int]) -> AsyncIterator[Group]:
    """Join as the next incarnation and yield the group; leave it at the end."""
    until_s = asyncio.get_running_loop().time() + place.join_s
    while True:
        node = Node(place.name, address=place.address, incarnation=next_incarnation(), options=place.options)
        node.trust = place.trust
        async with node:
            left_s = until_s - asyncio.get_running_loop().time()
            try:
                group = await node.join(place.group, contacts=place.contacts, timeout_s=max(left_s, 0.1))
            except ExcludedError:
                if left_s <= 0:
                    raise
                continue
            yield group
            return
