"""A client: a program that multicasts to a group and hears what the group diffuses, without being a member.

    async with Client("quotes", ["10.0.0.1:7500", "10.0.0.2:7500"]) as client:
        await client.send(b"subscribe IBM")
        async for event in client:
            match event:
                case Diffusion(payload=payload, sender=sender): ...
                case Missed(): ...

It holds one connection to a gateway, and turns to the next when that one fails, falls silent or sends it away. What is
not accepted by then is sent again; each message is delivered once (see `gateway.py` for how).

Limits: UNACCEPTED_MAX own messages under way, then `send` waits; EVENTS_MAX events that the program has not read, then
nothing more is read from the gateway, which in time sends a slow client away: it comes back, and is told if it has
missed something. If no gateway serves it for `patience_s`, the client ends with GatewayError.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import ClosedError, MessageTooLargeError, ProcessId, UsageError, current_environment
from antiphon.toolkit import wire
from antiphon.toolkit.errors import GatewayError
from antiphon.toolkit.frames import DIFFUSION_BYTES_MAX, FrameError, hang_up, read_frame, send_frame, split_host
from antiphon.toolkit.gateway import ORDERS
from antiphon.toolkit.messages import from_wire, to_wire
from antiphon.toolkit.tables import DIFFUSERS_MAX

UNACCEPTED_MAX: Final = 1024
EVENTS_MAX: Final = 4096
SILENCE_S: Final = 10.0
"""A gateway that is silent for longer is left; it would have sent a heartbeat."""
PAUSE_S: Final = 0.1
"""Between two rounds of asking all gateways."""

log: Final = logging.getLogger("antiphon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diffusion:
    """A message that a member of the group diffused."""

    payload: bytes
    sender: ProcessId
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Messages were diffused that this client did not get and cannot get any more; what follows is complete again."""


ClientEvent = Diffusion | Missed


class Client:
    """One client; `async with` opens and closes it."""

    def __init__(self, group: str, gateways: Sequence[str], *, patience_s: float = 30.0) -> None:
        if isinstance(gateways, str) or not gateways:
            raise UsageError("a client needs a list of gateways, as in Client('quotes', ['10.0.0.1:7500'])")
        for gateway in gateways:
            _check_address(gateway)
        self.id = current_environment().token_bytes(16).hex()
        self._group = group
        self._gateways = deque(gateways)
        self._patience_s = patience_s
        self._position: dict[ProcessId, int] = {}
        self._is_new = True
        self._number = 0
        self._accepted = 0
        self._unaccepted: deque[wire.Multicast] = deque()
        self._sent = 0
        """The last message that went to the gateway of this connection."""
        self._events: deque[ClientEvent] = deque()
        self._something = asyncio.Condition()
        """Signalled at every change: to send, accepted, to read, read, ended."""
        self._served = asyncio.Event()
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """What was not accepted by now may still be delivered, or not; `flush` first."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def send(self, payload: bytes, *, order: str = "causal") -> None:
        """Multicast to all members of the group. Returns when the message is on its way; `flush` waits until it is
        there."""
        if order not in ORDERS:
            raise UsageError(f"a client sends in order {', '.join(ORDERS)}, not {order!r}")
        if len(payload) > DIFFUSION_BYTES_MAX:
            raise MessageTooLargeError(len(payload), DIFFUSION_BYTES_MAX)
        async with self._something:
            await self._something.wait_for(lambda: self._is_over or len(self._unaccepted) < UNACCEPTED_MAX)
            self._check()
            self._number += 1
            self._unaccepted.append(wire.Multicast(self._number, order, payload))
            self._something.notify_all()

    async def flush(self) -> None:
        """Wait until all that was sent is at all members."""
        async with self._something:
            number = self._number
            await self._something.wait_for(lambda: self._is_over or self._accepted >= number)
            if self._accepted < number:
                self._check()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ClientEvent:
        async with self._something:
            await self._something.wait_for(lambda: self._is_over or self._events)
            if not self._events:
                self._check()
            self._something.notify_all()
            return self._events.popleft()

    @property
    def _is_over(self) -> bool:
        return self._error is not None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """From gateway to gateway, until the patience is at an end."""
        loop = asyncio.get_running_loop()
        error: Exception = ClosedError("the client was closed")
        why = "none was asked"
        until = loop.time() + self._patience_s
        try:
            while loop.time() < until:
                for gateway in list(self._gateways):
                    self._served.clear()
                    try:
                        await self._visit(gateway)
                    except (FrameError, OSError) as failure:
                        why = f"{gateway}: {str(failure) or type(failure).__name__}"
                        log.info("client of group %r leaves its gateway %s", self._group, why)
                    if self._served.is_set():
                        until = loop.time() + self._patience_s
                    self._gateways.rotate(-1)
                await asyncio.sleep(PAUSE_S)
            error = GatewayError(self._group, self._patience_s, why)
        finally:
            self._error = error
            async with self._something:
                self._something.notify_all()

    async def _visit(self, gateway: str) -> None:
        """Be served by one gateway until that fails."""
        host, port = split_host(gateway)
        async with asyncio.timeout(SILENCE_S):
            reader, writer = await asyncio.open_connection(host, port)
        try:
            position = [(to_wire(process), number) for process, number in self._position.items()]
            hello = wire.Hello(self._group, self.id, self._accepted, self._is_new, position)
            await send_frame(writer, wire.encode(hello))
            self._sent = self._accepted
            welcome = await self._next(reader)
            if not isinstance(welcome, wire.Welcome):
                raise FrameError("it speaks out of turn")
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
            raise FrameError(f"it sent what cannot be read: {error}") from error
        if isinstance(message, wire.Refused):
            raise FrameError(message.why)
        return message

    async def _enter(self, welcome: wire.Welcome) -> None:
        async with self._something:
            self._is_new = False
            self._position = {from_wire(process): number for process, number in welcome.position}
            if welcome.missed:
                self._events.append(Missed())
            self._served.set()
            self._something.notify_all()

    async def _take(self, message: wire.FromGateway) -> None:
        async with self._something:
            if isinstance(message, wire.StableUpTo):
                self._accepted = max(self._accepted, message.number)
                while self._unaccepted and self._unaccepted[0].number <= self._accepted:
                    self._unaccepted.popleft()
            elif isinstance(message, wire.DiffusionFrame):
                await self._something.wait_for(lambda: len(self._events) < EVENTS_MAX)
                sender = from_wire(message.sender)
                self._position.pop(sender, None)
                self._position[sender] = message.number
                if len(self._position) > DIFFUSERS_MAX:  # of servers gone for so long, nothing more will come
                    del self._position[next(iter(self._position))]
                self._events.append(Diffusion(payload=message.payload, sender=sender, number=message.number))
            self._something.notify_all()

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        while True:
            async with self._something:
                await self._something.wait_for(lambda: self._number > self._sent)
                waiting = [message for message in self._unaccepted if message.number > self._sent]
            for message in waiting:
                await send_frame(writer, wire.encode(message))
                self._sent = message.number


def _check_address(gateway: str) -> None:
    try:
        split_host(gateway)
    except ValueError:
        raise UsageError(f"{gateway!r} is not the address of a gateway; write host:port") from None
