"""The relay of a domain: links to relays of other domains, over TCP, with TLS where contexts are given, else sealed.

A relay sends what lies in its domain's outbox towards its destination, passes on what is for other domains without
looking into it (a tunnel), and hands what is for its own domain to the domain. Every relay of a domain has the same
outbox. The first of them, in the order of the view, sends; the others only what has not been acknowledged for a while,
each a little later than the one before it. Frames and acknowledgements may be lost with a link: after RETRY_S without
progress what is not acknowledged is sent again.

A link may work and lead nowhere, where the relay at its other end is cut off from its own domain. So what has to be
sent again, or comes again to be passed on, goes to another relay of the next domain than before, if there is one; and a
relay that is out of its domain has no links until it is back.

Limits: WINDOW frames ahead of the acknowledgements of a domain; RECEIVED_MAX frames of a domain that wait for others;
what is to be passed on to a link that is down is dropped, and will come again.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from antiphon.domain.wire import (
    FRAME_BYTES_MAX,
    LENGTH,
    FrameBody,
    LinkAck,
    LinkFrame,
    LinkHello,
    decode_link,
    frame_body,
    frame_of,
    on_link,
)
from antiphon.kernel.errors import MalformedError
from antiphon.runtime.address import split_address
from antiphon.runtime.sealed_streams import open_connection, start_server
from antiphon.runtime.trust import Trust
from antiphon.stacks.domain.export import DomainExports

RETRY_S: Final = 0.3
DIAL_S: Final = 0.25
WINDOW: Final = 256
RECEIVED_MAX: Final = 4096


class Relay:
    """The links of one member. `received` is called with a frame for this domain, `acknowledged` with an ack."""

    def __init__(
        self,
        exports: DomainExports,
        listen: str | None,
        links: Mapping[str, Sequence[str]],
        routes: Mapping[str, str],
        tls: tuple[ssl.SSLContext, ssl.SSLContext] | None,
        trust: Trust,
        received: Callable[[FrameBody], None],
        acknowledged: Callable[[str, int], None],
    ) -> None:
        self.rank = 1
        """How many relays of this domain come before this one, as far as is known."""
        self.is_out = False
        """Whether this process is out of its domain."""
        self._passed: dict[tuple[str, str, bool], int] = {}
        """By origin, destination and whether it was an acknowledgement: the number that was passed on last."""
        self.bytes_sent = 0
        self._exports = exports
        self._listen = listen
        self._links = links
        self._routes = routes
        self._tls = tls
        self._trust = trust
        self._received = received
        self._acknowledged = acknowledged
        self._writers: dict[str, list[asyncio.StreamWriter]] = {}
        """By neighbouring domain."""
        self._sent: dict[str, int] = {}
        """By domain, the number of the last frame that was sent."""
        self._acked: dict[str, int] = {}
        """By domain, how much of it was acknowledged last."""
        self._progress: dict[str, tuple[int, float]] = {}
        """By domain, the first number that is not acknowledged, and since when."""
        self._accepted: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        """Where it listens."""

    async def start(self) -> None:
        if self._listen is not None:
            host, port = split_address(self._listen)
            if self._tls is None:
                self._server = await start_server(self._accept, host, port, trust=self._trust)
            else:
                self._server = await asyncio.start_server(self._accept, host, port, ssl=self._tls[0])
            bound = self._server.sockets[0].getsockname()
            self.address = f"{bound[0]}:{bound[1]}"
        for domain, addresses in self._links.items():
            for address in addresses:
                self._start(self._keep_dialling(domain, address))
        self._start(self._keep_trying())

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._accepted:
            writer.close()  # ends the task that serves it
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- links -----------------------------------------------------------------------------------------------------

    async def _keep_dialling(self, domain: str, address: str) -> None:
        host, port = split_address(address)
        while True:
            try:
                if self._tls is None:
                    reader, writer = await open_connection(host, port, trust=self._trust)
                else:
                    reader, writer = await asyncio.open_connection(host, port, ssl=self._tls[1])
                await self._run(reader, writer, domain)
            except OSError:
                pass
            await asyncio.sleep(DIAL_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted.add(writer)
        try:
            await self._run(reader, writer, None)
        finally:
            self._accepted.discard(writer)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wanted: str | None) -> None:
        """One link, from greeting to end."""
        domain = ""
        try:
            if self.is_out:
                return
            writer.write(on_link(LinkHello(self._exports.domain)))
            hello = decode_link(await _read(reader))
            if not isinstance(hello, LinkHello) or hello.domain not in self._exports.outbox:
                return
            if wanted is not None and hello.domain != wanted:
                return
            if self.is_out:
                return
            domain = hello.domain
            self._writers.setdefault(domain, []).append(writer)
            self._sent.clear()  # what was on its way may be lost
            self.flush()
            while True:
                self._take(await _read(reader))
        except (OSError, asyncio.IncompleteReadError, MalformedError, ssl.SSLError):
            return
        finally:
            if writer in self._writers.get(domain, []):
                self._writers[domain].remove(writer)
            writer.close()

    def _take(self, data: bytes) -> None:
        message = decode_link(data)
        if isinstance(message, LinkFrame):
            if message.frame.destination == self._exports.domain:
                self._received(message.frame)
            else:
                frame = message.frame
                number = frame_of(frame).number()
                again = number < self._note_passed(frame.origin, frame.destination, False, number)
                self._pass_on(frame.destination, data, again)
        elif isinstance(message, LinkAck):
            if message.origin == self._exports.domain:
                self._acknowledged(message.destination, message.count)
            else:
                before = self._note_passed(message.origin, message.destination, True, message.count)
                self._pass_on(message.origin, data, message.count <= before)

    def _note_passed(self, origin: str, destination: str, is_ack: bool, number: int) -> int:
        """The number of what was passed on last between these domains; from here on it is this one."""
        if {origin, destination} <= self._exports.outbox.keys():
            before = self._passed.get((origin, destination, is_ack), -1)
            self._passed[origin, destination, is_ack] = number
            return before
        return -1

    def _pass_on(self, domain: str, data: bytes, again: bool) -> None:
        self._write(domain, LENGTH.pack(len(data)) + data, again)

    def _write(self, domain: str, data: bytes, again: bool = False) -> bool:
        """Send towards a domain: by a link to it, or by the domain on the way to it; `again`: by another one than the
        last time, if there are several."""
        writers = self._writers.get(domain) or self._writers.get(self._routes.get(domain, ""), [])
        if again and len(writers) > 1:
            writers.append(writers.pop(0))
        for writer in writers:
            if not writer.is_closing():
                writer.write(data)
                self.bytes_sent += len(data)
                return True
        return False

    # ---- what is to leave ------------------------------------------------------------------------------------------

    def acknowledge(self, origin: str) -> None:
        """Tell a domain how much of it has been imported here."""
        count = self._exports.counters.get((origin, self._exports.domain), 0)
        again = count <= self._acked.get(origin, -1)
        self._acked[origin] = count
        self._write(origin, on_link(LinkAck(origin, self._exports.domain, count)), again)

    def leave(self) -> None:
        """This process is out of its domain: it has no links until it is back."""
        self.is_out = True
        self.rank = 1
        for table in (self._sent, self._progress, self._passed, self._acked):
            table.clear()
        for writers in self._writers.values():
            for writer in writers:
                writer.close()

    def flush(self) -> None:
        """Send what is new in the outbox, as the first relay of the domain."""
        if self.rank == 0:
            for domain in self._exports.outbox:
                self._send(domain)

    def _send(self, domain: str, again: bool = False) -> None:
        frames = self._exports.outbox[domain]
        for frame in frames[:WINDOW]:
            if frame.number() > self._sent.get(domain, 0):
                if not self._write(domain, on_link(LinkFrame(frame_body(frame))), again):
                    return
                again = False
                self._sent[domain] = frame.number()

    async def _keep_trying(self) -> None:
        """Send again what is not acknowledged; later, the more relays of this domain come first."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(RETRY_S)
            for domain, frames in self._exports.outbox.items():
                first = frames[0].number() if frames else 0
                before, since = self._progress.get(domain, (-1, 0.0))
                if first != before:
                    self._progress[domain] = (first, loop.time())
                elif frames and loop.time() - since >= RETRY_S * (1 + self.rank):
                    self._progress[domain] = (first, loop.time())
                    self._sent[domain] = first - 1
                    self._send(domain, again=True)


async def _read(reader: asyncio.StreamReader) -> bytes:
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise MalformedError("length")
    return await reader.readexactly(length)
