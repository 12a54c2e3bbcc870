"""Processes that come and go, over real sockets on loopback: members of group "g" under policy `primary`.

Members are given up after fractions of a second here. No test relies on how long anything takes: each waits for the
event that it wants to see, and only the limit in `run` bounds the waiting.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from antiphon import StackName
from antiphon.faults import Partition
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.runtime import Group, Message, Node, ViewChange
from antiphon.runtime.events import StreamEvent
from antiphon.stacks.registry import offer

HASTY = Options(
    silence_ns_min=300 * MILLISECOND_NS,
    silence_ns_max=2000 * MILLISECOND_NS,
    doubt_ns=100 * MILLISECOND_NS,
    heartbeat_interval_ns=50 * MILLISECOND_NS,
)
LOOPBACK = "127.0.0.1:0"


def name_of(stack: str) -> StackName:
    """The name of any stack, of those too that tests register, as the type that `join` takes."""
    return cast("StackName", stack)


class Place:
    """One node, its group, and what it has read there."""

    def __init__(self, node: Node, group: Group) -> None:
        self.node = node
        self.group = group
        self.served_at = ""
        """The address of the service where the group lives, if groups of its stack do."""
        self.events: list[StreamEvent] = []

    @property
    def process(self) -> ProcessId:
        return self.node.process

    async def view(self, *names: str) -> ViewChange:
        """Read until the view has just these members."""
        async for event in self.group:
            self.events.append(event)
            if isinstance(event, ViewChange) and [repr(member) for member in event.view.members] == list(names):
                return event
        raise AssertionError(f"{self.process} saw its stream end after {self.events}")

    async def until(self, kind: type[StreamEvent]) -> StreamEvent:
        """Read until there is an event of this kind."""
        async for event in self.group:
            self.events.append(event)
            if isinstance(event, kind):
                return event
        raise AssertionError(f"{self.process} saw its stream end after {self.events}")

    async def message(self) -> bytes:
        event = await self.until(Message)
        assert isinstance(event, Message)
        return event.payload

    def kill(self) -> None:
        """Without goodbye: from here on, nothing comes from there and nothing goes there."""
        driver = self.node._driver
        assert driver is not None
        assert driver.transport is not None
        driver.stop("killed")

    async def die(self) -> None:
        """Be killed, links included: whoever is at the other end sees them break."""
        driver = self.node._driver
        if driver is not None and driver.devices is not None:
            await driver.devices.close()
        self.kill()

    async def join(self, name: str, incarnation: int = 1, **settings: Any) -> "Place":
        """Another process, let in by this one, or by the service where the group lives."""
        contact = self.served_at or self.node.address
        return await enter(name, [contact], incarnation, self.group.stack, **settings)


async def enter(
    name: str, contacts: Sequence[str], incarnation: int = 1, stack: str = "vector", **settings: Any
) -> Place:
    node = Node(name, address=LOOPBACK, incarnation=incarnation, options=HASTY, **settings)
    await node.start()
    try:
        return Place(node, await node.join("g", contacts=contacts, stack=name_of(stack)))
    except BaseException:
        await node.close()
        raise


@asynccontextmanager
async def founded(names: Sequence[str] = "abc", stack: str = "vector", **settings: Any) -> AsyncIterator[list[Place]]:
    """The founders, all of which have read of the first view in which all are. The list is theirs who are to be closed
    at the end. Where groups of the stack live at a service, there is one, and they have entered one after the other."""
    settings = {"options": HASTY, "linger_s": 0.5, **settings}
    nodes = [Node(name, address=LOOPBACK, incarnation=1, **settings) for name in names]
    for node in nodes:
        await node.start()
    entering: dict[str, Any] = {"members": {node.process.name: node.address for node in nodes}}
    async with AsyncExitStack() as until_the_end:
        served_at = ""
        if offer(stack).service_role:
            service = await until_the_end.enter_async_context(Node("service", address=free_address(), options=HASTY))
            service.serve(name_of(stack))
            served_at = service.address
            entering = {"contacts": [served_at]}
        places = [
            Place(node, await node.join("g", policy="primary", stack=name_of(stack), **entering)) for node in nodes
        ]
        try:
            for place in places:
                place.served_at = served_at
                await place.view(*(f"{name}/1" for name in names))
            yield places
        finally:
            await asyncio.gather(*(place.node.close() for place in places))


def free_address() -> str:
    """An address at which neither datagrams nor links are taken yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as links:
        links.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(links.getsockname())
            return f"127.0.0.1:{links.getsockname()[1]}"


class Walls:
    """A network that can be parted into rooms, and made whole again; who is in no room is reached by everybody."""

    def __init__(self) -> None:
        self.faults = [Partition(frozenset(), frozenset(), 0, 1 << 62) for _ in range(4)]

    def between(self, *rooms: Sequence[Place]) -> None:
        """From now on nothing passes from one of these rooms to another; between no rooms: everything passes."""
        addresses = [frozenset(place.node.address for place in room) for room in rooms]
        addresses += [frozenset()] * (len(self.faults) - len(rooms))
        for layer, room in zip(self.faults, addresses, strict=True):
            layer.sources = room
            layer.destinations = frozenset().union(*addresses) - room


async def everyone(places: Sequence[Place], *names: str) -> list[ViewChange]:
    return list(await asyncio.gather(*(place.view(*names) for place in places)))


async def talk(places: Sequence[Place]) -> None:
    """Each says something, and all hear all of it."""
    said = {repr(place.process).encode() for place in places}
    for place in places:
        await place.group.send(repr(place.process).encode())
    for place in places:
        assert {await place.message() for _ in places} == said
