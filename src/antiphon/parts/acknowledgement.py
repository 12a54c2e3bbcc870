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
    """For each member: what it has received, and what it has consumed, of each member."""

    __slots__ = ("_consumed", "_me", "received")

    def __init__(self, members: int, me: int) -> None:
        self._me = me
        self.received: list[list[int]] = [[0] * members for _ in range(members)]
        self._consumed: list[list[int]] = [[0] * members for _ in range(members)]

    def note(self, member: int, first: int, received: list[int], lags: list[int]) -> None:
        """Take in an ack. Acks may come late and out of order: numbers only ever rise."""
        row = self.received[member]
        consumed = self._consumed[member]
        for offset in range(len(received)):
            number = received[offset]
            rank = first + offset
            if number > row[rank]:
                row[rank] = number
            number -= lags[offset]
            if number > consumed[rank]:
                consumed[rank] = number

    def note_sent(self, number: int) -> None:
        """I have sent, and so hold, my own packets up to here."""
        self.received[self._me][self._me] = number

    def note_consumed(self, number: int) -> None:
        """I have consumed my own packets up to here."""
        self._consumed[self._me][self._me] = number

    def own_consumed(self) -> int:
        """How far I have consumed my own packets."""
        return self._consumed[self._me][self._me]

    def stable(self) -> int:
        """How far my own packets have been received by every member."""
        return self.received_by_others(self._me, self.received[self._me][self._me])

    def consumed(self) -> int:
        """How far my own packets have been consumed by every member."""
        return self.consumed_by_others(self._me, self._consumed[self._me][self._me])

    def received_by_others(self, stream: int, mine: int) -> int:
        """How far every member has received the packets of `stream`, given how far I have. Who sent them has them."""
        least = mine
        for rank, row in enumerate(self.received):
            if row[stream] < least and rank not in (self._me, stream):
                least = row[stream]
        return least

    def consumed_by_others(self, stream: int, mine: int) -> int:
        """How far every member has consumed the packets of `stream`, given how far I have."""
        least = mine
        for rank, row in enumerate(self._consumed):
            if row[stream] < least and rank != self._me:
                least = row[stream]
        return least

    def copies(self, stream: int, number: int) -> int:
        """How many members other than its sender and me are known to hold this packet of `stream`."""
        count = 0
        for rank, row in enumerate(self.received):
            if row[stream] >= number and rank not in (self._me, stream):
                count += 1
        return count

    def holders(self, stream: int, number: int) -> list[int]:
        """The other members that hold this packet of `stream`, by rank."""
        return [rank for rank, row in enumerate(self.received) if rank != self._me and row[stream] >= number]
