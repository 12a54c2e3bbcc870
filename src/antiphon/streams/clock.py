"""The wall clock, kept from going backwards: the times in a journal never fall, so that watermarks on them are
correct."""

from time import time_ns


class RisingClock:
    """Nanoseconds since 1970; no value is less than the one before."""

    def __init__(self) -> None:
        self._last_ns = 0

    def now_ns(self) -> int:
        self._last_ns = max(self._last_ns, time_ns())
        return self._last_ns
