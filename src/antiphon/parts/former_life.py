"""Whether a process that is in a view has been in it before, under the same identity, and has forgotten it.

A process that begins again with the same incarnation lacks what its former life acknowledged and sent. The others have
let go of those packets, so it can never catch up, and a view with it among its members can never end. It has to go.

Rule. A packet of another member *contradicts* this process if it speaks of a packet that this process should have
sent, or of an ack that it should have given, and it has not. A status *fits* if it says what it has of this process,
and contradicts nothing. If one of the other members contradicts for `patience_ns`, in three packets or more, and no
status of it fits meanwhile, this process was here before. Each member is judged by itself: to one that has received
nothing from the former life, and whose packets the former life never acknowledged, everything fits.

Safe: nothing contradicts a process that has not begun again. A packet speaks of acks and packets that came from this
process in this view, and what a process has received and sent in a view only grows. So copies, and packets that come
late or out of order, fit as well. Forged packets do no harm as long as their alleged sender is heard: each heartbeat of
it fits.

Live: in each status, a member repeats how far its packets are known to be held by all, and what it has of the others'.
What the former life did is in both, since neither ever falls.
"""

from typing import Final, final

_CONTRADICTIONS_MIN: Final = 3


@final
class FormerLife:
    """What one member is told of its former life in one view, by the ranks of those that tell it."""

    __slots__ = ("_contradictions", "_patience_ns", "_since_ns", "_told")

    def __init__(self, members: int, patience_ns: int) -> None:
        self._patience_ns = patience_ns
        self._contradictions = [0] * members
        """How many packets contradicted since the last status that fitted…"""
        self._since_ns = [-1] * members
        """…and since when, as far as `is_certain` has seen; -1: not yet."""
        self._told = False
        """Whether there is any."""

    def contradicts(self, rank: int) -> None:
        """A packet of the member with this rank contradicts this process."""
        self._contradictions[rank] += 1
        self._told = True

    def fits(self, rank: int) -> None:
        """A status of the member with this rank fits."""
        if self._told:
            self._contradictions[rank] = 0
            self._since_ns[rank] = -1
            self._told = any(self._contradictions)

    def is_certain(self, now_ns: int) -> bool:
        """Whether this process was in the view before. To be asked again and again."""
        if not self._told:
            return False
        for rank, count in enumerate(self._contradictions):
            if count and self._since_ns[rank] < 0:
                self._since_ns[rank] = now_ns
            elif count >= _CONTRADICTIONS_MIN and now_ns >= self._since_ns[rank] + self._patience_ns:
                return True
        return False
