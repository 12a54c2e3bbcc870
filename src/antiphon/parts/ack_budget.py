"""How often acks may leave by themselves: a few at once, then one in a while.

In an idle group an ack that somebody waits for leaves at once, or every message would wait for a timer. Under load acks
ride on data, and those that do not are held back here, so that many packets are acknowledged by one: after a rest
AT_ONCE acks may follow each other at any pace. In the long run there are four per `ack_gap_ns` in a small group, where
messages that answer each other are hardly ever further apart than that; in a larger one so many that each member hears
of at most four per `ack_gap_ns` from all others together.
"""

from typing import Final, final

AT_ONCE: Final = 8
_FEW: Final = 5
"""The members of a small group."""


@final
class AckBudget:
    """Says when the next ack may leave by itself."""

    __slots__ = ("_gap_ns", "next_ns")

    def __init__(self, ack_gap_ns: int, members: int) -> None:
        self._gap_ns = ack_gap_ns * (1 if members <= _FEW else members - 1) // 4
        self.next_ns = -AT_ONCE * self._gap_ns
        """When the next one may leave; in the past, if some have been saved up."""

    def spend(self, now_ns: int) -> None:
        """One has left."""
        self.next_ns = max(self.next_ns, now_ns - AT_ONCE * self._gap_ns) + self._gap_ns
