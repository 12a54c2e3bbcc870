"""A hierarchical group (isis-1991 3 and 7.1): many members in small groups, the *leaves*, and a group of their leaders.

    async with Hierarchy(node, leaf, leaders="fleet.leaders", contacts=contacts) as hierarchy:
        await hierarchy.send(b"…")              # to this leaf
        await hierarchy.send_all(b"…")          # to all leaves
        async for event in hierarchy: ...       # Message and ViewChange of this leaf, Everywhere for all leaves

The oldest REPRESENTATIVES members of each leaf are in the leaders' group, which is also the root that maps newcomers to
leaves (`hierarchy_root.py`). The oldest member of a leaf is its leader and acts; the other representatives keep what is
needed to take over. A message to all leaves takes three steps:

    Up      its origin multicasts it in its own leaf
    Across  that leaf's leader multicasts it in the leaders' group at level `safe`: one order, whoever fails
    Down    each leaf's leader multicasts it in its leaf, in that order; there it is delivered

So all leaves deliver messages to all in the same order. Every member keeps an Up until it has the Down, and every
representative an Across. A new leader repeats what is still open; copies have the same origin and number, and are
dropped.

The order of one sender. Its `send` waits until its own earlier messages to all have come down in its leaf; so they, and
what it sends to the leaf, are delivered in the order of its calls (`reliable` messages do not wait). In the other
direction nothing waits: the Up follows the leaf's message in causal order, and the Down follows the Up.

Vector times have as many entries as the leaf, or the leaders' group, has members: Table I, k <= n. To keep it so, the
leaders' group is a causality domain of its own, and the messages of a leaf do not carry the leaders' times.

Limits: OPEN_MAX messages to all per origin that have not come down, then `send_all` waits; so at most that many times
the size of the leaf wait to go across, and reading the leaf never waits for the leaders. ACROSS_MAX messages that came
across and have not come down, then the leaders wait for the leaf. EVENTS_MAX events that the application has not read,
then the leaf's stream waits. ORIGINS_MAX origins remembered. `size_max` members per leaf; further ones are refused.

What it survives: in each leaf, the failure of all representatives but one at a time; in the leaders' group, that of a
minority. A leaf whose representatives all fail before others have replaced them may miss messages.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import (
    AntiphonError,
    CausalityDomain,
    ClosedError,
    Group,
    Message,
    Node,
    Order,
    ProcessId,
    UsageError,
    ViewChange,
)
from antiphon.toolkit.channel import GroupEvent
from antiphon.toolkit.hierarchy_root import LeafDirectory, LeafFinder, LeafPlace, LeafState
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
    """In a leaf: the sender's message `number` to all leaves."""

    number: int
    payload: bytes


class Passing(msgspec.Struct, tag="passing", array_like=True, frozen=True):
    """The same message as Across, in the leaders' group, or as Down, in a leaf."""

    origin: WireProcess
    number: int
    payload: bytes


class Known(msgspec.Struct, tag="known", array_like=True, frozen=True):
    """In a leaf: the addresses of the leaders, for members that have to join them later."""

    addresses: list[str]


HierarchyMessage = Up | Passing | Known | LeafState
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(HierarchyMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Everywhere:
    """A message to all leaves. `number` counts the messages to all of its origin."""

    payload: bytes
    origin: ProcessId
    number: int


HierarchyEvent = GroupEvent | Everywhere
Key = tuple[ProcessId, int]


class Hierarchy(LeafFinder):
    """One member of a leaf. It reads the stream of `leaf`, and that of the leaders' group if it is in it."""

    def __init__(
        self, node: Node, leaf: Group, *, leaders: str, contacts: Sequence[str] = (), size_max: int = SIZE_MAX
    ) -> None:
        """
        leaders   the name of the leaders' group
        contacts  addresses of members of other leaves, at least one of them a representative. Without contacts this is
                  the first leaf, and its founder founds the leaders' group
        size_max  how many members a leaf may have
        """
        self._node = node
        self._leaf = leaf
        self._leaders_name = leaders
        self._contacts = tuple(contacts)
        self._size_max = size_max
        self._leaders: Group | None = None
        self._directory = LeafDirectory()
        self._leaf_changed = asyncio.Event()
        self._known: list[str] = []
        self._view = leaf.view
        self._number = 0
        self._own_down = 0
        """The number of the last own message to all that has come down."""
        self._open = asyncio.Semaphore(OPEN_MAX)
        self._ups: dict[Key, bytes] = {}
        self._to_cross: asyncio.Queue[Key] = asyncio.Queue()
        """Keys of `_ups`, in the order in which this process, as leader, sends them across."""
        self._acrosses: dict[Key, bytes] = {}
        self._to_descend: asyncio.Queue[Key] = asyncio.Queue()
        """Keys of `_acrosses`, in the order in which this process, as leader, sends them down."""
        self._came_down = asyncio.Event()
        self._crossed: dict[ProcessId, int] = {}
        self._delivered: dict[ProcessId, int] = {}
        self._events: asyncio.Queue[HierarchyEvent | None] = asyncio.Queue(EVENTS_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_joining = False
        self._is_over = False

    async def __aenter__(self) -> Self:
        if self._leaf.view.rank(self._leaf.process) >= self._size_max:
            raise UsageError(f"leaf {self._leaf.name!r} has its {self._size_max} members; leave it and join another")
        self._tasks += [asyncio.create_task(self._read_leaf()), asyncio.create_task(self._send_down())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, payload: bytes, *, order: Order = "causal") -> None:
        """Multicast to the members of this leaf, after the own messages to all that were sent before."""
        number = self._number
        while self._own_down < number and order != "reliable":
            if self._is_over:
                raise ClosedError(f"this process is no longer a member of leaf {self._leaf.name!r}")
            self._came_down.clear()
            await self._came_down.wait()
        await self._leaf.send(APPLICATION + payload, order=order)

    async def send_all(self, payload: bytes) -> None:
        """Multicast to the members of all leaves."""
        await self._open.acquire()  # released when it comes down
        self._number += 1
        await self._leaf.send(_encode(Up(self._number, payload)))

    def find_leaf(self, key: bytes | None = None) -> LeafPlace | None:
        """Return the leaf for `key`, or without a key the smallest. Only representatives know; None: this is none."""
        return self._directory.find(key)

    @property
    def leaves(self) -> dict[str, list[str]]:
        """All leaves with the addresses of their members, at a representative; elsewhere empty."""
        return self._directory.leaves

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

    def _end(self) -> None:
        self._is_over = True
        self._came_down.set()

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
        self._end()
        await self._events.put(None)

    def _change(self, change: ViewChange) -> None:
        was_leader = self.is_leader
        self._view = change.view
        self._leaf_changed.set()
        if change.view.rank(self._leaf.process) < REPRESENTATIVES and not self._is_joining:
            self._is_joining = True
            self._tasks.append(asyncio.create_task(self._represent()))
        if self.is_leader and not was_leader:
            # The former leader may not have done these; the oldest come first.
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
        if number > self._delivered.get(origin, 0):
            _remember(self._delivered, origin, number)
            if origin == self._leaf.process:
                self._open.release()
                self._own_down = number
            await self._events.put(Everywhere(payload=payload, origin=origin, number=number))
        self._came_down.set()

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
        self._tasks.append(asyncio.create_task(self._tell_leaf(leaders)))
        async for event in leaders:
            if isinstance(event, ViewChange):
                self._directory.keep(event.view.members)
                self._leaf_changed.set()  # newcomers do not know this leaf
                if self.is_leader:
                    await self._leaf.send(_encode(Known(list(event.view.addresses))))
            elif isinstance(event, Message):
                message = _decode(event.payload)
                if isinstance(message, Passing):
                    await self._take_across(from_wire(message.origin), message.number, message.payload)
                elif isinstance(message, LeafState):
                    self._directory.learn(message)

    async def _join_leaders(self) -> Group:
        domain = CausalityDomain(name=self._leaders_name)
        process = self._leaf.process
        if self._view.id == FIRST_VIEW and self.is_leader and not self._contacts:
            members = {process.full: self._node.address}
            return await self._node.join(self._leaders_name, members=members, policy="primary", domain=domain)
        others = [address for address in self._view.addresses if address != self._node.address]
        contacts = tuple(dict.fromkeys((*self._known, *others, *self._contacts)))
        return await self._node.join(self._leaders_name, contacts=contacts, domain=domain, timeout_s=JOIN_S)

    async def _tell_leaf(self, leaders: Group) -> None:
        """As leader, tell the other representatives the members of this leaf whenever those or these have changed."""
        while True:
            await self._leaf_changed.wait()
            self._leaf_changed.clear()
            if self.is_leader:
                representatives = [to_wire(member) for member in self._view.members[:REPRESENTATIVES]]
                state = LeafState(self._leaf.name, list(self._view.addresses), representatives)
                await leaders.send(_encode(state))

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
    """Set an entry; beyond ORIGINS_MAX the entry that was set least recently is dropped."""
    table.pop(origin, None)
    table[origin] = number
    if len(table) > ORIGINS_MAX:
        del table[next(iter(table))]


def _encode(message: HierarchyMessage) -> bytes:
    return OWN + _ENCODER.encode(message)


def _decode(payload: bytes) -> HierarchyMessage | None:
    try:
        message: HierarchyMessage = _DECODER.decode(memoryview(payload)[1:])
    except msgspec.DecodeError:
        return None
    return message
