"""Connections on the simulated network: bytes in order, both ways, with back-pressure, resets and resending.

Bytes that the fault layers lose are sent again after a while, and what follows waits for them, as with TCP. A program
that is killed resets its connections; where the power went, or while a partition lasts, the other side hears nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from antiphon.testing.host import Program

HIGH_WATER_BYTES: Final = 64 * 1024
"""With more than this unread at the other side, the writer is asked to pause; with half of it, to go on."""
CHUNK_BYTES_MAX: Final = 16 * 1024
RESEND_NS: Final = 200_000_000
RESENDS_MAX: Final = 300
"""After so many the connection is given up."""
END: Final = b""

Address = tuple[str, int]
StreamProtocol = asyncio.Protocol | asyncio.BufferedProtocol


class StreamTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, program: "Program", protocol: StreamProtocol, own: Address, other: Address) -> None:
        super().__init__({"sockname": own, "peername": other})
        self.program = program
        self.protocol = protocol
        self.peer: StreamTransport | None = None
        self._outgoing: deque[bytes] = deque()
        """Chunks that have not arrived; END says that no more will come."""
        self._incoming: deque[bytes] = deque()
        """Chunks that wait because reading is paused."""
        self._unread = 0
        """Bytes written here and not yet handed to the program at the other side."""
        self._flying = False
        self._resends = 0
        self._reading = True
        self._closing = False
        self._lost = False
        self._writing_paused = False
        self._key = program.timeline.number()
        program.at_death[self._key] = self._die

    # ---- writing ---------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.program.touch()
        if self._closing or not self.program.is_alive or not data:
            return
        whole = bytes(data)
        for start in range(0, len(whole), CHUNK_BYTES_MAX):
            self._outgoing.append(whole[start : start + CHUNK_BYTES_MAX])
        self._unread += len(whole)
        if self._unread > HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()
        self._launch()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _launch(self) -> None:
        """Send the next chunk; one is on its way at a time, which keeps them in order."""
        if self._flying or not self._outgoing or self.peer is None:
            return
        timeline, network = self.program.timeline, self.program.network
        self._flying = True
        delay_ns = network.stream_delay_ns(self.program.host, self.peer.program.host)
        if delay_ns is not None:
            self._resends = 0
            timeline.at(timeline.now_ns + delay_ns, self._land)
        elif self._resends < RESENDS_MAX:
            self._resends += 1
            timeline.at(timeline.now_ns + RESEND_NS, self._launch_again)
        else:
            self._lose(TimeoutError("the other side does not acknowledge"))

    def _launch_again(self) -> None:
        self._flying = False
        self._launch()

    def _land(self) -> None:
        self._flying = False
        if not self._outgoing or self.peer is None:
            return
        chunk = self._outgoing.popleft()
        self.peer.arrive(chunk)
        self._launch()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def arrive(self, chunk: bytes) -> None:
        """A chunk is at this end's kernel."""
        if self._lost or not self.program.is_alive:
            if self.peer is not None and not self.peer._lost:
                self.peer._lose(ConnectionResetError("Connection reset by peer"))
            return
        self._incoming.append(chunk)
        if self._reading:
            self.program.loop.call_soon(self._emit)

    def _emit(self) -> None:
        while self._incoming and self._reading and not self._lost:
            chunk = self._incoming.popleft()
            if chunk == END:
                if not self.protocol.eof_received():
                    self.close()
                return
            if self.peer is not None:
                self.peer._was_read(len(chunk))
            self.program.touch()
            if not self.program.is_alive:
                return
            self._give(chunk)

    def _give(self, chunk: bytes) -> None:
        """Hand bytes to the program, into its own buffer if it has one."""
        protocol = self.protocol
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(chunk)
            return
        while chunk:
            space = memoryview(protocol.get_buffer(len(chunk)))
            size = min(len(space), len(chunk))
            space[:size] = chunk[:size]
            chunk = chunk[size:]
            protocol.buffer_updated(size)

    def _was_read(self, size: int) -> None:
        self._unread -= size
        if self._writing_paused and self._unread * 2 <= HIGH_WATER_BYTES and not self._lost:
            self._writing_paused = False
            self.program.loop.call_soon(self.protocol.resume_writing)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._incoming:
            self.program.loop.call_soon(self._emit)

    def is_reading(self) -> bool:
        return self._reading

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closing and self.program.is_alive:
            self._closing = True
            self._outgoing.append(END)
            self._launch()
            self._report_loss(None)

    def abort(self) -> None:
        self._outgoing.clear()
        self._reset_peer()
        self._lose(None)

    def _reset_peer(self) -> None:
        """Tell the other side, if it can be reached now; else it hears when it next sends something."""
        peer = self.peer
        if peer is not None and not peer._lost:
            timeline = self.program.timeline
            delay_ns = self.program.network.stream_delay_ns(self.program.host, peer.program.host)
            if delay_ns is not None:
                reset = partial(peer._lose, ConnectionResetError("Connection reset by peer"))
                timeline.at(timeline.now_ns + delay_ns, reset)

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        self._outgoing.clear()
        self._report_loss(error)

    def _report_loss(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self.program.at_death.pop(self._key, None)
            if self.program.is_alive:
                self.program.loop.call_soon(self.protocol.connection_lost, error)

    def _die(self, power: bool) -> None:
        self._lost = self._closing = True
        self._outgoing.clear()
        if power:
            self._reset_peer()

    # ---- what asyncio asks for -------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are fixed."""

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        self.protocol = protocol


class ListeningSocket:
    """What `Server.sockets` holds: enough to ask where the server listens."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class SimulatedServer(asyncio.AbstractServer):
    """Lets connections in at one port of one host."""

    def __init__(self, program: "Program", protocol_factory: Callable[[], StreamProtocol], address: Address) -> None:
        self.program = program
        self.protocol_factory = protocol_factory
        self.address = address
        self.sockets = (ListeningSocket(address),)
        self._serving = True
        self._key = program.timeline.number()
        program.at_death[self._key] = self._die

    def _die(self, power: bool) -> None:
        self.program.network.stop_listening(self)

    def close(self) -> None:
        if self._serving:
            self._serving = False
            self.sockets = ()  # type: ignore[assignment]
            self.program.at_death.pop(self._key, None)
            self.program.network.stop_listening(self)

    def is_serving(self) -> bool:
        return self._serving

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.program.loop

    async def start_serving(self) -> None:
        """It serves from the start."""

    async def serve_forever(self) -> None:
        await self.program.loop.create_future()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""
