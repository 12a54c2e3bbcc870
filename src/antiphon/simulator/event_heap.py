"""The events to come, in order of time. Hosts that are paused make their events wait.

Of two events at the same time the one that was due first comes first, and of two that were due at the same time the one
that was pushed first. An event that comes while its host is paused is put off until the last of the pauses that overlap
there has ended, so that what was due in a pause happens after it in the order in which it was due.
"""

from heapq import heappop, heappush
from typing import final

Event = tuple[int, int, int, int, int, int, bytes]
"""When it comes, when it was due, its serial number, its host, kind, number and data."""


@final
class EventHeap:
    """All events of a world. Kinds of events up to `last_to_wait` wait while their host is paused."""

    __slots__ = ("_heap", "_last_to_wait", "_pauses", "serial")

    def __init__(self, hosts: int, last_to_wait: int) -> None:
        self._heap: list[Event] = []
        self._last_to_wait = last_to_wait
        self._pauses: list[list[tuple[int, int]]] = [[] for _ in range(hosts)]
        self.serial = 0
        """Of the event that was pushed last."""

    def push(self, at_ns: int, host: int, kind: int, number: int, data: bytes) -> None:
        """Have this event come at its time."""
        self.serial += 1
        heappush(self._heap, (at_ns, at_ns, self.serial, host, kind, number, data))

    def pause(self, host: int, from_ns: int, until_ns: int) -> None:
        """Pause a host, in [from, until)."""
        self._pauses[host].append((from_ns, until_ns))

    def pop(self, until_ns: int) -> Event | None:
        """The next event, if one comes until this time."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            event = heappop(heap)
            pauses = self._pauses[event[3]]
            if not pauses or event[4] > self._last_to_wait:
                return event
            later_ns = resume_ns(pauses, event[0])
            if later_ns == event[0]:
                return event
            heappush(heap, (later_ns, *event[1:]))
        return None


def resume_ns(pauses: list[tuple[int, int]], at_ns: int) -> int:
    """When what is due at `at_ns` can happen: then, or when the last of the pauses that overlap there has ended."""
    moved = True
    while moved:
        moved = False
        for from_ns, until_ns in pauses:
            if from_ns <= at_ns < until_ns:
                at_ns = until_ns
                moved = True
    return at_ns
