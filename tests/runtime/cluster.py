"""Several nodes in one event loop, over real sockets on loopback, and what the tests want to know of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from antiphon.faults import Duplication, Fault, Loss, Reordering
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.runtime import Group, Message, Node

LIMIT_S = 30.0
"""No test takes longer: one that hangs fails."""


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `test` in a loop of its own. An exception in a callback, which the loop would only log, fails it too."""
    stray: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: stray.append(context))
        async with asyncio.timeout(LIMIT_S):
            await test()

    asyncio.run(bounded())
    assert stray == []


def bad_network(loss: float = 0.1) -> list[Fault]:
    return [Loss(loss), Duplication(0.05, 5 * MILLISECOND_NS), Reordering(0.2, 5 * MILLISECOND_NS)]


@asynccontextmanager
async def cluster(
    names: Sequence[str] = ("a", "b", "c"), **settings: Any
) -> AsyncIterator[tuple[list[Node], list[Group]]]:
    """Nodes on free ports, all in group "g"; closed together at the end, and at once if the test has failed."""
    nodes = [Node(name, address="127.0.0.1:0", incarnation=1, seed=seed, **settings) for seed, name in enumerate(names)]
    for node in nodes:
        await node.start()
    members = {node.process.name: node.address for node in nodes}
    groups = [await node.join("g", members=members, policy="static") for node in nodes]
    try:
        yield nodes, groups
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def read(group: Group, count: int) -> list[Message]:
    """The next `count` messages."""
    messages: list[Message] = []
    if not count:
        return messages
    async for event in group:
        if isinstance(event, Message):
            messages.append(event)
            if len(messages) == count:
                break
    return messages


async def stalled(progress: Callable[[], int], enough: int) -> bool:
    """Wait until `progress` has stood still for a while (true) or has reached `enough` (false)."""
    former = -1
    while former < progress() < enough:
        former = progress()
        await asyncio.sleep(0.2)
    return progress() < enough


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that no event tells of; the test's own limit bounds it."""
    while not condition():
        await asyncio.sleep(0.001)
