"""Virtual time: one heap of events for all programs of a simulation.

Time is an integer number of nanoseconds from 0. It moves only from one event to the next, so an hour in which nothing
happens costs nothing. Events of one instant happen in the order in which they were put in; with one seeded generator
for all chances, a seed and a program make one trace.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final

EVENTS_MAX: Final = 2_000_000
"""A simulation with more events than this is taken to go round in circles."""


class Timeline:
    """The events to come."""

    def __init__(self, seed: int) -> None:
        self.now_ns = 0
        self.seed = seed
        self.random = Random(seed)
        self.events = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call this at `time_ns`, or now if that is past."""
        self._count += 1
        heappush(self._heap, (max(time_ns, self.now_ns), self._count, call))

    def number(self) -> int:
        """A number that was not given out before."""
        self._count += 1
        return self._count

    def run(self, until_ns: int, is_over: Callable[[], bool]) -> None:
        """Let everything happen up to and including `until_ns`, or until `is_over`."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns and not is_over():
            self.now_ns, _, call = heappop(heap)
            self.events += 1
            assert self.events <= EVENTS_MAX, f"{EVENTS_MAX} events in {self.now_ns / 1e9:.3f} s of virtual time"
            call()
        if not is_over():
            self.now_ns = max(self.now_ns, until_ns)
