"""The network sliding window: how fast a member may send, given what of all members is not acknowledged by all
(transis-1992, 3.3).

The window is the set of nodes with messages, of whatever sender, that are in this member's graph and that not all
members are known to follow. Each member computes it from its own graph. Below half of the limit a member sends at once.
From there on it waits longer and longer after each node, without end at the limit: then it is blocked. A loss, whoever
had it, halves the limit, at most once in `resend_interval_ns`. Nodes that all have acknowledged raise it again: by a
quarter of their number up to half of where something was last lost, and by two for each window full of them from there
on. So senders slow down together before buffers overflow, and further when they have, and feel their way up again;
overload does not lead to ever more losses (tests/stacks/domain/overload.py).

A member may always have its share, limit / members, of nodes of its own in the window: else those that keep the window
full would lock the others out. So a window has fewer than twice the limit.

Silent members. What waits for the acknowledgement of members alone that have not been heard for two heartbeats does not
count, until all that is not acknowledged is REACH times the limit: there is nobody whose buffers it would fill, and it
takes longer to find out whether they are gone than to fill a window. A member that comes back asks for what it lacks.

A window that is stuck is the business of the membership: whoever does not acknowledge is suspected.
"""

from typing import Final, final

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options

_LIMIT_MIN: Final = 8
REACH: Final = 4
"""How many windows are sent, at most, that silent members have not acknowledged."""


def pause_ns(size: int, limit: int, unit_ns: int) -> int:
    """How long to wait after a node that has made the window this long; NEVER: until it is shorter."""
    half = limit // 2
    if size >= limit:
        return NEVER
    if size <= half or limit <= _LIMIT_MIN:  # so few are on their way that there is nothing to spread out
        return 0
    return unit_ns * (size - half) // (limit - size)


@final
class NetworkWindow:
    """When one member may send its next node."""

    __slots__ = ("_grown", "_limit_max", "_limit_min", "_lost_at", "_members", "_shrunk_ns", "_spacing_ns", "_unit_ns",
                 "limit", "next_ns")  # fmt: skip

    def __init__(self, members: int, options: Options) -> None:
        self._members = members
        self._limit_max = options.window_packets
        self._limit_min = min(_LIMIT_MIN, self._limit_max)
        self._unit_ns = options.ack_gap_ns
        self._spacing_ns = options.resend_interval_ns
        self._shrunk_ns = -self._spacing_ns
        self._grown = 0
        self._lost_at = 2 * self._limit_max + 2
        """What the limit was when something was lost; more than it can be, if nothing was."""
        self.limit = self._limit_max
        self.next_ns = 0
        """No node with messages is sent before this."""

    def is_open(self, size: int, own: int, unacknowledged: int, now_ns: int) -> bool:
        """Whether a node may leave, with so many in the window and so many of this member's own, and so many that not
        all have acknowledged, silent members included."""
        if unacknowledged >= REACH * self.limit:
            return False
        if size >= self.limit and own >= max(1, self.limit // self._members):
            return False
        return now_ns >= self.next_ns

    def is_full(self, size: int, unacknowledged: int) -> bool:
        """Whether nothing but an acknowledgement opens the window again, or a share that is not used up."""
        return size >= self.limit or unacknowledged >= REACH * self.limit

    def sent(self, size: int, now_ns: int) -> None:
        """A node has left, and is counted in `size`."""
        wait_ns = pause_ns(size, self.limit, self._unit_ns)
        self.next_ns = now_ns if wait_ns == NEVER else now_ns + wait_ns

    def lost(self, now_ns: int) -> None:
        """Somebody has lost a node."""
        if now_ns >= self._shrunk_ns + self._spacing_ns:
            self._shrunk_ns = now_ns
            self._lost_at = self.limit
            self.limit = max(self._limit_min, self.limit // 2)

    def acknowledged(self, count: int) -> None:
        """So many nodes have left the window."""
        if self.limit < self._limit_max:
            self._grown += count
            step = 4 if self.limit < self._lost_at // 2 else 4 + self.limit // 2
            self.limit = min(self._limit_max, self.limit + self._grown // step)
            self._grown %= step
