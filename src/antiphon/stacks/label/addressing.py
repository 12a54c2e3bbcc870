"""Destinations that are found when a broadcast leaves, not when it is handed in: the view may have changed between."""

from antiphon.kernel.identity import ProcessId


class Addressing:
    """Whoever knows which members of a view some destinations stand for."""

    __slots__ = ()

    def find(self, destinations: tuple[ProcessId, ...]) -> tuple[ProcessId, ...]:
        """The members that a broadcast to these goes to, in the view that has just been installed."""
        raise NotImplementedError
