"""A bad network by choice: the fault layers of `antiphon.faults` between a node and its real socket.

Each packet meets the layers once per destination, as it leaves. Flights that the layers delay wait in a heap, on one
timer. The fates follow from the seed and the order of packets; what real timing does to that order no seed can fix.
"""

import asyncio
from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

from antiphon.faults import Fault, fly
from antiphon.runtime.address import SocketAddress, join_address
from antiphon.runtime.environment import current_environment
from antiphon.runtime.transport import Transport

FLIGHTS_MAX: Final = 65536
"""Delayed flights in the air; at the limit a further one is lost, as in a network whose buffers are full."""


class FaultyTransport:
    """`below`, seen through the layers `faults`."""

    def __init__(self, below: Transport, *, source: str, faults: Sequence[Fault], random: Random) -> None:
        self._below = below
        self._source = source
        self._faults = list(faults)
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._monotonic_ns = current_environment().monotonic_ns
        self._names: dict[SocketAddress, str] = {}
        self._air: list[tuple[int, int, bytes, SocketAddress]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._launches = 0
        self.flights_lost = 0
        self.flights_duplicated = 0
        self.flights_delayed = 0

    def send(self, packets: list[bytes], destinations: list[SocketAddress]) -> None:
        now_ns = self._monotonic_ns()
        for packet in packets:
            for destination in destinations:
                self._launch(packet, destination, now_ns)
        self._arm(now_ns)

    def _launch(self, packet: bytes, destination: SocketAddress, now_ns: int) -> None:
        name = self._names.get(destination)
        if name is None:
            name = self._names[destination] = join_address(destination)
        flights = fly(self._faults, self._random, now_ns, self._source, name, packet)
        if not flights:
            self.flights_lost += 1
        self.flights_duplicated += max(0, len(flights) - 1)
        for delay_ns, data in flights:
            if delay_ns <= 0:
                self._below.send([data], [destination])
            elif len(self._air) < FLIGHTS_MAX:
                self.flights_delayed += 1
                self._launches += 1  # keeps the heap from ever comparing packets
                heappush(self._air, (now_ns + delay_ns, self._launches, data, destination))
            else:
                self.flights_lost += 1

    def _arm(self, now_ns: int) -> None:
        if not self._air or (self._timer is not None and self._timer_ns <= self._air[0][0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = self._air[0][0]
        self._timer = self._loop.call_later((self._timer_ns - now_ns) / 1e9, self._land)

    def _land(self) -> None:
        self._timer = None
        now_ns = self._monotonic_ns()
        while self._air and self._air[0][0] <= now_ns:
            _, _, data, destination = heappop(self._air)
            self._below.send([data], [destination])
        self._arm(now_ns)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._air.clear()
        self._below.close()

    def statistics(self) -> dict[str, int]:
        return self._below.statistics() | {
            "flights_lost": self.flights_lost,
            "flights_duplicated": self.flights_duplicated,
            "flights_delayed": self.flights_delayed,
        }
