"""Being a member for as long as it takes: whoever is given up by the others comes back as the next incarnation.

`Node(rejoin=True)` does the same within one stream, but keeps the incarnation to itself; here it is counted on disk, so
that a process that was killed comes back with a number that was never used, and each life begins with a clean slate.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon import ExcludedError, Group, Node, Options


@dataclass(frozen=True, kw_only=True)
class StreamPlace:
    """Where a listener or feeder joins, and as whom."""

    group: str
    name: str
    contacts: Sequence[str]
    address: str = "127.0.0.1:0"
    options: Options | None = None
    join_s: float = 30.0
    """How long it tries to get in, at most, before it gives up."""


@asynccontextmanager
async def member(place: StreamPlace, next_incarnation: Callable[[], int]) -> AsyncIterator[Group]:
    """One life in the group; left in good order at the end."""
    until_s = asyncio.get_running_loop().time() + place.join_s
    while True:
        node = Node(place.name, address=place.address, incarnation=next_incarnation(), options=place.options)
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
