"""The clock of a process: wall time read once, monotonic time since.

So the times of one process never go backwards, whatever is done to the wall clock, and those of several processes
can be laid side by side as well as their wall clocks agreed when they started.
"""

import time

from antiphon.runtime.environment import Environment, current_environment


class Clock:
    """Nanoseconds since 1970, monotonic."""

    def __init__(self) -> None:
        machine = current_environment()
        # Read for every packet: past the environment where it is the machine's own, and past `now_ns`.
        self.monotonic_ns = time.monotonic_ns if type(machine) is Environment else machine.monotonic_ns
        self.offset_ns = machine.time_ns() - machine.monotonic_ns()

    def now_ns(self) -> int:
        return self.offset_ns + self.monotonic_ns()
