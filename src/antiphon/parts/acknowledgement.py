"""Who has what: the acks of all members, and what follows from them.

A member's `stable` (isis-1991, section 5.3) is the highest number n such that every member has received all of its
packets up to n. It follows from acks alone, and rides on every packet the member sends. A packet is k-stable when k
members have it.

Consumed is more than received: handed to the application. The flow window moves with the slowest consumer, so a
member that does not keep up slows its senders down before anybody's memory fills.
"""

from typing import final


@final
class AckTable:
    """For each member: what it has received of each member, and what it has consumed of mine."""

    __slots__ = ("_consumed", "_me", "received")

    def __init__(self, members: int, me: int) -> None:
        self._me = me
        self.received: list[list[int]] = [[0] * members for _ in range(members)]
        self._consumed: list[int] = [0] * members

    def note(self, member: int, first: int, received: list[int], lags: list[int]) -> None:
        """Take in an ack. Acks may come late and out of order: numbers only ever rise."""
        row = self.received[member]
        for offset in range(len(received)):
            number = received[offset]
            rank = first + offset
            if number > row[rank]:
                row[rank] = number
            if rank == self._me and number - lags[offset] > self._consumed[member]:
                self._consumed[member] = number - lags[offset]

    def note_sent(self, number: int) -> None:
        """I have sent, and so hold, my own packets up to here."""
        self.received[self._me][self._me] = number

    def note_consumed(self, number: int) -> None:
        """I have consumed my own packets up to here."""
        self._consumed[self._me] = number

    def stable(self) -> int:
        """How far my own packets have been received by every member."""
        least = self.received[0][self._me]
        for row in self.received:
            if row[self._me] < least:
                least = row[self._me]
        return least

    def consumed(self) -> int:
        """How far my own packets have been consumed by every member."""
        return min(self._consumed)

    def holders(self, stream: int, number: int) -> list[int]:
        """The other members that hold this packet of `stream`, by rank."""
        return [rank for rank, row in enumerate(self.received) if rank != self._me and row[stream] >= number]
