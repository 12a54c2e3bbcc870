"""Rows of a feed: messages that come from a stream outside the group and are to be seen exactly once, whatever fails.

    feeds = Feeds()
    async for event in group:
        match feeds.take(event):
            case None: continue                      # a repeated row
            case Message(payload=row): ...

A feed numbers its rows 1, 2, 3… and multicasts them in that order, at level `fifo` or above. When the process that does
so, the feeder, fails, its next incarnation begins again at the first row that is not known to be at all members. So
some rows may be delivered twice. A row is a repetition if its number is not above that of the last row of its feed.

Why that is exact. Within one incarnation rows are delivered in order, by fifo. A feeder sends nothing before it is in a
view without its earlier incarnations; after such a view no member delivers anything of those any more, and all members
that go into it have delivered the same rows of them. So each member delivers a sequence of rows of the earlier
incarnation, without gaps, then one of the next, also without gaps, which begins at or before the end of the first. The
rows with numbers above the last are each row once, in order.

A member that gives its state to joiners includes `positions`, and the joiner makes its Feeds from them: like the state,
they depend only on what was delivered. A joiner without state begins with the first row that it delivers.

Limit: FEEDS_MAX feeds, of which the one that has been quiet for longest is forgotten first.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeVar

from antiphon import Barrier, Excluded, Message, Question, Stalled, TransitionalView, ViewChange

FEEDS_MAX: Final = 16_384
MAGIC: Final = b"antifeed"
HEADER: Final = struct.Struct(">8s16sQ")

E = TypeVar("E", Message, ViewChange, Barrier, Stalled, Excluded, TransitionalView, Question)


def encode_row(feed: str, number: int, row: bytes) -> bytes:
    """Return the payload that carries a row; `feed` is 32 hexadecimal digits."""
    return HEADER.pack(MAGIC, bytes.fromhex(feed), number) + row


def decode_row(payload: bytes) -> tuple[str, int, bytes] | None:
    """Return feed, number and row; None if the payload carries no row of a feed."""
    if not payload.startswith(MAGIC) or len(payload) < HEADER.size:
        return None
    _, feed, number = HEADER.unpack_from(payload)
    return feed.hex(), number, payload[HEADER.size :]


class Feeds:
    """The rows that one member has delivered, by feed."""

    def __init__(self, positions: Mapping[str, int] | None = None) -> None:
        self.positions: dict[str, int] = dict(positions or {})
        """For each feed, the number of its last row."""

    def __repr__(self) -> str:
        return f"Feeds(positions={self.positions!r})"

    def is_new(self, feed: str, number: int) -> bool:
        """Note a row; return whether it is new, not a repetition."""
        if number <= self.positions.get(feed, 0):
            return False
        self.positions.pop(feed, None)  # moves to the end, as the most recent one
        self.positions[feed] = number
        if len(self.positions) > FEEDS_MAX:
            del self.positions[next(iter(self.positions))]
        return True

    def take(self, event: E) -> E | None:
        """Return the event without the header of a row; None for a row that is repeated."""
        if not isinstance(event, Message):
            return event
        found = decode_row(event.payload)
        if found is None:
            return event
        feed, number, row = found
        return event.with_payload(row) if self.is_new(feed, number) else None
