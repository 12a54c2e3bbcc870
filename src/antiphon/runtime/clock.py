"""The clock of a process: wall time read once, monotonic time since.

So the times of one process never go backwards, whatever is done to the wall clock, and those of several processes
can be laid side by side as well as their wall clocks agreed when they started.
"""

from time import monotonic_ns, time_ns


class Clock:
    """Nanoseconds since 1970, monotonic."""

    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def now_ns(self) -> int:
        return self._offset_ns + monotonic_ns()
