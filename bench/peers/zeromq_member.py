"""A member of a ZeroMQ mesh: one PUB socket, one SUB socket that hears all others, as a Python program would have it.

Nothing is dropped (XPUB_NODROP, and high-water marks that senders wait at). Messages are copied, as is the default:
without, it was no faster at 1,000 bytes nor at 16 KiB.
One thread sends what the socket takes and reads what is there: a thread for each was no faster when tried.
The extra argument is `tcp` or the directory for `ipc` sockets.
"""

import sys
from typing import Final

import zmq

from bench.peers.member import NUMBERS, Seat, Tally, take_seat, wait_for_end, wait_for_go

HIGH_WATER: Final = 100_000
HIGH_WATER_BYTES: Final = 64 * 1024 * 1024
BURST: Final = 256
WAIT_MS: Final = 10_000


def endpoint(seat: Seat, rank: int) -> str:
    [way] = seat.extra
    return f"tcp://127.0.0.1:{seat.ports[rank]}" if way == "tcp" else f"ipc://{way}/{seat.ports[rank]}"


class Mesh:
    """One member's two sockets."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._context = zmq.Context()
        high_water = max(1000, min(HIGH_WATER, HIGH_WATER_BYTES // seat.size))
        self._out = self._context.socket(zmq.XPUB)
        self._out.setsockopt(zmq.XPUB_NODROP, 1)
        self._out.setsockopt(zmq.XPUB_VERBOSE, 1)  # tell of every subscriber
        self._out.set_hwm(high_water)
        self._out.bind(endpoint(seat, seat.rank))
        self._in = self._context.socket(zmq.SUB)
        self._in.set_hwm(high_water)
        self._in.setsockopt(zmq.SUBSCRIBE, b"")
        self._poller = zmq.Poller()
        self._poller.register(self._in, zmq.POLLIN)

    def connect(self) -> None:
        """Hear all others, and wait until all others hear this one."""
        for rank in self._seat.others:
            self._in.connect(endpoint(self._seat, rank))
        for _ in self._seat.others:
            if not self._out.poll(WAIT_MS):
                raise TimeoutError("not all members subscribed")
            self._out.recv()

    def move(self, count: int, tally: Tally) -> None:
        payloads = self._seat.payloads()
        sent = 0
        while sent < count or not tally.is_complete:
            before = sent
            if sent < count:
                sent = self._send_burst(payloads, sent, min(sent + BURST, count))
            if not self._read(tally) and sent == before:
                # A socket that is full for one subscriber does not tell when it has room: look again soon.
                self._poller.poll(1 if sent < count else WAIT_MS)

    def _send_burst(self, payloads: list[bytes], sent: int, end: int) -> int:
        send = self._out.send
        try:
            for number in range(sent, end):
                send(payloads[number % NUMBERS], zmq.NOBLOCK)
        except zmq.Again:
            return number
        return end

    def _read(self, tally: Tally) -> int:
        """All that is there; how many messages."""
        receive = self._in.recv
        positions = tally.positions
        count = wrong = 0
        try:
            while True:
                payload = receive(zmq.NOBLOCK)
                rank = payload[1]
                position = positions[rank]
                if payload[0] != position % NUMBERS:
                    wrong += 1
                positions[rank] = position + 1
                count += 1
        except zmq.Again:
            pass
        tally.wrong += wrong
        tally.add(count)
        return count


def main() -> None:
    seat = take_seat(sys.argv[1:])
    mesh = Mesh(seat)
    wait_for_go()
    mesh.connect()
    warmup = Tally(seat, seat.warmup)
    mesh.move(seat.warmup, warmup)
    wait_for_go(warmup)
    tally = Tally(seat, seat.count)
    mesh.move(seat.count, tally)
    tally.report()
    wait_for_end()


if __name__ == "__main__":
    main()
