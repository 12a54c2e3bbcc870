"""A listener: a member that only reads, and writes all that it is handed into a journal.

Reading and writing overlap: while one append is synced to disk, the rows read meanwhile are collected for the next. So
a fast group costs few syncs, and a row of a slow group is on disk at once. At most PENDING_ROWS or PENDING_BYTES are
collected; then nothing more is read, the group's queue fills, and the senders wait: the group is slowed down to what
the disk takes, and nothing is dropped.

A listener that is not a member misses what the group delivers meanwhile. So each time it joins again, after it was
killed or excluded, a row of kind `gap` is written before its first view.
"""

import asyncio
from typing import Final

import pyarrow.compute as pc

from antiphon import Barrier, Batch, ClosedError, Excluded, Group, Question, Stalled, TransitionalView, ViewChange
from antiphon.history.journal import BARRIER, FRAME_BYTES, GAP, MESSAGE, STALLED, VIEW, JournalReader, JournalRow
from antiphon.history.journal_writer import JournalWriter
from antiphon.streams.clock import RisingClock
from antiphon.streams.membership import StreamPlace, member
from antiphon.toolkit.feeds import Feeds, decode_row

PENDING_ROWS: Final = 65_536
PENDING_BYTES: Final = 8 * FRAME_BYTES
FRAME_ROWS: Final = 8_192

GroupEvent = Batch | ViewChange | Barrier | Stalled | Excluded | TransitionalView | Question


class Listener:
    """Writes all that a group delivers into a journal, until it is stopped."""

    def __init__(self, journal: JournalWriter, place: StreamPlace) -> None:
        self._journal = journal
        self._place = place
        self._clock = RisingClock()
        self._feeds = Feeds(_positions(JournalReader(journal.directory), journal.end))
        self._was_away = journal.end > 0
        self._name = ""
        self._pending: list[JournalRow] = []
        self._pending_bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_over = False
        """Nothing more will be read."""

    @property
    def offset(self) -> int:
        """How many rows are on disk."""
        return self._journal.end

    def stop(self) -> None:
        """Leave the group, and write what was read by then."""
        self._stopping.set()

    async def run(self) -> None:
        """Join, read, write, and join again when excluded, until `stop`. Raises if it cannot join or cannot write."""
        writing = asyncio.create_task(self._write())
        try:
            while not self._stopping.is_set() and not writing.done():
                async with member(self._place, self._journal.next_incarnation) as group:
                    self._name = group.process.full
                    await self._live(group, writing)
        finally:
            self._is_over = True
            self._arrived.set()
            await writing

    async def _live(self, group: Group, writing: asyncio.Task[None]) -> None:
        """Read as one incarnation, until it is no longer a member, `stop` is called, or writing fails."""
        reading = asyncio.create_task(self._read(group))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((reading, stopping, writing), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done() and not reading.done():
                await group.leave()
        finally:
            stopping.cancel()
            if self._stopping.is_set() and not writing.done():
                await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            await asyncio.gather(reading, stopping, return_exceptions=True)

    async def _read(self, group: Group) -> None:
        try:
            async for event in group.batches():
                while len(self._pending) >= PENDING_ROWS or self._pending_bytes >= PENDING_BYTES:
                    self._room.clear()
                    await self._room.wait()
                self._take(event)
                self._arrived.set()
        except ClosedError:
            pass  # this process is no longer a member

    def _take(self, event: GroupEvent) -> None:
        time_ns = self._clock.now_ns()
        if isinstance(event, Batch):
            for place, payload in enumerate(event.payloads):
                self._pending.append(self._message(time_ns, event, event.number + place, payload))
            self._pending_bytes += event.size
        elif isinstance(event, ViewChange):
            if self._was_away:
                self._pending.append(self._row(time_ns, GAP))
                self._was_away = False
            members = [process.full for process in event.view.members]
            self._pending.append(self._row(time_ns, VIEW)._replace(view=event.view.id, members=members))
        elif isinstance(event, Barrier):
            sender = event.sender
            self._pending.append(
                self._row(time_ns, BARRIER)._replace(
                    view=event.view_id,
                    sender=sender.name,
                    sender_incarnation=sender.incarnation,
                    number=event.number,
                    level="safe",
                    private=False,
                    payload=event.payload,
                    repeated=False,
                )
            )
        elif isinstance(event, Stalled):
            self._pending.append(self._row(time_ns, STALLED)._replace(view=event.view.id))
        elif isinstance(event, Excluded):
            self._was_away = True

    def _row(self, time_ns: int, kind: str) -> JournalRow:
        return JournalRow(time_ns, kind, self._place.group, self._name)

    def _message(self, time_ns: int, batch: Batch, number: int, payload: bytes) -> JournalRow:
        feed, feed_number, repeated = None, None, False
        found = decode_row(payload)
        if found is not None:
            feed, feed_number, payload = found
            repeated = not self._feeds.is_new(feed, feed_number)
        sender = batch.sender
        return JournalRow(
            time_ns,
            MESSAGE,
            batch.group,
            self._name,
            batch.view_id,
            None,
            sender.name,
            sender.incarnation,
            number,
            batch.order,
            batch.private,
            payload,
            feed,
            feed_number,
            repeated,
        )

    async def _write(self) -> None:
        """Append the pending rows to the journal, in another thread, until there are no more."""
        while self._pending or not self._is_over:
            await self._arrived.wait()
            self._arrived.clear()
            rows, self._pending, self._pending_bytes = self._pending, [], 0
            self._room.set()
            await asyncio.to_thread(self._append, rows)

    def _append(self, rows: list[JournalRow]) -> None:
        """Append `rows` in frames of bounded size."""
        start = size = 0
        for place, row in enumerate(rows):
            size += len(row.payload or b"")
            if place - start >= FRAME_ROWS or (size > FRAME_BYTES and place > start):
                self._journal.append(rows[start:place])
                start, size = place, len(row.payload or b"")
        self._journal.append(rows[start:])


def _positions(journal: JournalReader, end: int) -> dict[str, int]:
    """Return the number of each feed's last row in the journal, by reading all of it once."""
    positions: dict[str, int] = {}
    for batch in journal.read(journal.start(), end):
        fed = batch.filter(pc.is_valid(batch["feed"]))
        for feed, number in zip(fed["feed"].to_pylist(), fed["feed_number"].to_pylist(), strict=True):
            positions[feed] = max(number, positions.get(feed, 0))
    return positions
