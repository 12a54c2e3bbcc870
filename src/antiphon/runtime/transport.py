"""Datagrams in and out of one UDP socket, many at a time.

The event loop wakes the reader once for all datagrams that wait, and the reader hands them over as one list: no
callback, task or object per datagram. Sending tries the socket at once; what it does not take waits in a bounded queue.

UDP may lose anything, and the protocol above resends. So nothing here raises for the network's sake: a datagram that
finds the queue full, is longer than any packet, or meets an error of the operating system is dropped and counted.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from antiphon.runtime.address import SocketAddress, join_address
from antiphon.runtime.errors import AddressError

READ_DATAGRAMS_MAX: Final = 64
"""Read per wake-up; then others on the loop get their turn."""
QUEUE_DATAGRAMS_MAX: Final = 8192
"""Datagrams that wait for the socket; at the limit new ones are dropped and counted."""
SOCKET_BUFFER_BYTES: Final = 8 * 1024 * 1024
"""Asked of the operating system, which may grant less."""
DATAGRAM_BYTES_MAX: Final = 65_507
"""The longest that UDP over IPv4 carries. Data packets are much shorter; what members say about a view may not be."""
RETRY_S: Final = 0.001
"""The network device is out of buffers, which no event announces the end of: look again after this."""


class Transport(Protocol):
    """The way down from a node: the socket itself, or a filter above it."""

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        """Each packet to each destination, as soon as can be."""

    def close(self) -> None:
        """Send nothing more and let go of everything."""

    def statistics(self) -> dict[str, int]:
        """Counters since the start."""


def bind(family: int, address: SocketAddress) -> socket.socket:
    """A non-blocking UDP socket with large buffers, bound to `address`."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        _enlarge(sock, "SO_RCVBUF")
        _enlarge(sock, "SO_SNDBUF")
        sock.bind(address)
    except OSError as error:
        sock.close()
        text = join_address(address)
        if error.errno == errno.EADDRINUSE:
            raise AddressError(text, "another program uses this port; choose another, or port 0 for any") from error
        raise AddressError(text, error.strerror or str(error)) from error
    return sock


def _enlarge(sock: socket.socket, option: str) -> None:
    # The FORCE form passes the system-wide limit but needs a privilege and is Linux's own.
    force = getattr(socket, option + "FORCE", {"SO_RCVBUF": 33, "SO_SNDBUF": 32}[option])
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER_BYTES)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), SOCKET_BUFFER_BYTES)


class UdpTransport:
    """One bound socket on the running event loop, which must have `add_reader` (asyncio's selector loops, uvloop)."""

    def __init__(
        self, sock: socket.socket, *, datagram_bytes_max: int, on_datagrams: Callable[[list[bytes]], None]
    ) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        # One byte more than a packet may have shows what was cut off.
        self._buffer = memoryview(bytearray(datagram_bytes_max + 1))
        self._on_datagrams = on_datagrams
        self._queue: deque[tuple[bytes, SocketAddress]] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self.datagrams_received = 0
        self.datagrams_sent = 0
        self.datagrams_dropped = 0
        self.datagrams_oversized = 0
        self.socket_errors = 0
        self._loop.add_reader(sock.fileno(), self._read)

    def _read(self) -> None:
        recv_into = self._sock.recv_into
        buffer = self._buffer
        datagrams: list[bytes] = []
        for _ in range(READ_DATAGRAMS_MAX):
            try:
                size = recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # an ICMP answer to something that was sent: the peer is not there now
                self.socket_errors += 1
                continue
            if size < len(buffer):
                datagrams.append(bytes(buffer[:size]))
            else:
                self.datagrams_oversized += 1
        if datagrams:
            self.datagrams_received += len(datagrams)
            self._on_datagrams(datagrams)

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        for packet in packets:
            for destination in destinations:
                if self._queue or not self._try(packet, destination):
                    self._wait(packet, destination)

    def _try(self, packet: bytes, destination: SocketAddress) -> bool:
        """False if the socket cannot take it now; then the wake-up is arranged."""
        try:
            self._sock.sendto(packet, destination)
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._sock.fileno(), self._drain)
            return False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                self._loop.remove_writer(self._sock.fileno())
                self._retry = self._loop.call_later(RETRY_S, self._drain)
                return False
            self.socket_errors += 1
        else:
            self.datagrams_sent += 1
        return True

    def _wait(self, packet: bytes, destination: SocketAddress) -> None:
        if len(self._queue) < QUEUE_DATAGRAMS_MAX:
            self._queue.append((packet, destination))
        else:
            self.datagrams_dropped += 1

    def _drain(self) -> None:
        while self._queue:
            packet, destination = self._queue[0]
            if not self._try(packet, destination):
                return
            self._queue.popleft()
        self._loop.remove_writer(self._sock.fileno())

    def close(self) -> None:
        """Idempotent. What still waits is dropped: whoever cares for it has waited for the acknowledgements."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        if self._retry is not None:
            self._retry.cancel()
        self._queue.clear()
        self._sock.close()

    def statistics(self) -> dict[str, int]:
        return {
            "datagrams_received": self.datagrams_received,
            "datagrams_sent": self.datagrams_sent,
            "datagrams_dropped": self.datagrams_dropped,
            "datagrams_oversized": self.datagrams_oversized,
            "socket_errors": self.socket_errors,
        }
