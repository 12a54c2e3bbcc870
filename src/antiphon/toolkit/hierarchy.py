"""A hierarchical group (isis-1991 7.1): many members in small groups, the *leaves*, and a group of their leaders.

    async with Hierarchy(node, leaf, leaders="fleet.leaders", contacts=contacts) as hierarchy:
        await hierarchy.send(b"…")              # to this leaf
        await hierarchy.send_all(b"…")          # to all leaves
        async for event in hierarchy: ...       # Message and ViewChange of this leaf, Everywhere of all

The oldest REPRESENTATIVES members of each leaf are in the leaders' group; the oldest of all is the leaf's leader and
acts, the others watch, so that the next can take over. A message to all goes three steps:

    Up      by its origin, to its own leaf
    Across  by that leaf's leader, to the leaders' group, at level `safe`: one order for all, whoever fails
    Down    by each leaf's leader, to its leaf, in that order; there it is delivered

So all leaves deliver messages to all in the same order. Every member keeps an Up until it sees the Down, and every
representative an Across. A new leader repeats what is still open; copies are known by origin and number, and dropped.

Vector times have as many entries as the leaf has members, or the leaders' group: Table I, k <= n. To keep it so, the
leaders' group is a causality domain of its own: a leaf's messages do not carry the leaders' times. What is lost with
that is causal order between a message to one leaf and one to all that was sent because of it.

Limits: OPEN_MAX messages to all per origin that have not come down, then `send_all` waits. So no more than that times
the members of the leaf wait to go across, and reading the leaf never waits for the leaders. ACROSS_MAX messages that
have come across and not down, then the leaders wait for the leaf. EVENTS_MAX events that the application has not read,
then the leaf's stream waits. ORIGINS_MAX origins remembered. `size_max` members to a leaf: more are refused here.

What it survives: in each leaf, the failure of all representatives but one at a time; in the leaders' group, that of a
minority. A leaf whose representatives all fail before others could take their places may miss messages.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import AntiphonError, CausalityDomain, Group, Message, Node, ProcessId, UsageError, ViewChange
from antiphon.toolkit.channel import GroupEvent
from antiphon.toolkit.messages import APPLICATION, OWN, WireProcess, from_wire, to_wire

REPRESENTATIVES: Final = 2
SIZE_MAX: Final = 32
OPEN_MAX: Final = 256
EVENTS_MAX: Final = 4096
ACROSS_MAX: Final = 4096
ORIGINS_MAX: Final = 65_536
JOIN_S: Final = 60.0
FIRST_VIEW: Final = 1

log: Final = logging.getLogger("antiphon")


class Up(msgspec.Struct, tag="up", array_like=True, frozen=True):
    """To my leaf: my message `number` to all."""

    number: int
    payload: bytes


class Passing(msgspec.Struct, tag="passing", array_like=True, frozen=True):
    """Across, in the leaders' group; Down, in a leaf."""

    origin: WireProcess
    number: int
    payload: bytes


class Known(msgspec.Struct, tag="known", array_like=True, frozen=True):
    """To my leaf: where the leaders are, for those who come after me."""

    addresses: list[str]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Up | Passing | Known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Everywhere:
    """A message to all leaves; `number` counts those of its origin."""

    payload: bytes
    origin: ProcessId
    number: int


HierarchyEvent = GroupEvent | Everywhere
Key = tuple[ProcessId, int]


class Hierarchy:
    """One member of a leaf; it owns the stream of `leaf`, and that of the leaders' group if it is in it."""

    def __init__(
        self, node: Node, leaf: Group, *, leaders: str, contacts: Sequence[str] = (), size_max: int = SIZE_MAX
    ) -> None:
        """`contacts`: addresses of members of other leaves, of which one that leads is enough; none: this is the first
        leaf, whose founder founds the leaders' group."""
        self._node = node
        self._leaf = leaf
        self._leaders_name = leaders
        self._contacts = tuple(contacts)
        self._size_max = size_max
        self._leaders: Group | None = None
        self._known: list[str] = []
        self._view = leaf.view
        self._number = 0
        self._open = asyncio.Semaphore(OPEN_MAX)
        self._ups: dict[Key, bytes] = {}
        self._to_cross: asyncio.Queue[Key] = asyncio.Queue()
        """Keys of `_ups`, in the order in which this process, as leader, is to send them across."""
        self._acrosses: dict[Key, bytes] = {}
        self._to_descend: asyncio.Queue[Key] = asyncio.Queue()
        """Keys of `_acrosses`, in the order in which this process, as leader, is to send them down."""
        self._came_down = asyncio.Event()
        self._crossed: dict[ProcessId, int] = {}
        self._delivered: dict[ProcessId, int] = {}
        self._events: asyncio.Queue[HierarchyEvent | None] = asyncio.Queue(EVENTS_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_joining = False

    async def __aenter__(self) -> Self:
        if self._leaf.view.rank(self._leaf.process) >= self._size_max:
            raise UsageError(f"leaf {self._leaf.name!r} has its {self._size_max} members; leave it and join another")
        self._tasks += [asyncio.create_task(self._read_leaf()), asyncio.create_task(self._send_down())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, payload: bytes, *, order: str = "causal") -> None:
        """Multicast to the members of this leaf."""
        await self._leaf.send(APPLICATION + payload, order=order)

    async def send_all(self, payload: bytes) -> None:
        """Multicast to the members of all leaves."""
        await self._open.acquire()  # released when it comes down
        self._number += 1
        await self._leaf.send(_encode(Up(self._number, payload)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> HierarchyEvent:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        return event

    @property
    def is_leader(self) -> bool:
        """Whether this process acts for its leaf."""
        return self._view.rank(self._leaf.process) == 0

    # ---- the leaf ----------------------------------------------------------------------------------------------------

    async def _read_leaf(self) -> None:
        try:
            async for event in self._leaf:
                if isinstance(event, ViewChange):
                    self._change(event)
                if isinstance(event, Message) and event.payload[:1] == OWN:
                    await self._take_from_leaf(event)
                elif isinstance(event, Message):
                    await self._events.put(event.with_payload(event.payload[1:]))
                else:
                    await self._events.put(event)
        except AntiphonError as error:
            log.error("leaf %r: %s", self._leaf.name, error)
        await self._events.put(None)

    def _change(self, change: ViewChange) -> None:
        was_leader = self.is_leader
        self._view = change.view
        if change.view.rank(self._leaf.process) < REPRESENTATIVES and not self._is_joining:
            self._is_joining = True
            self._tasks.append(asyncio.create_task(self._represent()))
        if self.is_leader and not was_leader:
            # What a leader before this one may have left undone, oldest first.
            for key in self._ups:
                self._to_cross.put_nowait(key)
            for key in self._acrosses:
                self._to_descend.put_nowait(key)

    async def _take_from_leaf(self, event: Message) -> None:
        message = _decode(event.payload)
        if isinstance(message, Up):
            self._ups[event.sender, message.number] = message.payload
            if self.is_leader:
                self._to_cross.put_nowait((event.sender, message.number))
        elif isinstance(message, Known):
            self._known = message.addresses
        elif isinstance(message, Passing):
            await self._deliver(from_wire(message.origin), message.number, message.payload)

    async def _deliver(self, origin: ProcessId, number: int, payload: bytes) -> None:
        self._ups.pop((origin, number), None)
        self._acrosses.pop((origin, number), None)
        self._came_down.set()
        if number <= self._delivered.get(origin, 0):
            return
        _remember(self._delivered, origin, number)
        if origin == self._leaf.process:
            self._open.release()
        await self._events.put(Everywhere(payload=payload, origin=origin, number=number))

    # ---- the leaders -------------------------------------------------------------------------------------------------

    async def _represent(self) -> None:
        """Join the leaders' group and stay in it."""
        try:
            leaders = await self._join_leaders()
        except AntiphonError as error:
            log.error("%s cannot represent its leaf: %s", self._leaf.process, error)
            return
        self._leaders = leaders
        self._tasks.append(asyncio.create_task(self._send_across(leaders)))
        async for event in leaders:
            if isinstance(event, ViewChange) and self.is_leader:
                await self._leaf.send(_encode(Known(list(event.view.addresses))))
            elif isinstance(event, Message):
                message = _decode(event.payload)
                if isinstance(message, Passing):
                    await self._take_across(from_wire(message.origin), message.number, message.payload)

    async def _join_leaders(self) -> Group:
        domain = CausalityDomain(name=self._leaders_name)
        process = self._leaf.process
        if self._view.id == FIRST_VIEW and self.is_leader and not self._contacts:
            members = {repr(process): self._node.address}
            return await self._node.join(self._leaders_name, members=members, policy="primary", domain=domain)
        others = [address for address in self._view.addresses if address != self._node.address]
        contacts = tuple(dict.fromkeys((*self._known, *others, *self._contacts)))
        return await self._node.join(self._leaders_name, contacts=contacts, domain=domain, timeout_s=JOIN_S)

    async def _take_across(self, origin: ProcessId, number: int, payload: bytes) -> None:
        if number <= self._crossed.get(origin, 0):
            return
        _remember(self._crossed, origin, number)
        if number <= self._delivered.get(origin, 0):
            return  # another representative was faster
        while len(self._acrosses) >= ACROSS_MAX:
            self._came_down.clear()
            await self._came_down.wait()
        self._acrosses[origin, number] = payload
        if self.is_leader:
            self._to_descend.put_nowait((origin, number))

    async def _send_down(self) -> None:
        while True:
            origin, number = await self._to_descend.get()
            payload = self._acrosses.get((origin, number))
            if payload is not None:
                await self._leaf.send(_encode(Passing(to_wire(origin), number, payload)))

    async def _send_across(self, leaders: Group) -> None:
        while True:
            origin, number = await self._to_cross.get()
            payload = self._ups.get((origin, number))
            if payload is not None:  # else it has come down already
                await leaders.send(_encode(Passing(to_wire(origin), number, payload)), order="safe")


def _remember(table: dict[ProcessId, int], origin: ProcessId, number: int) -> None:
    """Those that have been quiet for longest are forgotten first."""
    table.pop(origin, None)
    table[origin] = number
    if len(table) > ORIGINS_MAX:
        del table[next(iter(table))]


def _encode(message: Up | Passing | Known) -> bytes:
    return OWN + _ENCODER.encode(message)


def _decode(payload: bytes) -> Up | Passing | Known | None:
    try:
        message: Up | Passing | Known = _DECODER.decode(memoryview(payload)[1:])
    except msgspec.DecodeError:
        return None
    return message
