"""A client: a program that sends to a group and receives from its members without being a member (isis-1991 7.1).

    async with Client("quotes", ["10.0.0.1:7500", "10.0.0.2:7500"]) as client:
        await client.send(b"subscribe IBM")                             # to all servers
        reply = await client.request(b"IBM?", to=client.servers[0])     # to one server, and its reply
        async for event in client:
            match event:
                case Diffusion(payload=payload, sender=sender): ...
                case Missed(): ...

The client holds one connection to a gateway and goes to the next one when that fails, is silent or refuses it. Messages
that are not known to be at all members by then are sent again; each is delivered once (`gateway.py` explains how).

Limits: UNACCEPTED_MAX own messages that are not known to be at all members, then `send` waits; REQUESTS_MAX requests
without a reply, then `request` waits; EVENTS_MAX events that the program has not read, then nothing more is read from
the gateway, which in the end refuses the slow client: it connects again, and reads Missed if it has missed something.
If no gateway serves it for `patience_s`, the client fails with GatewayError.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import ClosedError, MessageTooLargeError, ProcessId, Trust, UsageError, log_event, open_connection
from antiphon.toolkit import wire
from antiphon.toolkit.client_domain import ClientDomain
from antiphon.toolkit.errors import GatewayError, ServerGoneError, UnansweredError
from antiphon.toolkit.frames import DIFFUSION_BYTES_MAX, FrameError, hang_up, read_frame, send_frame, split_host
from antiphon.toolkit.gateway import ORDERS
from antiphon.toolkit.messages import WireProcess, from_wire, to_wire
from antiphon.toolkit.tables import DIFFUSERS_MAX

UNACCEPTED_MAX: Final = 1024
REQUESTS_MAX: Final = 1024
EVENTS_MAX: Final = 4096
SILENCE_S: Final = 10.0
"""The client leaves a gateway from which nothing comes for this long; heartbeats come more often."""
PAUSE_S: Final = 0.1
"""Between two rounds of trying all gateways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diffusion:
    """A message that a member of the group diffused to all clients."""

    payload: bytes
    sender: ProcessId
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReply:
    """A member's reply to this client; `request` is the number of the message that it replies to."""

    payload: bytes
    sender: ProcessId
    number: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Messages for clients that this client has not received are no longer kept; some may have been for it. What
    follows is complete again."""


ClientEvent = Diffusion | ClientReply | Missed


class ClientRequest:
    """A request that waits for its first reply."""

    def __init__(self, to: ProcessId | None) -> None:
        self.to = to
        self.reply: asyncio.Future[ClientReply] = asyncio.get_running_loop().create_future()


class Client:
    """One client; `async with` opens and closes it. Clients of one `domain` keep causal order over their services."""

    def __init__(
        self,
        group: str,
        gateways: Sequence[str],
        *,
        patience_s: float = 30.0,
        domain: ClientDomain | None = None,
        trust: Trust | None = None,
    ) -> None:
        """`trust` has the keys of the cluster, as in `Trust("antiphon.key")`; gateways on loopback need none."""
        if isinstance(gateways, str) or not gateways:
            raise UsageError("a client needs a list of gateways, as in Client('quotes', ['10.0.0.1:7500'])")
        for gateway in gateways:
            _check_address(gateway)
        self.id = secrets.token_hex(16)
        self.servers: tuple[ProcessId, ...] = ()
        """The members of the group, the oldest first, as far as the client knows; none before it is served."""
        self._group = group
        self._gateways = deque(gateways)
        self._patience_s = patience_s
        self._domain = domain
        self._trust = trust or Trust()
        self._position: dict[ProcessId, int] = {}
        self._is_new = True
        self._number = 0
        self._accepted = 0
        self._unaccepted: deque[wire.Multicast] = deque()
        self._sent = 0
        """The number of the last message that was sent on this connection."""
        self._sync_number = 0
        self._sync_sent = 0
        self._synced = 0
        self._is_active = False
        """Something was sent or received since the last `settle`."""
        self._requests: dict[int, ClientRequest] = {}
        self._request_turn = asyncio.Semaphore(REQUESTS_MAX)
        self._events: deque[ClientEvent] = deque()
        self._changed = asyncio.Condition()
        """Notified at every change of the attributes above."""
        self._served = asyncio.Event()
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return (
            f"<Client {self.id[:8]} of group {self._group!r}, servers: {', '.join(map(str, self.servers)) or 'none'}>"
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        if self._domain is not None:
            self._domain.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection. Messages that are not at all members may be lost; `flush` before."""
        assert self._task is not None
        if self._domain is not None:
            self._domain.remove(self)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def send(self, payload: bytes, *, order: str = "causal", to: ProcessId | None = None) -> None:
        """Send to all members of the group, or to the server `to` alone.

        Returns when the message is accepted here; `flush` waits until it is at all members. A message to a server that
        is no member any more when it arrives is dropped; `request` tells.
        """
        await self._send(payload, order, to)

    async def request(
        self, payload: bytes, *, to: ProcessId | None = None, order: str = "causal", timeout_s: float = 10.0
    ) -> ClientReply:
        """Send as `send` does, and return the first reply (`Service.reply`); later ones are read as events.

        Raises ServerGoneError if the server `to` fails or leaves before its reply, and UnansweredError if no reply has
        come within `timeout_s`.
        """
        number = 0
        try:
            async with asyncio.timeout(timeout_s), self._request_turn:
                request = ClientRequest(to)
                number = await self._send(payload, order, to, request)
                return await request.reply
        except TimeoutError:
            raise UnansweredError("first", f"{timeout_s:g} s have passed", []) from None
        finally:
            self._requests.pop(number, None)

    async def flush(self) -> None:
        """Wait until all that was sent is at all members."""
        async with self._changed:
            number = self._number
            await self._changed.wait_for(lambda: self._is_over or self._accepted >= number)
            if self._accepted < number:
                self._check()

    async def sync(self) -> None:
        """Wait until the applications of all members are done with all that was sent and received here."""
        async with self._changed:
            self._sync_number += 1
            number = self._sync_number
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._is_over or self._synced >= number)
            if self._synced < number:
                self._check()

    async def settle(self) -> None:
        """Do as `sync`, unless nothing was sent or received since the last time."""
        if self._is_active:
            self._is_active = False
            try:
                await self.sync()
            except BaseException:
                self._is_active = True
                raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ClientEvent:
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or self._events)
            if not self._events:
                self._check()
            self._changed.notify_all()
            self._is_active = True
            return self._events.popleft()

    async def _send(
        self, payload: bytes, order: str, to: ProcessId | None, request: ClientRequest | None = None
    ) -> int:
        """Accept a message and return its number."""
        if order not in ORDERS:
            raise UsageError(f"a client sends in order {', '.join(ORDERS)}, not {order!r}")
        if len(payload) > DIFFUSION_BYTES_MAX:
            raise MessageTooLargeError(len(payload), DIFFUSION_BYTES_MAX)
        async with contextlib.AsyncExitStack() as stack:
            if self._domain is not None:
                await stack.enter_async_context(self._domain.turn)
                await self._domain.settle_others(self)
            await stack.enter_async_context(self._changed)
            await self._changed.wait_for(lambda: self._is_over or len(self._unaccepted) < UNACCEPTED_MAX)
            self._check()
            if to is not None and self.servers and to not in self.servers:
                raise ServerGoneError(self._group, to)
            self._number += 1
            self._is_active = True
            self._unaccepted.append(wire.Multicast(self._number, order, payload, None if to is None else to_wire(to)))
            if request is not None:
                self._requests[self._number] = request
            self._changed.notify_all()
            return self._number

    @property
    def _is_over(self) -> bool:
        return self._error is not None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Be served by one gateway after the other, until none has served this client for `patience_s`."""
        loop = asyncio.get_running_loop()
        error: Exception = ClosedError("the client was closed")
        why = "none was tried"
        until = loop.time() + self._patience_s
        try:
            while loop.time() < until:
                for gateway in list(self._gateways):
                    self._served.clear()
                    try:
                        await self._visit(gateway)
                    except (FrameError, OSError) as failure:
                        reason = str(failure) or type(failure).__name__
                        why = f"{gateway}: {reason}"
                        log_event(logging.INFO, "gateway_changed", reason, group=self._group, gateway=str(gateway))
                    if self._served.is_set():
                        until = loop.time() + self._patience_s
                    self._gateways.rotate(-1)
                await asyncio.sleep(PAUSE_S)
            error = GatewayError(self._group, self._patience_s, why)
        finally:
            self._error = error
            for request in self._requests.values():
                if not request.reply.done():
                    request.reply.set_exception(error)
                    request.reply.exception()  # marked as retrieved: its waiter may be gone
            async with self._changed:
                self._changed.notify_all()

    async def _visit(self, gateway: str) -> None:
        """Be served by one gateway until that fails."""
        host, port = split_host(gateway)
        async with asyncio.timeout(SILENCE_S):
            reader, writer = await open_connection(host, port, trust=self._trust)
        try:
            position = [(to_wire(process), number) for process, number in self._position.items()]
            hello = wire.Hello(self._group, self.id, self._accepted, self._is_new, position)
            await send_frame(writer, wire.encode(hello))
            self._sent = self._accepted
            self._sync_sent = self._synced
            welcome = await self._next(reader)
            if not isinstance(welcome, wire.Welcome):
                raise FrameError("its first frame is not a Welcome")
            await self._enter(welcome)
            writing = asyncio.create_task(self._write(writer))
            try:
                while True:
                    await self._take(await self._next(reader))
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
        finally:
            await hang_up(writer)

    async def _next(self, reader: asyncio.StreamReader) -> wire.FromGateway:
        async with asyncio.timeout(SILENCE_S):
            frame = await read_frame(reader)
        try:
            message: wire.FromGateway = wire.from_gateway.decode(frame)
        except msgspec.DecodeError as error:
            raise FrameError(f"it sent a frame that cannot be decoded: {error}") from error
        if isinstance(message, wire.Refused):
            raise FrameError(message.why)
        return message

    async def _enter(self, welcome: wire.Welcome) -> None:
        async with self._changed:
            self._is_new = False
            self._position = {from_wire(process): number for process, number in welcome.position}
            self._learn_servers(welcome.servers)
            if welcome.missed:
                self._events.append(Missed())
            self._served.set()
            self._changed.notify_all()

    async def _take(self, message: wire.FromGateway) -> None:
        async with self._changed:
            if isinstance(message, wire.StableUpTo):
                self._accepted = max(self._accepted, message.number)
                while self._unaccepted and self._unaccepted[0].number <= self._accepted:
                    self._unaccepted.popleft()
                for process, number in message.position:
                    self._advance(from_wire(process), number)
            elif isinstance(message, wire.DiffusionFrame | wire.ReplyFrame):
                await self._receive(message)
            elif isinstance(message, wire.Servers):
                self._learn_servers(message.servers)
            elif isinstance(message, wire.Synced):
                self._synced = max(self._synced, message.number)
            self._changed.notify_all()

    async def _receive(self, message: wire.DiffusionFrame | wire.ReplyFrame) -> None:
        sender, number, payload = from_wire(message.sender), message.number, message.payload
        if isinstance(message, wire.ReplyFrame):
            reply = ClientReply(payload=payload, sender=sender, number=number, request=message.request)
            request = self._requests.get(message.request)
            if request is not None and not request.reply.done():
                self._advance(sender, number)
                self._is_active = True
                request.reply.set_result(reply)
                return
        await self._changed.wait_for(lambda: len(self._events) < EVENTS_MAX)
        self._advance(sender, number)
        self._events.append(
            reply if isinstance(message, wire.ReplyFrame) else Diffusion(payload=payload, sender=sender, number=number)
        )

    def _advance(self, sender: ProcessId, number: int) -> None:
        """Note that nothing for this client is missing among the messages of `sender` up to `number`."""
        self._position.pop(sender, None)
        self._position[sender] = number
        if len(self._position) > DIFFUSERS_MAX:  # nothing more comes from a server that is gone for so long
            del self._position[next(iter(self._position))]

    def _learn_servers(self, servers: list[WireProcess]) -> None:
        """Take over the members of the new view, and fail the requests whose server is not among them."""
        self.servers = tuple(map(from_wire, servers))
        for request in self._requests.values():
            if request.to is not None and request.to not in self.servers and not request.reply.done():
                request.reply.set_exception(ServerGoneError(self._group, request.to))
                request.reply.exception()  # marked as retrieved: its waiter may be gone

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._number > self._sent or self._sync_number > self._sync_sent)
                waiting = [message for message in self._unaccepted if message.number > self._sent]
                sync_number = self._sync_number
            for message in waiting:
                await send_frame(writer, wire.encode(message))
                self._sent = message.number
            if sync_number > self._sync_sent:  # after the messages that it covers
                await send_frame(writer, wire.encode(wire.Sync(sync_number)))
                self._sync_sent = sync_number


def _check_address(gateway: str) -> None:
    try:
        split_host(gateway)
    except ValueError:
        raise UsageError(f"{gateway!r} is not the address of a gateway; write host:port") from None
