"""Datagrams in and out of one UDP socket, many at a time.

The event loop wakes the reader once for all datagrams that wait, and the reader hands them over as one list: no
callback, task or object per datagram. Sending tries the socket at once; what it does not take waits in a bounded queue.

Where the kernel can (Linux), many datagrams pass through one call. Sent together are datagrams of one length, the last
of which may be shorter, for one destination (UDP_SEGMENT); the reader is given what came in a row from one sender in
one piece, and cuts it up again (UDP_GRO). On the wire they are single datagrams like any others. A network device, or a
path, that will not have them so refuses the call: then they go one by one, and from there on all do.

To be woken up takes longer than to take a datagram in. Whoever has a core to spare may have the reader poll: for some
time after the last datagram it looks again in every turn of the event loop, which does not sleep meanwhile; timers,
tasks and other sockets get their turns as ever. That takes up to a whole core while datagrams come more often than
that, and in an idle group `poll_s` for each datagram.

UDP may lose anything, and the protocol above resends. So nothing here raises for the network's sake: a datagram that
finds the queue full, is longer than any packet, or meets an error of the operating system is dropped and counted.
"""

import asyncio
import errno
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, Protocol

from antiphon.runtime.address import SocketAddress, join_address
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import AddressError

READ_CALLS_MAX: Final = 64
READ_DATAGRAMS_MAX: Final = 256
"""Read per wake-up, by so many calls; then others on the loop get their turn."""
WAKES_BEFORE_MORE: Final = 4
"""Wake-ups with a single datagram each before it is looked whether there are more."""
QUEUE_DATAGRAMS_MAX: Final = 8192
"""Datagrams that wait for the socket; at the limit new ones are dropped and counted."""
SOCKET_BUFFER_BYTES: Final = 8 * 1024 * 1024
"""Asked of the operating system, which may grant less."""
DATAGRAM_BYTES_MAX: Final = 65_507
"""The longest that UDP over IPv4 carries. Data packets are much shorter; what members say about a view may not be."""
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
SEGMENTS_MAX: Final = 64
"""Datagrams that the kernel takes in one call…"""
PIECE_BYTES_MAX: Final = 65_535
"""…and bytes that it gives in one."""
_REFUSALS: Final = (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP, errno.ENOPROTOOPT)
"""What a device or a path answers that does not take several at a time, or not of this size."""
LONG_BYTES: Final = 16_384
RETRY_S: Final = 0.001
"""The network device is out of buffers, which no event announces the end of: look again after this."""


_SEGMENT: Final = Struct("=H")
_SEGMENT_READ: Final = Struct("=i")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_SEGMENT_READ.size) if sys.platform == "linux" else 0


def _give_way() -> None:
    """Let another process have the core, if one waits for it."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


class DatagramRun(NamedTuple):
    """Datagrams that leave by one call: one, or several of which all but the last have `segment` bytes."""

    packets: list[bytes]
    segment: int


def pieces(packets: list[bytes]) -> list[DatagramRun]:
    """These datagrams in their order, in as few calls as may be."""
    result: list[DatagramRun] = []
    start = 0
    while start < len(packets):
        segment = len(packets[start])
        total = segment
        end = start + 1
        while end < len(packets) and end - start < SEGMENTS_MAX:
            size = len(packets[end])
            if size > segment or total + size > DATAGRAM_BYTES_MAX:
                break
            total += size
            end += 1
            if size < segment:
                break
        result.append(DatagramRun(packets[start:end], segment))
        start = end
    return result


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
    sock = current_environment().datagram_socket(family)
    try:
        sock.setblocking(False)
        enlarge(sock, "SO_RCVBUF")
        enlarge(sock, "SO_SNDBUF")
        sock.bind(address)
    except OSError as error:
        sock.close()
        text = join_address(address)
        if error.errno == errno.EADDRINUSE:
            raise AddressError(text, "another program uses this port; choose another, or port 0 for any") from error
        raise AddressError(text, error.strerror or str(error)) from error
    return sock


def enlarge(sock: socket.socket, option: str) -> None:
    """Ask for a large buffer."""
    # The FORCE form passes the system-wide limit but needs a privilege and is Linux's own.
    force = getattr(socket, option + "FORCE", {"SO_RCVBUF": 33, "SO_SNDBUF": 32}[option])
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER_BYTES)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), SOCKET_BUFFER_BYTES)


def _offers_segments(sock: socket.socket) -> bool:
    """Whether the kernel takes and gives several datagrams at a time."""
    if sys.platform != "linux":
        return False
    try:
        sock.getsockopt(socket.SOL_UDP, UDP_SEGMENT)
        sock.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


class UdpTransport:
    """One bound socket on the running event loop, which must have `add_reader` (asyncio's selector loops, uvloop)."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        datagram_bytes_max: int,
        on_datagrams: Callable[[list[bytes]], None],
        poll_s: float = 0.0,
    ) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._datagram_bytes_max = datagram_bytes_max
        # One byte more than a packet may have shows what was cut off; what comes in one piece may be longer.
        self._reads_pieces = _offers_segments(sock)
        self._sends_pieces = self._reads_pieces
        self._buffer = memoryview(bytearray((PIECE_BYTES_MAX if self._reads_pieces else datagram_bytes_max) + 1))
        self._on_datagrams = on_datagrams
        self._queue: deque[tuple[DatagramRun, SocketAddress]] = deque()
        self._queued = 0
        self.sources: list[SocketAddress] = []
        """Where each of the datagrams came from that are being handed over."""
        self._last_bytes = 0
        self._calls = 1
        """How often to read at a wake-up: to find that there is nothing more costs as much as to find some."""
        self._wakes = 0
        """Wake-ups since there was nothing more."""
        self._retry: asyncio.TimerHandle | None = None
        self._poll_s = poll_s
        self._polling = False
        self._poll_until_s = 0.0
        self._polled_s = 0.0
        self._closed = False
        self.datagrams_received = 0
        self.datagrams_sent = 0
        self.datagrams_dropped = 0
        self.datagrams_oversized = 0
        self.socket_errors = 0
        self._loop.add_reader(sock.fileno(), self._read)

    # ---- in --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        datagrams: list[bytes] = []
        self.sources = []
        read = self._read_pieces if self._reads_pieces else self._read_one
        calls = self._calls
        for call in range(calls):
            try:
                read(datagrams)
            except (BlockingIOError, InterruptedError):
                self._calls = max(1, call)
                self._wakes = 0
                break
            except OSError:  # an ICMP answer to something that was sent: the peer is not there now
                self.socket_errors += 1
            if len(datagrams) >= READ_DATAGRAMS_MAX:
                break
        else:
            self._wakes += 1
            if calls > 1 or len(datagrams) > 1 or self._wakes > WAKES_BEFORE_MORE:
                self._calls = min(2 * calls, READ_CALLS_MAX)
        if datagrams:
            self.datagrams_received += len(datagrams)
            self._on_datagrams(datagrams)
            if self._poll_s:
                self._keep_polling()

    def _keep_polling(self) -> None:
        """Poll from now on, for as long as was asked for."""
        self._polled_s = self._loop.time()
        self._poll_until_s = self._polled_s + self._poll_s
        if not self._polling:
            self._polling = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        now_s = self._loop.time()
        # Where time stands still while something is to be done, as in a simulation, nothing comes by waiting.
        if self._closed or now_s >= self._poll_until_s or now_s == self._polled_s:
            self._polling = False
            return
        self._polled_s = now_s
        received = self.datagrams_received
        self._read()
        if self.datagrams_received == received:
            _give_way()
        if not self._closed:
            self._loop.call_soon(self._poll)

    def _read_one(self, datagrams: list[bytes]) -> None:
        size, source = self._sock.recvfrom_into(self._buffer)
        if size < len(self._buffer):
            datagrams.append(bytes(self._buffer[:size]))
            self.sources.append(source)
        else:
            self.datagrams_oversized += 1

    def _read_pieces(self, datagrams: list[bytes]) -> None:
        if self._last_bytes > LONG_BYTES:  # then it is worth the memory to have the kernel write into its own
            data, ancillary, _, source = self._sock.recvmsg(PIECE_BYTES_MAX, _ANCILLARY_BYTES)
        else:
            size, ancillary, _, source = self._sock.recvmsg_into((self._buffer,), _ANCILLARY_BYTES)
            data = bytes(self._buffer[:size])
        self._last_bytes = size = len(data)
        segment = _SEGMENT_READ.unpack(ancillary[0][2])[0] if ancillary else size
        if size <= segment <= self._datagram_bytes_max:
            datagrams.append(data)
            self.sources.append(source)
            return
        for start in range(0, size, segment):
            datagram = data[start : start + segment]
            if len(datagram) <= self._datagram_bytes_max:
                datagrams.append(datagram)
                self.sources.append(source)
            else:
                self.datagrams_oversized += 1

    # ---- out -------------------------------------------------------------------------------------------------------

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        if len(packets) == 1:
            together = [DatagramRun(packets, len(packets[0]))]
        else:
            together = (
                pieces(packets) if self._sends_pieces else [DatagramRun([packet], len(packet)) for packet in packets]
            )
        for piece in together:
            for destination in destinations:
                if self._queue or not self._try(piece, destination):
                    self._wait(piece, destination)

    def _try(self, piece: DatagramRun, destination: SocketAddress) -> bool:
        """False if the socket cannot take it now; then the wake-up is arranged."""
        try:
            if len(piece.packets) == 1:
                self._sock.sendto(piece.packets[0], destination)
            else:
                segment = (socket.SOL_UDP, UDP_SEGMENT, _SEGMENT.pack(piece.segment))
                self._sock.sendmsg(piece.packets, (segment,), 0, destination)
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._sock.fileno(), self._drain)
            return False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                self._loop.remove_writer(self._sock.fileno())
                self._retry = self._loop.call_later(RETRY_S, self._drain)
                return False
            if error.errno in _REFUSALS and len(piece.packets) > 1:
                self._send_apart(piece, destination)
            else:
                self.socket_errors += 1
        else:
            self.datagrams_sent += len(piece.packets)
        return True

    def _send_apart(self, piece: DatagramRun, destination: SocketAddress) -> None:
        """Together they are refused: one by one they go the way of all others."""
        self._sends_pieces = False
        waiting, self._queue = self._queue, deque()
        for packet in piece.packets:
            single = DatagramRun([packet], len(packet))
            if self._queue or not self._try(single, destination):
                self._wait(single, destination)
        self._queue.extend(waiting)

    def _wait(self, piece: DatagramRun, destination: SocketAddress) -> None:
        if self._queued < QUEUE_DATAGRAMS_MAX:
            self._queue.append((piece, destination))
            self._queued += len(piece.packets)
        else:
            self.datagrams_dropped += len(piece.packets)

    def _drain(self) -> None:
        while self._queue:
            piece, destination = self._queue.popleft()
            if not self._try(piece, destination):
                self._queue.appendleft((piece, destination))
                return
            self._queued -= len(piece.packets)
        self._loop.remove_writer(self._sock.fileno())

    def send_multicast_by(self, host: str) -> None:
        """Let multicast leave by the interface with this address, for one hop, and reach this machine too."""
        self._sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        self._sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self._sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))

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
        self._queued = 0
        self._sock.close()

    def statistics(self) -> dict[str, int]:
        return {
            "datagrams_received": self.datagrams_received,
            "datagrams_sent": self.datagrams_sent,
            "datagrams_dropped": self.datagrams_dropped,
            "datagrams_oversized": self.datagrams_oversized,
            "socket_errors": self.socket_errors,
        }
