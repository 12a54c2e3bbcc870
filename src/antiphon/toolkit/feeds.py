"""Rows of a feed: messages that come from a stream outside the group, each to be seen once, whatever fails on the way.

    feeds = Feeds()
    async for event in group:
        match feeds.take(event):
            case None: continue                      # a row that was here before
            case Message(payload=row): ...

A feed numbers its rows 1, 2, 3… and multicasts them in that order, at level `fifo` or above. When the process that does
so, the feeder, fails, its next incarnation begins again at the first row that is not known to be at all members. So
some rows may come twice, and this is how they are told: a row that is not above the last of its feed was here before.

Why that is exact. Within one incarnation rows arrive in order, by fifo. A feeder sends nothing before it is in a view
without its former incarnations, and after such a view nothing of those is delivered any more, anywhere; all members
that go into it have delivered the same of them. So at each member comes a run of rows from the former incarnation,
without gaps, then a run from the next, which begins at or before the end of the first, without gaps. The rows that are
above the last are each row once, in order.

A member that keeps a state and gives it to joiners gives `positions` with it, and the joiner makes its Feeds of these:
they are as much a function of what was delivered as the state is. A joiner without state begins with the first row that
it sees.

Limit: FEEDS_MAX feeds, where the one that has been quiet for longest is forgotten.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeVar

from antiphon import Barrier, Excluded, Message, Stalled, ViewChange

FEEDS_MAX: Final = 16_384
MAGIC: Final = b"antifeed"
HEADER: Final = struct.Struct(">8s16sQ")

E = TypeVar("E", Message, ViewChange, Barrier, Stalled, Excluded)


def encode_row(feed: str, number: int, row: bytes) -> bytes:
    """The payload that carries a row; `feed` is 32 hexadecimal digits."""
    return HEADER.pack(MAGIC, bytes.fromhex(feed), number) + row


def decode_row(payload: bytes) -> tuple[str, int, bytes] | None:
    """Feed, number and row; None if the payload carries no row of a feed."""
    if not payload.startswith(MAGIC) or len(payload) < HEADER.size:
        return None
    _, feed, number = HEADER.unpack_from(payload)
    return feed.hex(), number, payload[HEADER.size :]


class Feeds:
    """What one member has seen of each feed."""

    def __init__(self, positions: Mapping[str, int] | None = None) -> None:
        self.positions: dict[str, int] = dict(positions or {})
        """Of each feed, the number of the last row."""

    def is_new(self, feed: str, number: int) -> bool:
        """A row comes; whether it was not here before."""
        if number <= self.positions.get(feed, 0):
            return False
        self.positions.pop(feed, None)  # to the end: it has been quiet for the shortest time
        self.positions[feed] = number
        if len(self.positions) > FEEDS_MAX:
            del self.positions[next(iter(self.positions))]
        return True

    def take(self, event: E) -> E | None:
        """The event as the application wants it: rows without their header, repeated ones not at all."""
        if not isinstance(event, Message):
            return event
        found = decode_row(event.payload)
        if found is None:
            return event
        feed, number, row = found
        return event.with_payload(row) if self.is_new(feed, number) else None
