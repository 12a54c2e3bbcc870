"""How long a routine of the library waits, and how often it tries again: both are its caller's to choose (3.2.2)."""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import UsageError

GROWTH_MAX: Final = 4
"""Time-outs double at most so many times."""


@final
class RetryTimer:
    """A repeated time-out; each one that passes counts as a try."""

    __slots__ = ("_due_ns", "_timeout_ns", "_tries", "used")

    def __init__(self, tries: int, timeout_ns: int) -> None:
        if tries < 1 or timeout_ns < 1:
            raise UsageError("tries and time-out have to be positive")
        self._tries = tries
        self._timeout_ns = timeout_ns
        self._due_ns = NEVER
        self.used = 0
        """Tries that have passed without success."""

    def begin(self, now_ns: int) -> None:
        """Start the time-out, with all tries left."""
        self.used = 0
        self._due_ns = now_ns + self._timeout_ns

    def end(self) -> None:
        """Stop the time-out."""
        self.used = 0
        self._due_ns = NEVER

    def rest(self) -> None:
        """Stop the time-out, but keep the count of tries."""
        self._due_ns = NEVER

    def is_waiting(self) -> bool:
        return self._due_ns != NEVER

    def is_exhausted(self) -> bool:
        return self.used >= self._tries

    def has_passed(self, now_ns: int) -> bool:
        """Return whether a time-out has passed; if so, count it and start the next."""
        if now_ns < self._due_ns:
            return False
        self.used += 1
        self._due_ns = now_ns + (self._timeout_ns << min(self.used, GROWTH_MAX))
        return True

    def deadline_ns(self) -> int:
        return self._due_ns
