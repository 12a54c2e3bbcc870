"""The server side of client/server and diffusion groups (isis-1991 3 and 7.1): a member that serves clients.

Clients are not members. Each holds one TCP connection to a *gateway*, a member that serves clients; one gateway serves
hundreds. A client's message is multicast by its gateway to all members, or is for one server that the client chose.
What a member diffuses goes to the clients of all gateways; what it replies goes to one client. So vector times have one
entry per server, whatever the number of clients: s, where Table I has up to s + c for client/server groups and b for
diffusion. Deviation: in the paper a client multicasts by itself and takes part in the ordering; here its gateway does
both for it. That costs the client one more hop, and saves the group a view change, a vector entry and a failure
detector for each client.

A chosen server, and a reply to one client, are multicast all the same and ignored by those that they are not for, as
7.1 does with subsets. So all members know which messages of which clients were delivered, and any gateway can go on
where another failed.

Exactly once. A client numbers its messages 1, 2, 3…; every member remembers the number of the last one delivered
(`tables.py`) and drops copies. A client keeps each message until its gateway has told it that the message is at all
members (`flush`), and sends it again through another gateway if the first one fails.

In order. A client that changes gateways says which of its messages are at all members and what it has received. The
new gateway serves it when it has itself delivered all of that; so the client's next message follows it in causal order.
Messages for clients are kept in a log of bounded size, in the gateway's own order, which is causal. A client gets what
it has not received from there, each message once, or is told that it has missed some.

Limits: `clients_max` clients and GREETINGS_MAX connections before Hello is accepted; LOG_MESSAGES_MAX and LOG_BYTES_MAX
of log; BUFFER_BYTES_MAX of unread data per client. A client that reads too slowly or breaks the protocol is refused
with the reason. A gateway that is excluded or stalled refuses all its clients, since others may serve them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

import msgspec

from antiphon import AntiphonError, Order, ProcessId, UsageError, log_event, start_server
from antiphon.toolkit.frames import FrameError, join_host, put_frame, read_frame, split_host
from antiphon.toolkit.messages import Relayed, from_wire, to_wire
from antiphon.toolkit.messages import encode as encode_own
from antiphon.toolkit.service import ForClients, GatewayListener, Service
from antiphon.toolkit.tables import DIFFUSERS_MAX
from antiphon.toolkit.wire import (
    DiffusionFrame,
    FromClient,
    FromGateway,
    Hello,
    Multicast,
    Refused,
    ReplyFrame,
    Servers,
    StableUpTo,
    Sync,
    Synced,
    Welcome,
    encode,
    from_client,
)

CLIENTS_MAX: Final = 1000
LOG_MESSAGES_MAX: Final = 16_384
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
CATCH_UP_S: Final = 10.0
"""How long a gateway may take to deliver what its new client has received elsewhere."""
HEARTBEAT_S: Final = 2.0
"""A client hears from its gateway at least this often."""
FAREWELL_S: Final = 5.0
"""How long a refused client has to read the reason."""
CLIENT_ID_MAX: Final = 64
"""Characters in the id of a client; every member remembers it."""
GREETINGS_MAX: Final = 100
"""Connections whose Hello has not come or not been accepted yet."""
ORDERS: Final = ("causal", "agreed", "safe")


class RefusalError(Exception):
    """The client cannot be served; the text is sent to it."""


class ClientSession:
    """One client on its connection."""

    def __init__(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = hello.client
        self.reader = reader
        self.position = {from_wire(process): number for process, number in hello.position}
        self.sent = hello.accepted
        """The number of the last message of this client that was multicast."""
        self.accepted = hello.accepted
        self._writer = writer
        self._skipped: dict[ProcessId, int] = {}
        """Where `position` is ahead of what the client knows: the messages were for other clients."""

    def put(self, message: FromGateway) -> bool:
        """Send a frame; false if the client has too much unread data."""
        if self._writer.transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            return False
        put_frame(self._writer, encode(message))
        return True

    def pass_on(self, message: ForClients) -> bool:
        """Send a message for clients, unless the client has it or it is for another; false as for `put`."""
        sender = message.sender
        if message.number <= self.position.get(sender, 0):
            return True
        self.position[sender] = message.number
        if message.client and message.client != self.client:
            self._skipped[sender] = message.number
            return True
        self._skipped.pop(sender, None)
        if message.client:
            return self.put(ReplyFrame(to_wire(sender), message.number, message.request, message.payload))
        return self.put(DiffusionFrame(to_wire(sender), message.number, message.payload))

    def beat(self) -> None:
        """Send a heartbeat, with the position as far as the client does not know it."""
        skipped = [(to_wire(process), number) for process, number in self._skipped.items()]
        if self.put(StableUpTo(self.accepted, skipped)):
            self._skipped.clear()

    def refuse(self, why: str) -> None:
        refuse_connection(self._writer, why)


def refuse_connection(writer: asyncio.StreamWriter, why: str) -> None:
    """Send the reason and close the connection, after FAREWELL_S even if the reason has not been read."""
    if not writer.is_closing():
        put_frame(writer, encode(Refused(why)))
        writer.close()
        asyncio.get_running_loop().call_later(FAREWELL_S, writer.transport.abort)


class Gateway(GatewayListener):
    """Serves the clients of `service` at `address`; `async with` opens and closes it."""

    def __init__(self, service: Service, *, address: str = "127.0.0.1:0", clients_max: int = CLIENTS_MAX) -> None:
        if not service.has_state:
            raise UsageError(
                "a gateway needs a service with `snapshot` and `restore`: a joiner has to learn which messages of "
                "clients were delivered before"
            )
        self._service = service
        self._address = address
        self._clients_max = clients_max
        self._server: asyncio.Server | None = None
        self._sessions: dict[str, ClientSession] = {}
        self._connections: dict[asyncio.Task[None], None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._log: deque[ForClients] = deque()
        self._log_bytes = 0
        self._progress = asyncio.Event()
        """Set when something was delivered that a new client may have received elsewhere."""
        self._unaccepted = asyncio.Event()
        self._unavailable = ""
        """Why no client is served at present; empty: clients are served."""
        self._servers: tuple[ProcessId, ...] = ()

    def __repr__(self) -> str:
        return f"<Gateway at {self._address} of group {self._service.group.name!r}, {len(self._sessions)} clients>"

    async def __aenter__(self) -> Self:
        host, port = split_host(self._address)
        try:
            self._server = await start_server(self._connect, host, port, trust=self._service.group.trust)
        except OSError as error:
            raise UsageError(f"no gateway can be opened at {self._address}: {error}") from error
        self._address = join_host(host, self._server.sockets[0].getsockname()[1])
        self._service.listen(self)
        self._tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._beat())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._service.unlisten(self)
        self._refuse_all("the gateway closes")
        tasks = [*self._tasks, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """The address for clients of this gateway."""
        return self._address

    @property
    def clients(self) -> int:
        """The number of clients that are served."""
        return len(self._sessions)

    # ---- calls of the service ----------------------------------------------------------------------------------------

    def relayed(self, relayed: Relayed) -> None:
        self._progress.set()

    def diffused(self, message: ForClients) -> None:
        self._log.append(message)
        self._log_bytes += len(message.payload)
        while len(self._log) > LOG_MESSAGES_MAX or self._log_bytes > LOG_BYTES_MAX:
            self._log_bytes -= len(self._log.popleft().payload)
        for session in list(self._sessions.values()):
            if not session.pass_on(message):
                self._drop(session, f"more than {BUFFER_BYTES_MAX} bytes wait for you; read faster")
        self._progress.set()

    def available(self) -> None:
        self._unavailable = ""
        if self._service.view.members != self._servers:
            self._servers = self._service.view.members
            for session in self._sessions.values():
                session.put(Servers(list(map(to_wire, self._servers))))
        self._progress.set()

    def unavailable(self, why: str, excluded: bool) -> None:
        self._unavailable = why
        self._refuse_all(why)
        if excluded:
            self._log.clear()
            self._log_bytes = 0
        self._progress.set()

    def _refuse_all(self, why: str) -> None:
        for session in list(self._sessions.values()):
            self._drop(session, why)

    def _drop(self, session: ClientSession, why: str) -> None:
        if self._sessions.get(session.client) is session:
            del self._sessions[session.client]
        session.refuse(why)

    # ---- one connection ----------------------------------------------------------------------------------------------

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) - len(self._sessions) >= GREETINGS_MAX:
            refuse_connection(writer, "too many clients come at once; try again")
            return
        self._connections[task] = None
        session: ClientSession | None = None
        try:
            async with asyncio.timeout(CATCH_UP_S):
                session = await self._greet(reader, writer)
            await self._serve(session)
        except RefusalError as refusal:
            refuse_connection(writer, str(refusal))
        except TimeoutError:
            refuse_connection(
                writer, f"after {CATCH_UP_S:g} s this gateway has not delivered what you have received; try another"
            )
        except AntiphonError as error:  # this process is no longer a member
            refuse_connection(writer, str(error))
        except (FrameError, asyncio.CancelledError):
            pass  # the client hung up, or the gateway closes: only `__aexit__` awaits this task
        finally:
            if session is not None and self._sessions.get(session.client) is session:
                del self._sessions[session.client]
            self._connections.pop(task, None)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ClientSession:
        hello = _read(await read_frame(reader))
        if not isinstance(hello, Hello):
            raise RefusalError("a connection begins with Hello")
        if hello.group != self._service.group.name:
            raise RefusalError(f"this gateway serves group {self._service.group.name!r}, not {hello.group!r}")
        if len(hello.client) > CLIENT_ID_MAX or len(hello.position) > DIFFUSERS_MAX:
            limits = f"at most {CLIENT_ID_MAX} characters, a position at most {DIFFUSERS_MAX} servers"
            raise RefusalError(f"the id of a client has {limits}")
        session = ClientSession(hello, reader, writer)
        await self._wait(lambda: self._is_caught_up(session))
        if self._unavailable:
            raise RefusalError(self._unavailable)
        former = self._sessions.get(hello.client)
        if former is not None:
            self._drop(former, "you are connected anew")
        if len(self._sessions) >= self._clients_max:
            raise RefusalError(f"this gateway serves {self._clients_max} clients already; try another")
        # No `await` from here on, so that nothing is diffused in between.
        missed = False
        if hello.is_new:
            session.position = dict(self._service.tables.diffused)
        else:
            missed = self._advance(session)
        position = [(to_wire(process), number) for process, number in session.position.items()]
        session.put(Welcome(missed, position, list(map(to_wire, self._service.view.members))))
        if not all(session.pass_on(message) for message in self._log):
            raise RefusalError("you have missed more than can be sent to you at once; read faster")
        self._sessions[session.client] = session
        return session

    def _is_caught_up(self, session: ClientSession) -> bool:
        """Whether all that the client has sent and received through other gateways is delivered here. Messages of
        servers that are no longer members are not waited for: they may be lost."""
        tables = self._service.tables
        members = self._service.view.members
        return bool(self._unavailable) or (
            tables.clients.get(session.client, 0) >= session.accepted
            and all(
                tables.diffused.get(process, 0) >= number
                for process, number in session.position.items()
                if process in members
            )
        )

    def _advance(self, session: ClientSession) -> bool:
        """Move the client's position forward to the beginning of the log; return whether it had to be moved."""
        begins = dict(self._service.tables.diffused)
        for message in reversed(self._log):
            begins[message.sender] = message.before
        behind = {process: number for process, number in begins.items() if number > session.position.get(process, 0)}
        session.position.update(behind)
        return bool(behind)

    async def _serve(self, session: ClientSession) -> None:
        """Multicast the client's messages, as fast as the group accepts them."""
        group, tables = self._service.group, self._service.tables
        while True:
            message = _read(await read_frame(session.reader))
            if isinstance(message, Sync):
                await self._service.settle()
                if not session.put(Synced(message.number)):
                    raise RefusalError("you do not read what is sent to you")
                continue
            if not isinstance(message, Multicast) or message.order not in ORDERS:
                raise RefusalError(f"after Hello, a client sends messages in order {', '.join(ORDERS)}, nothing else")
            if message.number <= session.sent:
                continue
            if message.number != session.sent + 1:
                raise RefusalError(f"your message {session.sent + 1} is missing before {message.number}")
            if message.number > tables.clients.get(session.client, 0):
                relayed = Relayed(session.client, message.number, message.payload, message.to)
                await group.send(encode_own(relayed), order=cast("Order", message.order))
            session.sent = message.number
            self._unaccepted.set()

    async def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._progress.clear()
            await self._progress.wait()

    # ---- in the background -------------------------------------------------------------------------------------------

    async def _accept(self) -> None:
        """Tell clients which of their messages are at all members, whenever some were multicast."""
        while True:
            await self._unaccepted.wait()
            self._unaccepted.clear()
            sent = [(session, session.sent) for session in self._sessions.values() if session.sent > session.accepted]
            try:
                await self._service.group.flush()
            except AntiphonError as error:
                log_event(logging.INFO, "clients_not_told", str(error))
                continue
            for session, number in sent:
                session.accepted = number
                if self._sessions.get(session.client) is session and not session.put(StableUpTo(number)):
                    self._drop(session, "you do not read what is sent to you")
            self._progress.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for session in list(self._sessions.values()):
                session.beat()


def _read(frame: bytes) -> FromClient:
    try:
        message: FromClient = from_client.decode(frame)
    except msgspec.DecodeError as error:
        raise RefusalError(f"the frame cannot be decoded: {error}") from error
    return message
