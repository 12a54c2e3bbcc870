"""A group with requests, state transfer and clients: one object that owns the group's stream.

    async with Service(group, snapshot=snapshot, restore=restore) as service:
        service.answer(handler)
        await service.send(b"…")
        replies = await service.ask(b"…", want="majority")
        async for event in service:             # everything that is not the toolkit's own business
            ...

Two places in the stream. The *pump*, a task, reads the group and puts events into the inbox. It deals with what cannot
wait for the application: replies, offers of state, and who is gone. The
*application's place* is where `async for` is. All that touches the application's state happens there, between two
events, one thing at a time: handlers of requests, and snapshots. An event must have been dealt with when the next is
asked for: then a snapshot contains it.

Limits: the inbox (`events_max`, `bytes_max`). When it is full the pump stops, then the group's queue fills, then the
senders wait; replies wait too, and `ask` may run out of time: read on, or ask from another task.
All members of a group have to use the toolkit, and all with state or all without.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from antiphon import (
    AntiphonError,
    Barrier,
    ClosedError,
    Excluded,
    ExcludedError,
    Message,
    MessageTooLargeError,
    ProcessId,
    Stalled,
    UsageError,
    View,
    ViewChange,
)
from antiphon.toolkit.channel import Channel, GroupEvent
from antiphon.toolkit.errors import UnansweredError
from antiphon.toolkit.frames import DIFFUSION_BYTES_MAX
from antiphon.toolkit.inbox import BYTES_MAX, EVENTS_MAX, Entry, Inbox
from antiphon.toolkit.messages import (
    APPLICATION,
    Again,
    Answer,
    Ask,
    Complete,
    Diffused,
    Lacking,
    Own,
    Relayed,
    SnapshotOffer,
    decode,
    encode,
)
from antiphon.toolkit.requests import Asks, Handler, Reply, Request, check_want
from antiphon.toolkit.state import Joiner, Provider, Restore, Snapshot
from antiphon.toolkit.tables import Tables
from antiphon.toolkit.transfer import SnapshotServer

REPLY_BYTES_MAX: Final = 16 * 1024 * 1024
NO_HANDLER: Final = "this member answers no requests"
CONTAINED: Final = "this member was joining, and its state contains what the request did"

log: Final = logging.getLogger("antiphon")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMessage:
    """A message of a client that is not a member; all members get it, once."""

    payload: bytes
    client: str
    number: int
    order: str
    gateway: ProcessId


ServiceEvent = GroupEvent | ClientMessage
"""What is read from a service."""


class GatewayListener:
    """A gateway, as its service sees it: told of what is delivered, at the application's place."""

    def relayed(self, relayed: Relayed) -> None:
        """A client's message was delivered, for the first time or again."""

    def diffused(self, sender: ProcessId, number: int, before: int, payload: bytes) -> None:
        """A message for all clients was delivered; the one that its sender diffused before it was `before`."""

    def available(self) -> None:
        """The group has a view, and goes on."""

    def unavailable(self, why: str, lapsed: bool) -> None:
        """The group stands still here, or, `lapsed`, this process is no longer in it."""


class Service:
    """One member's end of a group that uses the toolkit; it owns the stream of `group`."""

    def __init__(
        self,
        group: Channel,
        *,
        snapshot: Snapshot | None = None,
        restore: Restore | None = None,
        events_max: int = EVENTS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        if (snapshot is None) != (restore is None):
            raise UsageError("state transfer needs both `snapshot` and `restore`; give both or none")
        self.group = group
        self.view = View(0, ())
        """The view at the application's place."""
        self.has_state = snapshot is not None
        self.tables = Tables()
        self.strays = 0
        """Messages in the group that did not come from the toolkit; they are dropped."""
        self._listeners: list[GatewayListener] = []
        self._handler: Handler | None = None
        self._asks = Asks()
        self._inbox = Inbox(events_max, bytes_max)
        self._server = SnapshotServer(group.flush)
        self._provider = Provider(group, self.tables, snapshot, self.tell, self._server, self._background)
        self._joiner = Joiner(restore, self.tell)
        self._must_obtain = self.has_state
        """Before the next event the state has to be here."""
        self._pumped_view = self.view
        self._pump_task: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._pump_task = asyncio.create_task(self._pump())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading and serving. The group itself stays as it is."""
        tasks = [*self._tasks, *([self._pump_task] if self._pump_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.close()

    # ---- what the application calls ----------------------------------------------------------------------------------

    async def send(self, payload: bytes, *, order: str = "causal", to: ProcessId | None = None) -> None:
        """Multicast, or with `to` send to that member alone; see `antiphon.Group.send`."""
        self._check_order(order)
        await self.group.send(_application(payload), order=order, to=to)

    async def barrier(self, payload: bytes) -> None:
        """See `antiphon.Group.barrier`."""
        await self.group.barrier(_application(payload))

    async def diffuse(self, payload: bytes, *, order: str = "causal") -> None:
        """Multicast to all members and to the clients of all gateways."""
        self._check_order(order)
        if len(payload) > DIFFUSION_BYTES_MAX:
            raise MessageTooLargeError(len(payload), DIFFUSION_BYTES_MAX)
        await self.group.send(encode(Diffused(payload)), order=order)

    async def ask(
        self, payload: bytes, *, want: str = "all", order: str = "causal", timeout_s: float = 10.0
    ) -> list[Reply]:
        """Ask all members, this one included; their replies, in view order.

        `all` waits for every member and tells who failed or gave an error; `first` and `majority` return as soon as
        so many have given a good reply, with all that came until then; `none` returns at once with none.
        UnansweredError: they cannot be had any more, or not within `timeout_s`. The task that reads this service cannot
        ask for all: one of the replies would be its own.
        """
        check_want(want)
        if want == "all" and asyncio.current_task() is self._reader:
            raise UsageError("this task reads the service, so it would wait for its own reply; ask in another task")
        self._check_order(order)
        if want == "none":
            await self.group.send(encode(Ask(0, False, payload)), order=order)
            return []
        number = 0
        try:
            async with asyncio.timeout(timeout_s), self._asks.turn:
                number, outstanding = self._asks.open(want)
                await self.group.send(encode(Ask(number, True, payload)), order=order)
                return await outstanding.done
        except TimeoutError:
            replies = outstanding.replies() if number else []
            raise UnansweredError(want, f"{timeout_s:g} s have passed", replies) from None
        finally:
            if number:
                self._asks.close(number)

    def answer(self, handler: Handler) -> None:
        """Have requests answered by `handler`, from now on. It runs at the application's place: one request at a time,
        between two events."""
        self._handler = handler

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServiceEvent:
        """The next event, after all that comes before it. Cancelled, it has taken none, but may have broken off a
        handler."""
        if self._pump_task is None:
            raise UsageError("the service has not been started; use it as `async with`")
        self._reader = asyncio.current_task()
        if self._must_obtain:
            if not await self._joiner.obtain(self._provider.adopt):
                self._inbox.drop()  # without the state nothing but views can be made sense of
            self._must_obtain = False
        while True:
            entry = await self._inbox.take()
            event = await self._take(entry)
            if event is not None:
                return event

    def _check_order(self, order: str) -> None:
        if order == "reliable" and self.has_state:
            raise UsageError(
                "with state transfer a message must keep its sender's order, and `reliable` does not; use `fifo`"
            )

    # ---- for the other parts of the toolkit --------------------------------------------------------------------------

    @property
    def process(self) -> ProcessId:
        return self.group.process

    def listen(self, listener: GatewayListener) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: GatewayListener) -> None:
        self._listeners.remove(listener)

    async def tell(self, message: Own, to: ProcessId | None) -> None:
        """Send a message of the toolkit's own, to one member or to all. Who is gone need not be told, nor need anybody
        when this process is."""
        try:
            await self.group.send(encode(message), order="causal", to=to)
        except AntiphonError as error:
            log.debug("%s could not be told: %s", to or "the group", error)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- the pump ----------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        error: Exception | None = None
        try:
            async for event in self.group:
                entry = self._sort(event)
                if entry is not None:
                    if self._inbox.is_full and self._joiner.is_lacking:
                        self._overflow()
                    await self._inbox.room()
                    self._inbox.put(entry)
        except Exception as failure:
            error = failure
        finally:
            ended = error or ClosedError(f"group {self.group.name!r} has come to its end here")
            self._asks.end(ended)
            self._joiner.end()
            self._inbox.finish(error)

    def _sort(self, event: GroupEvent) -> Entry | None:
        """Deal with what cannot wait for the application; the rest goes into the inbox."""
        if isinstance(event, ViewChange):
            self._pumped_view = event.view
            self._asks.lose((*event.left, *event.failed))
            if self._joiner.install(event.view):
                self._background(self.tell(Lacking(event.view.id), None))
        elif isinstance(event, Excluded):
            self._joiner.lapse()
            self._asks.fail(ExcludedError(self.group.name, self.process))
        if not isinstance(event, Message | Barrier):
            return (event, None)
        content = decode(event.payload)
        match content:
            case None:
                self.strays += 1
            case Answer():
                self._asks.answered(event.sender, content)
            case SnapshotOffer():
                self._joiner.hear_offer(content, event.sender)
            case Lacking():
                self._joiner.hear_lacking(event.sender, content.view_id)
            case _:
                if isinstance(content, Ask) and event.sender == self.process:
                    self._asks.delivered(content.number, self._pumped_view)
                return (event, content)
        return None

    def _overflow(self) -> None:
        """A joiner holds back more than it may: what it drops will be in a newer snapshot."""
        dropped = self._inbox.drop()
        for event, content in dropped:
            if isinstance(content, Ask):
                self._background(self._reply(event.sender, content, b"", CONTAINED))
        self._joiner.overflow(event for event, _ in dropped)

    # ---- the application's place -------------------------------------------------------------------------------------

    async def _take(self, entry: Entry) -> ServiceEvent | None:
        event, content = entry
        if isinstance(event, ViewChange):
            self._provider.install(event)
            self.view = event.view
            for listener in self._listeners:
                listener.available()
            return event
        if isinstance(event, Excluded) and self._provider.is_past(event.view.id):
            return None  # from a life that ended before it had the state; this one has it
        if isinstance(event, Stalled | Excluded):
            lapsed = isinstance(event, Excluded)
            if lapsed:
                self._provider.lapse()
                self._must_obtain = self.has_state
            for listener in self._listeners:
                listener.unavailable("this gateway is cut off from the group; try another", lapsed)
            return event
        if not isinstance(event, Message | Barrier):
            return event
        if isinstance(event, Message) and event.private:
            if isinstance(content, Again):
                self._provider.offer(event.sender)
                return None
            return event.with_payload(content) if isinstance(content, bytes) else None
        if self.has_state and not self._provider.admit(event.sender, event.number, event.view_id):
            if isinstance(content, Ask):
                await self._reply(event.sender, content, b"", CONTAINED)
            return None
        if isinstance(content, bytes):
            return event.with_payload(content)
        assert isinstance(event, Message)
        return await self._take_own(event, content)

    async def _take_own(self, event: Message, content: Own | None) -> ServiceEvent | None:
        match content:
            case Ask():
                await self._handle(event, content)
            case Complete():
                self._provider.complete(event.sender)
            case Relayed():
                return self._take_relayed(event, content)
            case Diffused():
                before = self.tables.diffuse(event.sender, event.number)
                for listener in self._listeners:
                    listener.diffused(event.sender, event.number, before, content.payload)
                return event.with_payload(content.payload)
        return None

    def _take_relayed(self, event: Message, relayed: Relayed) -> ClientMessage | None:
        is_news = self.tables.relay(relayed.client, relayed.number)
        for listener in self._listeners:
            listener.relayed(relayed)
        if not is_news:
            return None
        return ClientMessage(
            payload=relayed.payload,
            client=relayed.client,
            number=relayed.number,
            order=event.order,
            gateway=event.sender,
        )

    async def _handle(self, event: Message, ask: Ask) -> None:
        payload, error = b"", NO_HANDLER
        if self._handler is not None:
            try:
                request = Request(payload=ask.payload, sender=event.sender, order=event.order)
                payload, error = await self._handler(request), ""
                if not isinstance(payload, bytes):
                    raise TypeError(f"the handler gave {type(payload).__name__}, and a reply is bytes")
                if len(payload) > REPLY_BYTES_MAX:
                    raise ValueError(f"the reply has {len(payload)} bytes, and may have {REPLY_BYTES_MAX}")
            except Exception as failure:  # the asker is told; here it is logged, and the stream goes on
                log.exception("the handler of requests in group %r raised", self.group.name)
                payload, error = b"", f"{type(failure).__name__}: {failure}"[:500]
        await self._reply(event.sender, ask, payload, error)

    async def _reply(self, asker: ProcessId, ask: Ask, payload: bytes, error: str) -> None:
        if ask.wants_reply:
            await self.tell(Answer(ask.number, payload, error), asker)


def _application(payload: bytes) -> bytes:
    if not isinstance(payload, bytes):
        raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
    return APPLICATION + payload
