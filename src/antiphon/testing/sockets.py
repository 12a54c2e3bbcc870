"""UDP sockets on the simulated network, as far as a node uses them."""

import errno
import socket
import struct
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from antiphon.runtime.address import SocketAddress

if TYPE_CHECKING:
    from antiphon.testing.host import Program

BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
"""What waits to be read; a datagram that finds no room is dropped, as by a kernel."""


class SimulatedSocket:
    """One datagram socket of one program."""

    def __init__(self, program: "Program", family: int) -> None:
        self.program = program
        self.family = family
        self.bound: SocketAddress | None = None
        self._network = program.network
        self._fd = program.timeline.number() + (1 << 40)
        self._waiting: deque[tuple[bytes, SocketAddress]] = deque()
        self._waiting_bytes = 0
        self._closed = False
        program.at_death[self._fd] = self._die

    def _die(self, power: bool) -> None:
        self.close()

    # ---- what the network does -------------------------------------------------------------------------------------

    def arrive(self, data: bytes, source: SocketAddress) -> None:
        """A datagram is here."""
        if not self._closed and self._waiting_bytes + len(data) <= BUFFER_BYTES_MAX:
            self._waiting.append((data, source))
            self._waiting_bytes += len(data)
            self.program.readable[self._fd] = None
            self.program.loop.wake()

    # ---- what a program does ---------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return -1 if self._closed else self._fd

    def setblocking(self, flag: bool) -> None:
        """Nothing here ever blocks."""

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        if level == socket.IPPROTO_IP and option == socket.IP_ADD_MEMBERSHIP:
            assert isinstance(value, bytes)
            group, _ = struct.unpack("4s4s", value)
            self._network.subscribe(self, socket.inet_ntoa(group))

    def getsockopt(self, level: int, option: int) -> int:
        raise OSError(errno.ENOPROTOOPT, "the simulated network takes datagrams one by one")

    def bind(self, address: SocketAddress) -> None:
        self.bound = self._network.bind(self, address)

    def connect(self, address: SocketAddress) -> None:
        """Tells from where datagrams to `address` would leave."""
        if self.bound is None:
            self.bound = (self.program.host.address, 0)

    def getsockname(self) -> SocketAddress:
        return self.bound or ("0.0.0.0", 0)

    def sendto(self, data: bytes, address: SocketAddress) -> int:
        self.program.touch()
        if self.program.is_alive:
            if self._closed:
                raise OSError(errno.EBADF, "the socket is closed")
            self._network.send(self, bytes(data), address)
        return len(data)

    def recvfrom_into(self, buffer: memoryview) -> tuple[int, SocketAddress]:
        data, source = self.recvfrom(len(buffer))
        buffer[: len(data)] = data
        return len(data), source

    def recvfrom(self, size: int) -> tuple[bytes, SocketAddress]:
        self.program.touch()
        if not self._waiting or not self.program.is_alive:
            raise BlockingIOError(errno.EAGAIN, "nothing has come")
        data, source = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        if not self._waiting:
            self.program.readable.pop(self._fd, None)
        return data[:size], source

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            self._network.unbind(self)
            self.program.readable.pop(self._fd, None)
            self.program.at_death.pop(self._fd, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
