"""A state that members of a group share while its views part and merge (policy `partitionable`).

    def add(basket: set[str], item: bytes, sender: antiphon.ProcessId) -> None:
        basket.add(item.decode())

    async with MergingState(group, set[str], set(), add, merge=union) as basket:
        await basket.send(b"apples")
        ...
        print(basket.state)

Each message is an operation, applied to the state at every member. In a component all members apply the same ones in
the same order, so they have the same state; across a partition states differ. When components merge, `merge` is called
once at every member, with what each component had and where it comes from, the same everywhere, and gives the state
with which all go on.

The rule. A process knows its *peers*: those that have the same state as itself, at first itself alone. A transitional
view removes from the peers those that do not come along. In a view with members beside its peers, the first of the
peers describes their state to all, by agreed messages. Whoever has the descriptions of all members of the view merges
them, in an order that all know, and all members are peers. Operations that come before that are held back, and applied
after it. If the view ends first, nothing is merged: the peers that come along describe their state, and what they hold
back, in the next view.

Why it is the same everywhere. Descriptions and operations are agreed messages, so those that go on together out of a
view have all descriptions of it, or all lack the same ones: they merge at the same place, or not at all. Peers stay
equal since they apply and hold back the same operations. Held operations are named by sender and number, so one that
several components hold back is applied once.

Why it comes to an end: a view that lasts gets the description of each set of peers, since the first of them is in it.

What raises. If `apply` or `merge` raises, this copy of the state is good for nothing any more: `send`, `until` and the
end of the `async with` raise that error, and this member leaves the group, so that nobody waits for its descriptions.
Until it has left, what still comes is read and dropped, so that it holds up nobody's window either.

Limits: `held_max` operations are held back; more of them are a MergeOverflowError, which ends this copy in the same
way. A description takes a message for each DESCRIPTION_BYTES. `lineage` names the last LINEAGE_MAX views in which the
state became common.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import msgspec

from antiphon import AntiphonError, Message, Order, ProcessId, TransitionalView, UsageError, ViewChange, log_event
from antiphon.toolkit.channel import Channel, GroupEvent
from antiphon.toolkit.errors import MergeOverflowError

S = TypeVar("S")

DESCRIPTION_BYTES: Final = 256 * 1024
LINEAGE_MAX: Final = 64
HELD_MAX: Final = 100_000

_Wire = tuple[str, int]
"""A process: name and incarnation."""


class _Operation(msgspec.Struct, array_like=True, tag=0):
    """One operation; `clock` is above that of every operation that its sender had applied."""

    clock: int
    payload: bytes


class _Held(msgspec.Struct, array_like=True):
    sender: _Wire
    number: int
    clock: int
    payload: bytes


class _Description(msgspec.Struct, array_like=True):
    """What a set of peers has, as its first member tells it."""

    peers: list[_Wire]
    lineage: list[int]
    operations: int
    last_write: tuple[int, str]
    state: bytes
    held: list[_Held]


class _Part(msgspec.Struct, array_like=True, tag=1):
    """A part of a description, in a view."""

    view_id: int
    index: int
    count: int
    data: bytes


_ENCODER: Final = msgspec.msgpack.Encoder()
_MESSAGE: Final = msgspec.msgpack.Decoder(_Operation | _Part)
_DESCRIPTION: Final = msgspec.msgpack.Decoder(_Description)


@dataclass(frozen=True)
class ComponentState(Generic[S]):
    """What one component brings to a merge."""

    state: S
    members: tuple[ProcessId, ...]
    """Those that have it, in the order of the new view."""
    lineage: tuple[int, ...]
    """The views in which the state became common, the latest last: what two components both name, they had together."""
    operations: int
    """How many operations were applied since it last became common."""
    last_write: tuple[int, str] = (0, "")
    """The logical time of the last operation, and its sender: the greatest is the latest of all components."""


Merge = Callable[[Sequence[ComponentState[S]]], S]
"""Makes one state of several. The components come in the order of their first members, by name. It must depend on
nothing else, and may keep and change what it is given."""
Apply = Callable[[S, bytes, ProcessId], S | None]
"""Applies an operation of a sender: returns the new state, or None if it has changed the one that it was given."""


def largest_wins(components: Sequence[ComponentState[S]]) -> S:
    """The state of the component with most members; of equally many, with the latest write."""
    return max(components, key=lambda component: (len(component.members), component.last_write)).state


def last_writer(components: Sequence[ComponentState[S]]) -> S:
    """The state of the component that wrote last, by logical time."""
    return max(components, key=lambda component: (component.last_write, component.lineage)).state


def union(components: Sequence[ComponentState[Any]]) -> Any:
    """The union of sets; of dictionaries, where components differ in a value, that of the component that wrote last."""
    ordered = sorted(components, key=lambda component: (component.last_write, component.lineage))
    result = ordered[0].state
    for component in ordered[1:]:
        result = result | component.state
    return result


class MergingChannel(Channel, Protocol):
    """A member of a group that it can leave."""

    async def leave(self) -> bool:
        """Leave in good order; the stream of events ends."""


@dataclass
class _Merging:
    """The descriptions of one view, as they come."""

    view_id: int
    missing: set[ProcessId]
    parts: dict[ProcessId, list[bytes]] = field(default_factory=dict)
    found: list[_Description] = field(default_factory=list)


class MergingState(Generic[S]):
    """One member's copy of the state. It reads the stream of `group`, which nobody else may read."""

    def __init__(
        self,
        group: MergingChannel,
        kind: Any,
        initial: S,
        apply: Apply[S],
        *,
        merge: Merge[S],
        order: Order = "agreed",
        held_max: int = HELD_MAX,
    ) -> None:
        if order not in ("agreed", "safe"):
            raise UsageError(f"members apply operations in one order: `agreed` or `safe`, not {order!r}")
        self.group = group
        self.state = initial
        self.merges = 0
        """How often this member has merged states."""
        self.strays = 0
        """How many messages were dropped because they were no operations and no descriptions."""
        self._decoder: msgspec.msgpack.Decoder[S] = msgspec.msgpack.Decoder(kind)
        self._apply = apply
        self._merge = merge
        self._order: Order = order
        self._held_max = held_max
        self._held: dict[tuple[ProcessId, int], _Held] = {}
        self._peers: set[ProcessId] = {group.process}
        self._lineage: list[int] = []
        self._operations = 0
        self._clock = 0
        self._last_write = (0, "")
        self._merging: _Merging | None = None
        self._error: Exception | None = None
        """What `apply` or `merge` raised."""
        self._leaving: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of group {self.group.name!r}, {self.merges} merges: {self.state!r}>"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        if self._leaving is not None:
            await asyncio.wait({self._leaving})  # which takes no longer than the node's `linger_s` allows
        for task in (self._task, *self._tasks):
            task.cancel()
        await asyncio.gather(self._task, *self._tasks, return_exceptions=True)
        if error is None:
            self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def send(self, payload: bytes) -> None:
        """Have an operation applied at all members of this component; raises what `apply` or `merge` raised here."""
        self._check()
        await self.group.send(_ENCODER.encode(_Operation(self._clock + 1, payload)), order=self._order)

    async def until(self, wanted: Callable[[S], bool]) -> S:
        """Wait until the state is as wanted, and no merge is under way; raises what `apply` or `merge` raised
        here."""
        async with self._changed:
            while self._error is not None or self._merging is not None or not wanted(self.state):
                self._check()
                if self._task is not None and self._task.done():
                    self._task.result()
                    raise UsageError(f"group {self.group.name!r} is over, the state does not change any more")
                await self._changed.wait()
        return self.state

    @property
    def is_merging(self) -> bool:
        """Whether the state of other members of the view is still to come."""
        return self._merging is not None

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            async for event in self.group:
                if self._error is None:
                    self._follow(event)
                    await self._tell()
        finally:
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _follow(self, event: GroupEvent) -> None:
        try:
            if isinstance(event, TransitionalView):
                self._peers.intersection_update(event.members)
            elif isinstance(event, ViewChange):
                self._install(event)
            elif isinstance(event, Message):
                self._take(event)
        except Exception as error:
            log_event(logging.ERROR, "copy_failed", str(error), group=self.group.name, exc_info=error)
            self._error = error
            self._merging = None
            self._held = {}
            self._leaving = self._background(self._leave())

    async def _leave(self) -> None:
        try:
            await self.group.leave()
        except AntiphonError as error:
            log_event(logging.DEBUG, "already_left", str(error), group=self.group.name)

    def _install(self, change: ViewChange) -> None:
        members = change.view.members
        self._merging = None
        if not self._lineage:
            self._lineage = [change.view.id]
        if set(members) <= self._peers:
            self._execute_held({})
            return
        self._merging = _Merging(change.view.id, set(members))
        peers = [member for member in members if member in self._peers]
        if peers[0] == self.group.process:
            description = _Description(
                [(peer.name, peer.incarnation) for peer in peers],
                self._lineage,
                self._operations,
                self._last_write,
                _ENCODER.encode(self.state),
                list(self._held.values()),
            )
            self._background(self._describe(_ENCODER.encode(description), change.view.id))

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _describe(self, data: bytes, view_id: int) -> None:
        """Send a description. If the view has ended it does no harm: those that read it know by its id."""
        count = -(-len(data) // DESCRIPTION_BYTES)
        try:
            for index in range(count):
                piece = data[index * DESCRIPTION_BYTES : (index + 1) * DESCRIPTION_BYTES]
                await self.group.send(_ENCODER.encode(_Part(view_id, index, count, piece)), order=self._order)
        except AntiphonError:
            return  # the group is over here

    def _take(self, event: Message) -> None:
        try:
            message = _MESSAGE.decode(event.payload)
        except msgspec.DecodeError:
            self.strays += 1
            return
        if isinstance(message, _Part):
            self._take_part(event.sender, message)
            return
        operation = _Held((event.sender.name, event.sender.incarnation), event.number, message.clock, message.payload)
        if self._merging is None:
            self._execute(operation)
        elif len(self._held) >= self._held_max:
            raise MergeOverflowError(self.group.name, self._held_max)
        else:
            self._held[event.sender, event.number] = operation

    def _take_part(self, sender: ProcessId, part: _Part) -> None:
        merging = self._merging
        if merging is None or part.view_id != merging.view_id:
            return
        parts = merging.parts.setdefault(sender, [])
        if part.index != len(parts):
            self.strays += 1
            return
        parts.append(part.data)
        if len(parts) < part.count:
            return
        try:
            description = _DESCRIPTION.decode(b"".join(parts))
            self._decoder.decode(description.state)
        except msgspec.DecodeError:
            self.strays += 1
            return
        merging.found.append(description)
        merging.missing.difference_update(ProcessId(*peer) for peer in description.peers)
        if not merging.missing:
            self._complete(merging)

    def _complete(self, merging: _Merging) -> None:
        """All components are described: make one state of theirs."""
        found = sorted(merging.found, key=lambda each: each.peers[0])
        components = [
            ComponentState(
                self._decoder.decode(each.state),
                tuple(ProcessId(*peer) for peer in each.peers),
                tuple(each.lineage),
                each.operations,
                each.last_write,
            )
            for each in found
        ]
        self.state = self._merge(components)
        self.merges += 1
        self._peers = {member for component in components for member in component.members}
        together = {view for component in components for view in component.lineage} | {merging.view_id}
        self._lineage = sorted(together)[-LINEAGE_MAX:]
        self._operations = 0
        self._last_write = max(component.last_write for component in components)
        self._clock = max(self._clock, self._last_write[0])
        self._merging = None
        held: dict[tuple[ProcessId, int], _Held] = {}
        for description in found:
            for operation in description.held:
                held.setdefault((ProcessId(*operation.sender), operation.number), operation)
        self._execute_held(held)

    def _execute_held(self, held: dict[tuple[ProcessId, int], _Held]) -> None:
        """Apply what other components held back, then what was held back here, each operation once."""
        for name, operation in self._held.items():
            held.setdefault(name, operation)
        self._held = {}
        for operation in held.values():
            self._execute(operation)

    def _execute(self, operation: _Held) -> None:
        sender = ProcessId(*operation.sender)
        self._clock = max(self._clock, operation.clock)
        self._last_write = max(self._last_write, (operation.clock, sender.full))
        self._operations += 1
        changed = self._apply(self.state, operation.payload, sender)
        if changed is not None:
            self.state = changed


class _Set(msgspec.Struct, array_like=True, tag="set"):
    key: str
    value: str


class _Remove(msgspec.Struct, array_like=True, tag="remove"):
    key: str


_CHANGE: Final = msgspec.msgpack.Decoder(_Set | _Remove)


def _change(entries: dict[str, str], payload: bytes, sender: ProcessId) -> None:
    try:
        change = _CHANGE.decode(payload)
    except msgspec.DecodeError:
        return
    if isinstance(change, _Set):
        entries[change.key] = change.value
    else:
        entries.pop(change.key, None)


class SharedDictionary(MergingState[dict[str, str]]):
    """A dictionary that all members of a component have alike, and that merges."""

    def __init__(self, group: MergingChannel, *, merge: Merge[dict[str, str]] = union, order: Order = "agreed") -> None:
        super().__init__(group, dict[str, str], {}, _change, merge=merge, order=order)

    async def set(self, key: str, value: str) -> None:
        await self.send(_ENCODER.encode(_Set(key, value)))

    async def remove(self, key: str) -> None:
        await self.send(_ENCODER.encode(_Remove(key)))

    def __getitem__(self, key: str) -> str:
        return self.state[key]

    def __len__(self) -> int:
        return len(self.state)
