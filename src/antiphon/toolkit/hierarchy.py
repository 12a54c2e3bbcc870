"""A hierarchical group (isis-1991 3 and 7.1): many members in small groups, the *leaves*, and a group of their leaders.

    async with Hierarchy(node, leaf, leaders="fleet.leaders", contacts=contacts) as hierarchy:
        await hierarchy.send(b"…")              # to this leaf
        await hierarchy.send_all(b"…")          # to all leaves
        async for event in hierarchy: ...       # Message and ViewChange of this leaf, Everywhere for all leaves

The oldest REPRESENTATIVES members of each leaf are in the leaders' group, which is also the root that maps newcomers to
leaves (`hierarchy_root.py`). The oldest member of a leaf is its leader and acts; the other representatives keep what is
needed to take over. A message to all leaves takes three steps:

    Up      its origin multicasts it in its own leaf
    Across  that leaf's leader multicasts it in the leaders' group at level `safe`: there it gets its place in the one
            sequence of messages to all, which all leaders know alike, also those that join later (`hierarchy_log.py`)
    Down    each leaf's leader multicasts it in its leaf, with its place; there it is delivered

Every member keeps an Up until it has the Down, and the leaders keep a message until all leaves have it. A new leader
repeats what is still open.

Safe: leaders give no place to a copy (same origin and number), and a member delivers a Down only if its place is higher
than that of the last one. So members of all leaves deliver messages to all in the order of the places, each at most
once, whoever repeats what, and whenever a leader died. A member may lack some, but has none in another order.

The order of one sender. Its `send` waits until its own earlier messages to all have come down in its leaf; so they, and
what it sends to the leaf, are delivered in the order of its calls (`reliable` messages do not wait). In the other
direction nothing waits: the Up follows the leaf's message in causal order, and the Down follows the Up.

Vector times have as many entries as the leaf, or the leaders' group, has members: Table I, k <= n. To keep it so, the
leaders' group is a causality domain of its own, and the messages of a leaf do not carry the leaders' times.

Limits: OPEN_MAX messages to all per origin that have not come down, then `send_all` waits; so at most that many times
the size of the leaf wait to go across, and reading the leaf never waits for the leaders. ACROSS_MAX messages that some
leaf lacks, then the leaders wait for that leaf. EVENTS_MAX events that the application has not read, then the leaf's
stream waits. `size_max` members per leaf; further ones are refused.

What it survives: in each leaf, the failure of all representatives but one at a time; in the leaders' group, that of a
minority. A leaf whose representatives all fail before others have replaced them may miss messages: what went across
meanwhile. Its own among these are given up (`PassedOver`), so that nobody waits for them.

A process that the leaders exclude while its leaf does not leaves its leaf, so that another member leads, and reads
`Excluded` of the leaders' group as its last event; a node made with `rejoin` comes back in both instead.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import (
    AntiphonError,
    CausalityDomain,
    ClosedError,
    Excluded,
    ExcludedError,
    Group,
    JoinError,
    Message,
    Node,
    Order,
    ProcessId,
    UsageError,
    ViewChange,
    log_event,
)
from antiphon.toolkit.channel import GroupEvent
from antiphon.toolkit.hierarchy_log import Crossing, CrossingLog
from antiphon.toolkit.hierarchy_root import LeafFinder, LeafPlace, LeafState
from antiphon.toolkit.messages import APPLICATION, OWN, WireProcess, from_wire, to_wire
from antiphon.toolkit.service import Service

REPRESENTATIVES: Final = 2
SIZE_MAX: Final = 32
OPEN_MAX: Final = 256
EVENTS_MAX: Final = 4096
ACROSS_MAX: Final = 4096
JOIN_S: Final = 60.0
READ_S: Final = 1.0
NEVER_S: Final = 2 * JOIN_S
"""Only the founder of the first leaf founds the leaders' group."""


class Up(msgspec.Struct, tag="up", array_like=True, frozen=True):
    """In a leaf: the sender's message `number` to all leaves."""

    number: int
    payload: bytes


class Down(msgspec.Struct, tag="down", array_like=True, frozen=True):
    """In a leaf: the message at `place` among all messages to all."""

    place: int
    origin: WireProcess
    number: int
    payload: bytes


class PassedOver(msgspec.Struct, tag="passed_over", array_like=True, frozen=True):
    """In a leaf: this message went across when the leaf had no representative, and does not come down here."""

    origin: WireProcess
    number: int


class Known(msgspec.Struct, tag="known", array_like=True, frozen=True):
    """In a leaf: the addresses of the leaders, for members that have to join them later, and the place up to which
    messages to all have come down: whoever joined the leaf since gets none of them."""

    addresses: list[str]
    down: int


class Across(msgspec.Struct, tag="across", array_like=True, frozen=True):
    """Among the leaders: a message to all."""

    message: Crossing


LeafMessage = Up | Down | PassedOver | Known
LeaderMessage = Across | LeafState
_ENCODER: Final = msgspec.msgpack.Encoder()
_OF_LEAF: Final = msgspec.msgpack.Decoder(LeafMessage)
_OF_LEADERS: Final = msgspec.msgpack.Decoder(LeaderMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Everywhere:
    """A message to all leaves. `number` counts the messages to all of its origin."""

    payload: bytes
    origin: ProcessId
    number: int


HierarchyEvent = GroupEvent | Everywhere
Key = tuple[ProcessId, int]


class LeaderContacts:
    """Finds the leaders for a member that has to join them (`antiphon.Node.join`)."""

    def __init__(self, hierarchy: "Hierarchy") -> None:
        self._hierarchy = hierarchy

    async def addresses(self, own: str) -> Sequence[str]:
        return self._hierarchy.contacts()

    def close(self) -> None:
        """Nothing is held."""


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
        self._known: list[str] = []
        self._view = leaf.view
        self._is_founder = False
        self._number = 0
        self._own_down = 0
        """The number of the last own message to all that has come down."""
        self._own_open: dict[int, None] = {}
        """The numbers of own messages to all that have not."""
        self._down = 0
        """The place of the last message to all that was delivered here."""
        self._ups: dict[Key, bytes] = {}
        self._to_cross: asyncio.Queue[Key] = asyncio.Queue()
        """Keys of `_ups`, in the order in which this process, as leader, sends them across."""
        self._crossing = 0
        """How many messages this process has sent across that have not come back to it."""
        self._log = CrossingLog(leaf.name)
        self._sent_down = 0
        """The place of the last message that this process has sent down."""
        self._news = asyncio.Event()
        """Set whenever something may have changed that one of the tasks waits for."""
        self._told = (0, 0)
        """View and place that this process, as leader, told the other leaders last."""
        self._events: asyncio.Queue[HierarchyEvent | None] = asyncio.Queue(EVENTS_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_joining = False
        self._parting: asyncio.Future[list[bool]] | None = None
        self._is_over = False
        self._why: AntiphonError | None = None
        """Why it is over, if not because somebody closed it."""

    def __repr__(self) -> str:
        return f"<Hierarchy under {self._leaders_name!r}, leaf {self._leaf.name!r}, {self._view}>"

    async def __aenter__(self) -> Self:
        if self._leaf.view.rank(self._leaf.process) >= self._size_max:
            raise UsageError(f"leaf {self._leaf.name!r} has its {self._size_max} members; leave it and join another")
        self._tasks.append(asyncio.create_task(self._read_leaf()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        if self._parting is not None:
            await self._parting
            await asyncio.wait(self._tasks, timeout=READ_S)  # the streams end: read what is left in them
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, payload: bytes, *, order: Order = "causal") -> None:
        """Multicast to the members of this leaf, after the own messages to all that were sent before."""
        number = self._number
        while self._own_down < number and order != "reliable":
            await self._wait()
        await self._send_leaf(APPLICATION + payload, order)

    async def send_all(self, payload: bytes) -> None:
        """Multicast to the members of all leaves."""
        while len(self._own_open) >= OPEN_MAX:
            await self._wait()
        self._number += 1
        self._own_open[self._number] = None
        await self._send_leaf(_encode(Up(self._number, payload)), "causal")

    async def _send_leaf(self, payload: bytes, order: Order) -> None:
        try:
            await self._leaf.send(payload, order=order)
        except ClosedError as error:
            raise self._why or error from error

    async def _wait(self) -> None:
        if self._is_over:
            raise self._why or ClosedError(f"this process is no longer a member of leaf {self._leaf.name!r}")
        self._news.clear()
        await self._news.wait()

    def find_leaf(self, key: bytes | None = None) -> LeafPlace | None:
        """Return the leaf for `key`, or without a key the smallest. Only representatives know; None: this is none."""
        return self._log.directory.find(key)

    @property
    def leaves(self) -> dict[str, list[str]]:
        """All leaves with the addresses of their members, at a representative; elsewhere empty."""
        return self._log.directory.leaves

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> HierarchyEvent:
        event = await self._events.get()
        if event is None:
            if self._why is not None and not isinstance(self._why, ExcludedError):
                raise self._why
            raise StopAsyncIteration
        return event

    @property
    def is_leader(self) -> bool:
        """Whether this process acts for its leaf."""
        return self._view.rank(self._leaf.process) == 0

    def _end(self) -> None:
        self._is_over = True
        self._news.set()

    # ---- the leaf ----------------------------------------------------------------------------------------------------

    async def _read_leaf(self) -> None:
        try:
            async for event in self._leaf:
                if isinstance(event, ViewChange):
                    self._change(event)
                elif isinstance(event, Excluded):
                    self._forget_open()
                    self._why = ExcludedError(event.group, self._leaf.process)
                if isinstance(event, Message) and event.payload[:1] == OWN:
                    await self._take_from_leaf(event)
                elif isinstance(event, Message):
                    await self._events.put(event.with_payload(event.payload[1:]))
                else:
                    await self._events.put(event)
        except AntiphonError as error:
            log_event(logging.ERROR, "leaf_failed", str(error), leaf=self._leaf.name)
        self._end()
        await self._events.put(None)

    def _change(self, change: ViewChange) -> None:
        was_leader = self.is_leader
        if not self._is_over:
            self._why = None  # it is back, as its next incarnation
        self._view = change.view
        self._is_founder = self._is_founder or change.founded
        if change.view.rank(self._leaf.process) < REPRESENTATIVES and not self._is_joining:
            self._is_joining = True
            self._tasks.append(asyncio.create_task(self._represent()))
        if self.is_leader and not was_leader:
            # The former leader may not have done these; the oldest come first.
            for key in self._ups:
                self._to_cross.put_nowait(key)
            self._sent_down = self._down
        self._news.set()

    def _forget_open(self) -> None:
        """This incarnation was excluded. What it had sent up may be lost: nobody waits for that any more."""
        self._ups.clear()
        self._own_open.clear()
        self._own_down = self._number

    async def _take_from_leaf(self, event: Message) -> None:
        message = _decode(_OF_LEAF, event.payload[1:])
        if isinstance(message, Up):
            self._ups[event.sender, message.number] = message.payload
            if self.is_leader:
                self._to_cross.put_nowait((event.sender, message.number))
        elif isinstance(message, Known):
            self._known = message.addresses
            self._down = max(self._down, message.down)
        elif isinstance(message, PassedOver):
            self._settle(from_wire(message.origin), message.number)
        elif isinstance(message, Down) and message.place > self._down:
            origin = from_wire(message.origin)
            self._down = message.place
            self._settle(origin, message.number)
            await self._events.put(Everywhere(payload=message.payload, origin=origin, number=message.number))

    def _settle(self, origin: ProcessId, number: int) -> None:
        """This message to all has come down here, or never will."""
        self._ups.pop((origin, number), None)
        if origin == self._leaf.process and number in self._own_open:
            del self._own_open[number]
            self._own_down = max(self._own_down, number)
        self._news.set()

    # ---- the leaders -------------------------------------------------------------------------------------------------

    async def _represent(self) -> None:
        """Join the leaders' group and stay in it."""
        try:
            await self._lead()
        except AntiphonError as error:
            if not self._is_over:
                log_event(logging.ERROR, "leader_failed", str(error), process=self._leaf.process)
                await self._step_down(error)

    async def _lead(self) -> None:
        self._leaders = await self._join_leaders()
        excluded: Excluded | None = None
        async with Service(self._leaders, snapshot=self._save, restore=self._restore) as leaders:
            for work in (self._send_across(leaders), self._send_down(), self._tell_leaf(leaders)):
                self._tasks.append(asyncio.create_task(work))
            async for event in leaders:
                excluded = event if isinstance(event, Excluded) else None
                if isinstance(event, ViewChange):
                    self._log.keep(event.view.members)
                    await self._tell_members()
                elif isinstance(event, Message):
                    await self._take_from_leaders(event)
                self._news.set()
        if excluded is not None and not self._is_over:
            await self._events.put(excluded)
            await self._step_down(ExcludedError(excluded.group, self._leaf.process))

    async def _join_leaders(self) -> Group:
        domain = CausalityDomain(name=self._leaders_name)
        process = self._leaf.process
        if self._is_founder and self.is_leader and not self._contacts:
            members = {process.full: self._node.address}
            return await self._node.join(self._leaders_name, members=members, policy="primary", domain=domain)
        contacts = LeaderContacts(self)
        while True:
            try:
                return await self._node.join(
                    self._leaders_name, contacts=contacts, domain=domain, timeout_s=JOIN_S, found_after_s=NEVER_S
                )
            except JoinError as error:
                log_event(logging.WARNING, "leaders_not_reached", str(error), process=process)

    def contacts(self) -> list[str]:
        """Where leaders may be, as far as this member knows: it hears more while it asks."""
        others = [address for address in self._view.addresses if address != self._node.address]
        return list(dict.fromkeys((*self._known, *others, *self._contacts)))

    async def _step_down(self, why: AntiphonError) -> None:
        """Represent the leaf no more: leave it, so that another leads it."""
        self._why = why
        self._end()
        groups = [self._leaf] if self._leaders is None else [self._leaf, self._leaders]
        self._parting = asyncio.gather(*(group.leave() for group in groups))
        await asyncio.shield(self._parting)

    def _save(self) -> list[bytes]:
        return [self._log.save()]

    async def _restore(self, chunks: AsyncIterator[bytes]) -> None:
        self._log = CrossingLog.load(self._leaf.name, b"".join([chunk async for chunk in chunks]))
        self._sent_down = self._crossing = 0
        self._news.set()

    async def _take_from_leaders(self, event: Message) -> None:
        message = _decode(_OF_LEADERS, event.payload)
        if isinstance(message, LeafState):
            self._log.learn(message)
        elif isinstance(message, Across):
            if event.sender == self._leaf.process:
                self._crossing -= 1
            if self._log.add(message.message) == 0:
                await self._give_up(message.message)

    async def _give_up(self, copy: Crossing) -> None:
        """A copy came across. If its place was passed over in this leaf, it will not come down."""
        is_open = (from_wire(copy.origin), copy.number) in self._ups
        if self.is_leader and is_open and self._log.place_of(copy) <= max(self._down, self._log.start):
            await self._leaf.send(_encode(PassedOver(copy.origin, copy.number)))

    async def _tell_members(self) -> None:
        """As leader, tell the members of this leaf who the leaders are, and newcomers where they begin."""
        if self.is_leader and self._leaders is not None:
            await self._leaf.send(_encode(Known(list(self._leaders.view.addresses), self._down)))

    async def _tell_leaf(self, leaders: Service) -> None:
        """As leader, tell the others the members of this leaf, and how far messages to all have come down at all of
        them, whenever that has changed."""
        while True:
            place, view = self._down, self._view
            if not self.is_leader or self._told == (view.id, place):
                await self._wait()
                continue
            try:
                if view.id != self._told[0]:
                    await self._tell_members()
                await self._leaf.flush()
            except ClosedError:
                await self._wait()  # until this process is back, if it comes back
                continue
            self._told = (view.id, place)
            representatives = [to_wire(member) for member in view.members[:REPRESENTATIVES]]
            state = LeafState(self._leaf.name, list(view.addresses), representatives, max(place, self._log.start))
            await leaders.send(_ENCODER.encode(state))

    async def _send_down(self) -> None:
        while True:
            first = max(self._sent_down, self._down, self._log.start)
            found = next(self._log.after(first), None) if self.is_leader else None
            if found is None:
                await self._wait()
                continue
            self._sent_down, message = found
            await self._leaf.send(_encode(Down(found[0], message.origin, message.number, message.payload)))

    async def _send_across(self, leaders: Service) -> None:
        while True:
            origin, number = await self._to_cross.get()
            while len(self._log) + self._crossing >= ACROSS_MAX:
                await self._wait()
            payload = self._ups.get((origin, number))
            if payload is not None:  # else it has come down already
                self._crossing += 1
                message = Crossing(to_wire(origin), number, payload)
                await leaders.send(_ENCODER.encode(Across(message)), order="safe")


def _encode(message: LeafMessage) -> bytes:
    return OWN + _ENCODER.encode(message)


def _decode(decoder: "msgspec.msgpack.Decoder[LeafMessage | LeaderMessage]", payload: bytes) -> object:
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError:
        return None
