"""Who has what: the acks of all members, and what follows from them.

A member's `stable` (isis-1991, section 5.3) is the highest number n such that every member has received all of its
packets up to n. It follows from acks alone, and rides on every packet the member sends. A packet is k-stable when k
members have it.

Consumed is more than received: handed to the application. The flow window moves with the slowest consumer, so a
member that does not keep up slows its senders down before anybody's memory fills.
"""

from typing import Final, final

_ALL: Final = 1 << 61
"""What nobody is asked for: in a view of one member, all others have everything."""


@final
class AckTable:
    """For each other member: what it has received, and what it has consumed, of each member."""

    __slots__ = ("_consumed", "_me", "consumed_by_me", "own_consumed", "own_received", "received")

    def __init__(self, members: int, me: int) -> None:
        self._me = me
        self.received: list[list[int]] = [[0] * members for _ in range(members)]
        self._consumed: list[list[int]] = [[0] * members for _ in range(members)]
        self.own_received = self.received_by_others(me, _ALL)
        """How far every other member has received my own packets: asked for at each step, so kept…"""
        self.own_consumed = self.consumed_by_others(me, _ALL)
        """…and how far every other member has consumed them…"""
        self.consumed_by_me = 0
        """…and how far I have."""

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
        if first <= self._me < first + len(received):
            self.own_received = self.received_by_others(self._me, _ALL)
            self.own_consumed = self.consumed_by_others(self._me, _ALL)

    def consumed(self) -> int:
        """How far my own packets have been consumed by every member."""
        return min(self.consumed_by_me, self.own_consumed)

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
