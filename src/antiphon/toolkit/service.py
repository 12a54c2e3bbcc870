"""A group with requests, state transfer and clients: one object that reads the group's stream.

    async with Service(group, snapshot=snapshot, restore=restore) as service:
        service.answer(handler)
        await service.send(b"…")
        replies = await service.ask(b"…", want="majority")
        async for event in service:             # messages, views and messages of clients
            ...

The stream is handled at two points. The *pump*, a task, reads the group, deals at once with what cannot wait for the
application (replies, offers of state, failures) and puts the rest into the inbox. The *application's point* is where
`async for` stands: handlers of requests and snapshots run there, one at a time, between two events. The application
has to be done with an event when it asks for the next one; then a snapshot taken in between contains that event.

Limits: the inbox (`events_max`, `bytes_max`). When it is full the pump stops, the group's queue fills, and in the end
senders wait. Replies wait as well, so `ask` may time out: keep reading, or ask from another task. All members of a
group must use the toolkit, and either all or none of them with state.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

from antiphon import (
    AntiphonError,
    Barrier,
    ClosedError,
    Excluded,
    ExcludedError,
    Message,
    MessageTooLargeError,
    Order,
    ProcessId,
    Stalled,
    UsageError,
    View,
    ViewChange,
    log_event,
)
from antiphon.toolkit.channel import Channel, GroupEvent
from antiphon.toolkit.errors import UnansweredError
from antiphon.toolkit.frames import DIFFUSION_BYTES_MAX
from antiphon.toolkit.inbox import BYTES_MAX, EVENTS_MAX, Entry, Inbox
from antiphon.toolkit.messages import (
    APPLICATION,
    Addressed,
    Again,
    Answer,
    Ask,
    Complete,
    Diffused,
    Lacking,
    Own,
    Ping,
    Relayed,
    SnapshotOffer,
    ToClient,
    decode,
    encode,
    from_wire,
    to_wire,
)
from antiphon.toolkit.requests import Asks, Handler, Reply, Request, check_want
from antiphon.toolkit.state import Joiner, Provider, Restore, Snapshot
from antiphon.toolkit.tables import Tables
from antiphon.toolkit.transfer import SnapshotServer

REPLY_BYTES_MAX: Final = 16 * 1024 * 1024
NO_HANDLER: Final = "this member has no handler for requests"
CONTAINED: Final = "this member was joining, and its state contains what the request did"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMessage:
    """A message of a client. All members deliver it, once; if the client chose a server (`to`), only that one."""

    payload: bytes
    client: str
    number: int
    order: str
    gateway: ProcessId
    to: ProcessId | None = None


ServiceEvent = GroupEvent | ClientMessage
"""An event of a service."""


@dataclass(frozen=True, slots=True)
class ForClients:
    """A delivered message for clients: for all of them, or for `client` in reply to its message `request`."""

    sender: ProcessId
    number: int
    before: int
    """The number of the message for clients that the same sender sent before this one; 0: there is none."""
    payload: bytes
    client: str = ""
    request: int = 0


class GatewayListener:
    """What a gateway is told by its service, at the application's point."""

    def relayed(self, relayed: Relayed) -> None:
        """A client's message was delivered, for the first time or again."""

    def diffused(self, message: ForClients) -> None:
        """A message for clients was delivered."""

    def available(self) -> None:
        """The group has a new view."""

    def unavailable(self, why: str, excluded: bool) -> None:
        """The group is stalled here, or this process was excluded from it."""


class Service:
    """One member of a group that uses the toolkit. It reads the stream of `group`, which nobody else may read."""

    def __init__(
        self,
        group: Channel,
        *,
        snapshot: Snapshot | None = None,
        restore: Restore | None = None,
        providers: Literal["oldest", "all"] = "oldest",
        events_max: int = EVENTS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`providers`: which members offer the state to one that joins. With `all`, for small states, it has another
        offer at hand if a transfer fails."""
        if providers not in ("oldest", "all"):
            raise UsageError(f'`providers` is "oldest" or "all", not {providers!r}')
        if (snapshot is None) != (restore is None):
            raise UsageError("state transfer needs both `snapshot` and `restore`; give both or none")
        self.group = group
        self.view = View(0, ())
        """The view at the application's point."""
        self.has_state = snapshot is not None
        self.tables = Tables()
        self.strays = 0
        """How many messages were dropped because they did not come from the toolkit."""
        self._listeners: list[GatewayListener] = []
        self._handler: Handler | None = None
        self._asks = Asks()
        self._inbox = Inbox(events_max, bytes_max)
        self._server = SnapshotServer(group.flush, group.trust)
        every = providers == "all"
        self._provider = Provider(group, self.tables, snapshot, self.tell, self._server, self._background, every)
        self._joiner = Joiner(restore, self.tell, group.trust)
        self._must_obtain = self.has_state
        """The state has to be fetched before the next event."""
        self._pumped_view = self.view
        self._pump_task: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[Any] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __repr__(self) -> str:
        return f"<Service of group {self.group.name!r}, {self.view}{'' if self.has_state else ', without state'}>"

    async def __aenter__(self) -> Self:
        self._pump_task = asyncio.create_task(self._pump())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading and serving. The process stays a member of the group."""
        tasks = [*self._tasks, *([self._pump_task] if self._pump_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.close()

    # ---- what the application calls ----------------------------------------------------------------------------------

    async def send(self, payload: bytes, *, order: Order = "causal", to: ProcessId | None = None) -> None:
        """Multicast, or send to the member `to` alone; see `antiphon.Group.send`."""
        self._check_order(order)
        await self._send(_application(payload), order, to)

    async def barrier(self, payload: bytes) -> None:
        """Multicast an event that has the same position among all deliveries; see `antiphon.Group.barrier`."""
        await self.group.barrier(_application(payload))

    async def diffuse(self, payload: bytes, *, order: Order = "causal") -> None:
        """Multicast to all members and to the clients of all gateways."""
        self._check_order(order)
        _check_for_clients(payload)
        await self.group.send(encode(Diffused(payload)), order=order)

    async def reply(self, message: ClientMessage, payload: bytes, *, order: Order = "causal") -> None:
        """Reply to the client that sent `message`, and to no other client.

        The reply is multicast, so that it reaches the client through whichever gateway serves it then, after all that
        this member had delivered before; the other members remember that it was sent (isis-1991 3: servers multicast
        their replies to the client and to one another). A client that is gone for good does not get it.
        """
        self._check_order(order)
        _check_for_clients(payload)
        await self.group.send(encode(ToClient(message.client, message.number, payload)), order=order)

    async def ask(
        self, payload: bytes, *, want: str = "all", order: Order = "causal", timeout_s: float = 10.0
    ) -> list[Reply]:
        """Send a request to all members, this one included, and return their replies in view order.

        `all` waits for every member; the reply of one that failed says so. `first` and `majority` return as soon as so
        many members have given a good reply, with all replies up to then. `none` returns no replies, at once.
        Raises UnansweredError when the replies cannot come any more, or have not come within `timeout_s`. The task that
        reads this service cannot ask for `all`, since it has to give one of the replies itself.
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

    async def settle(self) -> None:
        """Wait until, at every member, the application is done with all that was sent or delivered here so far.

        `antiphon.Group.flush` waits for delivery by the group; between that and the application there is the inbox,
        which holds messages back while a member fetches the state.
        """
        async with self._asks.turn:
            number, outstanding = self._asks.open("all")
            try:
                await self.group.send(encode(Ping(number)), order="causal")
                await outstanding.done
            finally:
                self._asks.close(number)

    def answer(self, handler: Handler) -> None:
        """Answer requests by calling `handler`, from now on: one request at a time, between two events."""
        self._handler = handler

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServiceEvent:
        """Return the next event. Cancelling loses no event, but may interrupt a handler."""
        if self._pump_task is None:
            raise UsageError("the service has not been started; use it as `async with`")
        self._reader = asyncio.current_task()
        if self._must_obtain:
            if not await self._joiner.obtain(self._provider.adopt):
                self._inbox.drop()  # without the state only views have a meaning
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
        """Send one of the toolkit's messages, to one member or to all. If `to` or this process is no member any more,
        the message is not needed, so errors are only logged."""
        try:
            await self._send(encode(message), "causal", to)
        except AntiphonError as error:
            log_event(logging.DEBUG, "message_not_sent", str(error), to=to or "the group")

    async def _send(self, payload: bytes, order: Order, to: ProcessId | None) -> None:
        """Send to the member `to` alone, by way of all where the stack has no other way."""
        if to is not None and not getattr(self.group, "is_private", True):
            if to not in self._pumped_view.members:
                raise UsageError(f"{to} is not a member of group {self.group.name!r} now: {self._pumped_view}")
            payload, to = encode(Addressed(to_wire(to), payload)), None
        await self.group.send(payload, order=order, to=to)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

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
            ended = error or ClosedError(f"this process is no longer a member of group {self.group.name!r}")
            self._asks.end(ended)
            self._joiner.end()
            self._inbox.finish(error)

    def _sort(self, event: GroupEvent) -> Entry | None:
        """Handle `event` if it cannot wait for the application, else return its entry for the inbox."""
        if isinstance(event, ViewChange):
            self._pumped_view = event.view
            self._asks.lose((*event.left, *event.failed))
            if self._joiner.install(event.view, event.founded):
                self._background(self.tell(Lacking(event.view.id), None))
        elif isinstance(event, Excluded):
            self._joiner.reset()
            self._asks.fail(ExcludedError(self.group.name, self.process))
        if not isinstance(event, Message | Barrier):
            return (event, None)
        content = decode(event.payload)
        if isinstance(content, Addressed) and isinstance(event, Message):
            if from_wire(content.to) != self.process:
                return None
            event = _made_private(event, content.payload)
            content = decode(event.payload)
        match content:
            case None | Addressed():
                self.strays += 1
            case Answer():
                self._asks.answered(event.sender, content)
            case SnapshotOffer():
                self._joiner.hear_offer(content, event.sender)
            case Lacking():
                self._joiner.hear_lacking(event.sender, content.view_id)
            case _:
                if isinstance(content, Ask | Ping) and event.sender == self.process:
                    self._asks.delivered(content.number, self._pumped_view)
                return (event, content)
        return None

    def _overflow(self) -> None:
        """Drop the messages that this joiner holds back: the inbox is full, and a newer snapshot will contain them."""
        dropped = self._inbox.drop()
        for event, content in dropped:
            if isinstance(content, Ask | Ping):
                self._background(self._reply(event.sender, content, b"", CONTAINED))
        self._joiner.overflow(event for event, _ in dropped)

    # ---- the application's point -------------------------------------------------------------------------------------

    async def _take(self, entry: Entry) -> ServiceEvent | None:
        event, content = entry
        if isinstance(event, ViewChange):
            self._provider.install(event)
            self.view = event.view
            for listener in self._listeners:
                listener.available()
            return event
        if isinstance(event, Excluded) and self._provider.is_past(event.view.id):
            return None  # of an earlier incarnation, which ended before it had the state that this one has
        if isinstance(event, Stalled | Excluded):
            excluded = isinstance(event, Excluded)
            if excluded:
                self._provider.reset()
                self._must_obtain = self.has_state
            for listener in self._listeners:
                listener.unavailable("this gateway is cut off from the group; try another", excluded)
            return event
        if not isinstance(event, Message | Barrier):
            return event
        if isinstance(event, Message) and event.private:
            if isinstance(content, Again):
                self._provider.offer(event.sender)
                return None
            return event.with_payload(content) if isinstance(content, bytes) else None
        if self.has_state and not self._provider.admit(event.sender, event.number, event.view_id):
            if isinstance(content, Ask | Ping):
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
            case Ping():
                await self._reply(event.sender, content, b"", "")
            case Complete():
                self._provider.complete(event.sender)
            case Relayed():
                return self._take_relayed(event, content)
            case Diffused():
                self._pass_on(event, content.payload)
                return event.with_payload(content.payload)
            case ToClient():
                self._pass_on(event, content.payload, content.client, content.request)
        return None

    def _pass_on(self, event: Message, payload: bytes, client: str = "", request: int = 0) -> None:
        before = self.tables.diffuse(event.sender, event.number)
        for listener in self._listeners:
            listener.diffused(ForClients(event.sender, event.number, before, payload, client, request))

    def _take_relayed(self, event: Message, relayed: Relayed) -> ClientMessage | None:
        is_news = self.tables.relay(relayed.client, relayed.number)
        for listener in self._listeners:
            listener.relayed(relayed)
        to = None if relayed.to is None else from_wire(relayed.to)
        if not is_news or to not in (None, self.process):
            return None
        return ClientMessage(
            payload=relayed.payload,
            client=relayed.client,
            number=relayed.number,
            order=event.order,
            gateway=event.sender,
            to=to,
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
            except Exception as failure:  # goes to the sender of the request; the stream goes on
                log_event(
                    logging.ERROR, "request_handler_failed", str(failure), group=self.group.name, exc_info=failure
                )
                payload, error = b"", f"{type(failure).__name__}: {failure}"[:500]
        await self._reply(event.sender, ask, payload, error)

    async def _reply(self, asker: ProcessId, ask: Ask | Ping, payload: bytes, error: str) -> None:
        if isinstance(ask, Ping) or ask.wants_reply:
            await self.tell(Answer(ask.number, payload, error), asker)


def _made_private(event: Message, payload: bytes) -> Message:
    """Return a message to this member alone that came by way of all."""
    return Message(payload, event.sender, event.number, event.order, event.group, event.view_id, True)


def _check_for_clients(payload: bytes) -> None:
    if len(payload) > DIFFUSION_BYTES_MAX:
        raise MessageTooLargeError(len(payload), DIFFUSION_BYTES_MAX)


def _application(payload: bytes) -> bytes:
    if not isinstance(payload, bytes):
        raise UsageError(f"a payload is bytes, not {type(payload).__name__}; encode it first")
    return APPLICATION + payload
