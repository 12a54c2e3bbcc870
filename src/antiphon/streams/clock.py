"""The wall clock, held back from going backwards: times in a journal rise, so that watermarks on them are honest."""

from time import time_ns


class RisingClock:
    """Nanoseconds since 1970, never less than before."""

    def __init__(self) -> None:
        self._last_ns = 0

    def now_ns(self) -> int:
        self._last_ns = max(self._last_ns, time_ns())
        return self._last_ns
