"""What the clients of ordering services share (services.py): all send, and all read one order, their own messages too.

A client has at most WINDOW messages under way: sent, and not read back. Beside what every member reports stands a
checksum of the order in which it read all messages, which must be the same at all clients. Nothing but the standard
library."""

import time
import zlib
from typing import Final

from bench.peers.member import NUMBERS, Seat, Tally

GROUP: Final = "bench"


class OrderedPhase:
    """What one client has sent and read in one phase."""

    def __init__(self, seat: Seat, count: int, window: int) -> None:
        self.tally = Tally(seat, count)
        self._own = seat.rank
        self._count = count
        self._window = window
        self._payloads = seat.payloads()
        self._checksum = 0
        self.sent = 0
        self.returned = 0

    @property
    def is_done(self) -> bool:
        return self.tally.is_complete and self.returned >= self._count

    def room(self) -> int:
        """How many messages may be sent now."""
        return min(self._count - self.sent, self._window - (self.sent - self.returned))

    def next_payloads(self, count_max: int = 1 << 30) -> list[bytes]:
        """Messages to send now, from the window's room; they count as sent."""
        first, count = self.sent, min(self.room(), count_max)
        self.sent += count
        return [self._payloads[number % NUMBERS] for number in range(first, first + count)]

    def take_run(self, payloads: list[bytes]) -> None:
        """Consecutive messages of one sender."""
        rank = payloads[0][1]
        self._checksum = zlib.crc32(bytes([rank]) * len(payloads), self._checksum)
        if rank == self._own:
            self.returned += len(payloads)
        else:
            self.tally.take(payloads, rank)

    def take(self, payloads: list[bytes]) -> None:
        """Messages of any senders, each of which is looked at."""
        positions = self.tally.positions
        own = self._own
        ranks = bytes([payload[1] for payload in payloads])
        self._checksum = zlib.crc32(ranks, self._checksum)
        for payload in payloads:
            rank = payload[1]
            if payload[0] != positions[rank] % NUMBERS:
                self.tally.wrong += 1
            positions[rank] += 1
        mine = ranks.count(own)
        self.returned += mine
        if len(payloads) > mine:
            self.tally.add(len(payloads) - mine)

    def report(self) -> None:
        self.tally.report(order=self._checksum)


class LatencyPhase:
    """One client alone sends one message at a time, and waits until it reads it back."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = 0.0
        self._seconds: list[float] = []

    def begin(self) -> bool:
        """Whether another message is to be sent."""
        self._begun = time.perf_counter()
        return len(self._seconds) < self._count

    def end(self) -> None:
        self._seconds.append(time.perf_counter() - self._begun)

    def report(self) -> dict[str, float]:
        found = sorted(self._seconds)
        return {"p50_us": found[len(found) // 2] * 1e6, "p99_us": found[int(len(found) * 0.99)] * 1e6}
