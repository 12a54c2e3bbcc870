"""Clients of a group, seen from a member (isis-1991 7.1: client/server and diffusion groups).

Clients are not members. Each holds one TCP connection to a *gateway*, a member that serves clients; hundreds fit on
one. A client's message goes through its gateway to all members; what a member diffuses goes to the clients of all
gateways. So the group's vector times have one entry per server, whatever the number of clients: s, where Table I has
up to s + c for client/server groups and b for diffusion. The deviation: in the paper a client multicasts by itself, and
takes part in ordering; here its gateway does both for it. It costs the client one more hop, and spares the group a
view change, a vector entry and a failure detector for every client that comes or goes.

Exactly once. A client numbers its messages 1, 2, 3…; every member remembers the last one delivered (`tables.py`) and
drops copies. A message is `Accepted` when it is at all members (`flush`); until then its client keeps it, and sends it
again through another gateway if this one fails.

In order. A client that turns to another gateway says what it knows to be accepted, and what it has seen. The gateway
goes on only when it has itself delivered all that; so what the client sends next comes after it in causal order.
Diffused messages are kept in a log of bounded size. A client gets from there what it has not seen, each message once
and in the gateway's own order, which is causal; or it is told that it has missed some.

Limits: `clients_max` clients, and GREETINGS_MAX connections that are not yet one; LOG_MESSAGES_MAX and LOG_BYTES_MAX of
log; per client BUFFER_BYTES_MAX of what it has not read. A client that is too slow, or speaks nonsense, is sent away
with the reason. A gateway that is excluded, or stalls for want of a majority, sends all its clients away: others may
serve them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from antiphon import AntiphonError, ProcessId, UsageError
from antiphon.toolkit.frames import FrameError, join_host, put_frame, read_frame, split_host
from antiphon.toolkit.messages import Relayed, from_wire, to_wire
from antiphon.toolkit.messages import encode as encode_own
from antiphon.toolkit.service import GatewayListener, Service
from antiphon.toolkit.tables import DIFFUSERS_MAX
from antiphon.toolkit.wire import (
    DiffusionFrame,
    FromClient,
    FromGateway,
    Hello,
    Multicast,
    Refused,
    StableUpTo,
    Welcome,
    encode,
    from_client,
)

CLIENTS_MAX: Final = 1000
LOG_MESSAGES_MAX: Final = 16_384
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
CATCH_UP_S: Final = 10.0
"""How long a gateway waits for what a client has seen elsewhere."""
HEARTBEAT_S: Final = 2.0
"""How often each client hears from its gateway at least."""
FAREWELL_S: Final = 5.0
"""How long a client that is sent away has to read the reason."""
CLIENT_ID_MAX: Final = 64
"""Every member remembers the ids of clients, so they are short."""
GREETINGS_MAX: Final = 100
"""Connections that have not said, or not shown, who they are."""
ORDERS: Final = ("causal", "agreed", "safe")

log: Final = logging.getLogger("antiphon")


@dataclass(frozen=True, slots=True)
class Logged:
    """A diffused message, and the number of the one that its sender diffused before it."""

    sender: ProcessId
    number: int
    before: int
    payload: bytes


class RefusalError(Exception):
    """A client cannot be served; the text goes to it."""


class ClientSession:
    """One client on its connection."""

    def __init__(self, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = hello.client
        self.reader = reader
        self.position = {from_wire(process): number for process, number in hello.position}
        self.sent = hello.accepted
        """The last message of this client that is in the group's hands."""
        self.accepted = hello.accepted
        self._writer = writer

    def put(self, message: FromGateway) -> bool:
        """Have a message sent; false if too much waits for this client to read it."""
        if self._writer.transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            return False
        put_frame(self._writer, encode(message))
        return True

    def pass_on(self, entry: Logged) -> bool:
        """A diffused message, unless the client has it."""
        if entry.number <= self.position.get(entry.sender, 0):
            return True
        self.position[entry.sender] = entry.number
        return self.put(DiffusionFrame(to_wire(entry.sender), entry.number, entry.payload))

    def send_away(self, why: str) -> None:
        dismiss(self._writer, why)


def dismiss(writer: asyncio.StreamWriter, why: str) -> None:
    """Tell why, and close; without ado if the client does not listen."""
    if not writer.is_closing():
        put_frame(writer, encode(Refused(why)))
        writer.close()
        asyncio.get_running_loop().call_later(FAREWELL_S, writer.transport.abort)


class Gateway(GatewayListener):
    """Serves clients of `service` at `address`; `async with` opens and closes it."""

    def __init__(self, service: Service, *, address: str = "127.0.0.1:0", clients_max: int = CLIENTS_MAX) -> None:
        if not service.has_state:
            raise UsageError(
                "a gateway needs a service with `snapshot` and `restore`: whoever joins has to learn which messages of "
                "clients were delivered before"
            )
        self._service = service
        self._address = address
        self._clients_max = clients_max
        self._server: asyncio.Server | None = None
        self._sessions: dict[str, ClientSession] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._log: deque[Logged] = deque()
        self._log_bytes = 0
        self._progress = asyncio.Event()
        """Something was delivered that a client may be waiting for."""
        self._unaccepted = asyncio.Event()
        self._away = ""
        """Why nobody is served just now."""

    async def __aenter__(self) -> Self:
        host, port = split_host(self._address)
        try:
            self._server = await asyncio.start_server(self._connect, host, port)
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
        self._send_all_away("the gateway closes")
        tasks = [*self._tasks, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """Where clients find this gateway."""
        return self._address

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._sessions)

    # ---- what the service tells --------------------------------------------------------------------------------------

    def relayed(self, relayed: Relayed) -> None:
        self._progress.set()

    def diffused(self, sender: ProcessId, number: int, before: int, payload: bytes) -> None:
        entry = Logged(sender, number, before, payload)
        self._log.append(entry)
        self._log_bytes += len(payload)
        while len(self._log) > LOG_MESSAGES_MAX or self._log_bytes > LOG_BYTES_MAX:
            self._log_bytes -= len(self._log.popleft().payload)
        for session in list(self._sessions.values()):
            if not session.pass_on(entry):
                self._drop(session, f"more than {BUFFER_BYTES_MAX} bytes wait for you; read faster")
        self._progress.set()

    def available(self) -> None:
        self._away = ""
        self._progress.set()

    def unavailable(self, why: str, lapsed: bool) -> None:
        self._away = why
        self._send_all_away(why)
        if lapsed:
            self._log.clear()
            self._log_bytes = 0
        self._progress.set()

    def _send_all_away(self, why: str) -> None:
        for session in list(self._sessions.values()):
            self._drop(session, why)

    def _drop(self, session: ClientSession, why: str) -> None:
        if self._sessions.get(session.client) is session:
            del self._sessions[session.client]
        session.send_away(why)

    # ---- one connection ----------------------------------------------------------------------------------------------

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) - len(self._sessions) >= GREETINGS_MAX:
            dismiss(writer, "too many clients come at once; try again")
            return
        self._connections.add(task)
        session: ClientSession | None = None
        try:
            async with asyncio.timeout(CATCH_UP_S):
                session = await self._greet(reader, writer)
            await self._serve(session)
        except RefusalError as refusal:
            dismiss(writer, str(refusal))
        except TimeoutError:
            dismiss(writer, f"after {CATCH_UP_S:g} s this gateway has not delivered what you have seen; try another")
        except AntiphonError as error:  # the group has come to its end here
            dismiss(writer, str(error))
        except (FrameError, asyncio.CancelledError):
            pass  # the client hung up, or the gateway closes; nobody awaits this task but `__aexit__`
        finally:
            if session is not None and self._sessions.get(session.client) is session:
                del self._sessions[session.client]
            self._connections.discard(task)
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
        if self._away:
            raise RefusalError(self._away)
        former = self._sessions.get(hello.client)
        if former is not None:
            self._drop(former, "you are connected anew")
        if len(self._sessions) >= self._clients_max:
            raise RefusalError(f"this gateway serves {self._clients_max} clients already; try another")
        # From here on without a pause, so that nothing is diffused in between.
        missed = False
        if hello.is_new:
            session.position = dict(self._service.tables.diffused)
        else:
            missed = self._advance(session)
        session.put(Welcome(missed, [(to_wire(process), number) for process, number in session.position.items()]))
        if not all(session.pass_on(entry) for entry in self._log):
            raise RefusalError("you have missed more than can be sent to you at once; read faster")
        self._sessions[session.client] = session
        return session

    def _is_caught_up(self, session: ClientSession) -> bool:
        """Whether all that the client has seen and said through others has been delivered here. What came from servers
        that are gone may be lost for good."""
        tables = self._service.tables
        members = self._service.view.members
        return bool(self._away) or (
            tables.clients.get(session.client, 0) >= session.accepted
            and all(
                tables.diffused.get(process, 0) >= number
                for process, number in session.position.items()
                if process in members
            )
        )

    def _advance(self, session: ClientSession) -> bool:
        """Move the client's position to where the log begins, if it is not there yet; whether it has to be moved."""
        begins = dict(self._service.tables.diffused)
        for entry in reversed(self._log):
            begins[entry.sender] = entry.before
        behind = {process: number for process, number in begins.items() if number > session.position.get(process, 0)}
        session.position.update(behind)
        return bool(behind)

    async def _serve(self, session: ClientSession) -> None:
        """Take the client's messages into the group, as fast as the group does."""
        group, tables = self._service.group, self._service.tables
        while True:
            message = _read(await read_frame(session.reader))
            if not isinstance(message, Multicast) or message.order not in ORDERS:
                raise RefusalError(f"after Hello, a client sends messages in order {', '.join(ORDERS)}, nothing else")
            if message.number <= session.sent:
                continue
            if message.number != session.sent + 1:
                raise RefusalError(f"your message {session.sent + 1} is missing before {message.number}")
            if message.number > tables.clients.get(session.client, 0):
                relayed = Relayed(session.client, message.number, message.payload)
                await group.send(encode_own(relayed), order=message.order)
            session.sent = message.number
            self._unaccepted.set()

    async def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._progress.clear()
            await self._progress.wait()

    # ---- in the background -------------------------------------------------------------------------------------------

    async def _accept(self) -> None:
        """Whenever something of clients is in the group's hands, wait until it is at all members, and tell them."""
        while True:
            await self._unaccepted.wait()
            self._unaccepted.clear()
            sent = [(session, session.sent) for session in self._sessions.values() if session.sent > session.accepted]
            try:
                await self._service.group.flush()
            except AntiphonError as error:
                log.info("clients are not told what was accepted: %s", error)
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
                session.put(StableUpTo(session.accepted))


def _read(frame: bytes) -> FromClient:
    try:
        message: FromClient = from_client.decode(frame)
    except msgspec.DecodeError as error:
        raise RefusalError(f"a message that cannot be read: {error}") from error
    return message
