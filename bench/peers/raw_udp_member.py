"""A limit: bytes by UDP, in datagrams of 1,400 bytes, and nothing else. Its extra argument is `gso` or `plain`.

Messages are not told apart: so many bytes count as so many messages. With `gso` 45 datagrams leave by one system call
and come by one (UDP_SEGMENT, UDP_GRO). A sender may be WINDOW_BYTES ahead of the slowest receiver.
"""

import select
import socket
import sys
from typing import Final

from bench.peers.member import Seat, Tally, take_seat, wait_for_end, wait_for_go

UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
DATAGRAM_BYTES: Final = 1400
BURST_DATAGRAMS: Final = 45
WINDOW_BYTES: Final = {"gso": 700_000, "plain": 350_000}
"""Plain datagrams take more room in a socket's buffer than their bytes."""
ACK_EVERY_BYTES: Final = 128_000
ACK_BYTES: Final = 9
SOCKET_BYTES: Final = 4 * 1024 * 1024
READS_IN_A_ROW: Final = 64
WAIT_S: Final = 10.0


class RawUdp:
    """One member's socket and its windows, in bytes."""

    def __init__(self, seat: Seat) -> None:
        self._gso = seat.extra[0] == "gso"
        self._window = WINDOW_BYTES[seat.extra[0]]
        self._addresses = {("127.0.0.1", seat.ports[other]): other for other in seat.others}
        self._rank = seat.rank
        self._sent = 0
        self._sent_to = dict.fromkeys(seat.others, 0)
        self._came_from = dict.fromkeys(seat.others, 0)
        self._told = dict.fromkeys(seat.others, 0)
        self._unit = DATAGRAM_BYTES * BURST_DATAGRAMS if self._gso else DATAGRAM_BYTES
        self._data = memoryview(bytes(self._unit))
        self._buffer = bytearray(65_536)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        if self._gso:
            self._socket.setsockopt(socket.SOL_UDP, UDP_SEGMENT, DATAGRAM_BYTES)
            self._socket.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
        self._socket.bind(("127.0.0.1", seat.ports[seat.rank]))
        self._socket.setblocking(False)

    def move(self, size: int, count: int, tally: Tally) -> None:
        """Send so many messages' bytes while receiving as many of each other member."""
        limit = self._sent + size * count
        begun = dict(self._came_from)
        messages = dict.fromkeys(begun, 0)
        while self._sent < limit or not tally.is_complete:
            did = False
            while self._sent < limit and self._sent + self._unit - min(self._sent_to.values()) <= self._window:
                self._send(min(self._unit, limit - self._sent))
                did = True
            for _ in range(READS_IN_A_ROW):
                rank = self._receive()
                if rank is None:
                    break
                did = True
                if rank in messages:
                    whole = (self._came_from[rank] - begun[rank]) // size
                    tally.add(whole - messages[rank])
                    messages[rank] = whole
            if not did and not select.select([self._socket], [], [], WAIT_S)[0]:
                raise TimeoutError(f"nothing came for {WAIT_S} s: datagrams were lost, and here nobody recovers them")

    def _send(self, count: int) -> None:
        data = self._data[: max(count, ACK_BYTES + 1)]
        for address in self._addresses:
            self._socket.sendto(data, address)
        self._sent += count

    def _receive(self) -> int | None:
        """Whose datagrams came, or -1 for an acknowledgement; None if there is nothing."""
        try:
            count, address = self._socket.recvfrom_into(self._buffer)
        except BlockingIOError:
            return None
        rank = self._addresses[address]
        if count == ACK_BYTES:
            self._sent_to[rank] = int.from_bytes(self._buffer[:ACK_BYTES], "big")
            return -1
        came = self._came_from[rank] + count
        self._came_from[rank] = came
        if came - self._told[rank] >= ACK_EVERY_BYTES:
            self._told[rank] = came
            self._socket.sendto(came.to_bytes(ACK_BYTES, "big"), address)
        return rank


def main() -> None:
    seat = take_seat(sys.argv[1:])
    raw = RawUdp(seat)
    wait_for_go()
    warmup = Tally(seat, seat.warmup)
    raw.move(seat.size, seat.warmup, warmup)
    wait_for_go(warmup)
    tally = Tally(seat, seat.count)
    raw.move(seat.size, seat.count, tally)
    tally.report()
    wait_for_end()


if __name__ == "__main__":
    main()
