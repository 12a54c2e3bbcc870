"""A limit: bytes by TCP, one connection between each two members, and nothing else.

Messages are not told apart: so many bytes count as so many messages.
"""

import selectors
import socket
import sys
from typing import Final

from bench.peers.member import Seat, Tally, take_seat, wait_for_end, wait_for_go

CHUNK_BYTES: Final = 256 * 1024
WAIT_S: Final = 10.0


def connect(seat: Seat, listener: socket.socket) -> dict[int, socket.socket]:
    """A connection to each other member: to those before this one, from those after it."""
    connections = {}
    for rank in range(seat.rank):
        connection = socket.create_connection(("127.0.0.1", seat.ports[rank]), WAIT_S)
        connection.sendall(bytes((seat.rank,)))
        connections[rank] = connection
    for _ in range(seat.rank + 1, seat.members):
        connection, _ = listener.accept()
        connections[connection.recv(1)[0]] = connection
    for connection in connections.values():
        connection.setblocking(False)
    return connections


class RawTcp:
    """One member's connections."""

    def __init__(self, connections: dict[int, socket.socket]) -> None:
        self._connections = connections
        self._selector = selectors.EpollSelector()
        self._data = memoryview(bytes(CHUNK_BYTES))
        self._buffer = bytearray(CHUNK_BYTES)
        for rank, connection in connections.items():
            self._selector.register(connection, selectors.EVENT_READ, rank)

    def move(self, size: int, count: int, tally: Tally) -> None:
        """Send so many messages' bytes to each other member while receiving as many of each."""
        self._left = dict.fromkeys(self._connections, size * count)
        came = dict.fromkeys(self._connections, 0)
        for rank, connection in self._connections.items():
            self._selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, rank)
        while any(self._left.values()) or not tally.is_complete:
            ready = self._selector.select(WAIT_S)
            if not ready:
                raise TimeoutError(f"no connection moved for {WAIT_S} s")
            for key, events in ready:
                rank = key.data
                if events & selectors.EVENT_WRITE:
                    self._send(rank)
                if events & selectors.EVENT_READ:
                    before = came[rank]
                    came[rank] = before + self._connections[rank].recv_into(self._buffer)
                    tally.add(came[rank] // size - before // size)

    def _send(self, rank: int) -> None:
        connection = self._connections[rank]
        self._left[rank] -= connection.send(self._data[: self._left[rank]])
        if not self._left[rank]:
            self._selector.modify(connection, selectors.EVENT_READ, rank)


def main() -> None:
    seat = take_seat(sys.argv[1:])
    listener = socket.create_server(("127.0.0.1", seat.ports[seat.rank]), reuse_port=False)
    listener.settimeout(WAIT_S)
    wait_for_go()
    raw = RawTcp(connect(seat, listener))
    warmup = Tally(seat, seat.warmup)
    raw.move(seat.size, seat.warmup, warmup)
    wait_for_go(warmup)
    tally = Tally(seat, seat.count)
    raw.move(seat.size, seat.count, tally)
    tally.report()
    wait_for_end()


if __name__ == "__main__":
    main()
