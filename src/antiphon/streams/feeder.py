"""A feeder: a member that multicasts the published batches of a spool, in order; receivers see each row exactly once.

Rows are numbered over all batches and carry their number (toolkit/feeds.py explains how receivers use it). When all
rows of a batch are at every member the batch is settled, and the position on disk moves past it. A feeder that was
killed or excluded begins again at that position, as a new incarnation, once it is in a view without its earlier ones.
So no row is left out, and rows that were delivered before come with numbers that receivers know.

In memory it holds the record batch that it is sending, and what the group's flow control has accepted ahead.
"""

import asyncio
import os
from typing import Final, cast

from antiphon import ClosedError, Excluded, ExcludedError, Group, Order, ProcessId, View, ViewChange
from antiphon.history.durable import StorageError, count_up, take_lock
from antiphon.history.spool import PublishedBatch, Spool
from antiphon.streams.membership import StreamPlace, member
from antiphon.toolkit.feeds import encode_row

LOOK_S: Final = 0.05
"""How often the spool is checked for new batches."""


class Feeder:
    """Multicasts the batches of a spool until it is stopped."""

    def __init__(self, spool: Spool, place: StreamPlace) -> None:
        self._spool = spool
        self._place = place
        self._view = View(0, ())
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self.rows = 0
        """How many rows this feeder has sent that are known to be at all members."""

    def stop(self) -> None:
        """Leave the group once the current batch is settled."""
        self._stopping.set()

    async def run(self) -> None:
        """Join, send, and join again when excluded, until `stop`. Raises if it cannot join or cannot read the spool."""
        lock = take_lock(self._spool.directory / "lock")
        try:
            while not self._stopping.is_set():
                async with member(self._place, self._next_incarnation) as group:
                    await self._live(group)
        finally:
            os.close(lock)

    def _next_incarnation(self) -> int:
        return count_up(self._spool.directory / "incarnation")

    async def _live(self, group: Group) -> None:
        """Send as one incarnation, until it is no longer a member or `stop` is called."""
        self._view = View(0, ())
        reading = asyncio.create_task(self._read(group))
        sending = asyncio.create_task(self._send(group))
        try:
            await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, sending):
                task.cancel()
            results = await asyncio.gather(reading, sending, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ClosedError):
                raise result

    async def _read(self, group: Group) -> None:
        """Read the group: own messages have to be read like all others, and a view tells when to begin."""
        async for event in group.batches():
            if isinstance(event, ViewChange):
                self._view = event.view
                self._moved.set()
            elif isinstance(event, Excluded):
                return

    async def _send(self, group: Group) -> None:
        while not self._is_alone(group.process):
            self._moved.clear()
            await self._moved.wait()
        while not self._stopping.is_set():
            for published in self._spool.waiting():
                await self._send_batch(group, published)
                if self._stopping.is_set():
                    return
            await asyncio.sleep(LOOK_S)

    def _is_alone(self, process: ProcessId) -> bool:
        """Whether this process is in the view, and none of its former incarnations is."""
        return [member for member in self._view.members if member.name == process.name] == [process]

    async def _send_batch(self, group: Group, published: PublishedBatch) -> None:
        number = published.first
        for payloads, level in self._spool.rows(published):
            rows = [encode_row(self._spool.feed, number + place, row) for place, row in enumerate(payloads)]
            await group.send_many(rows, order=cast("Order", level))
            number += len(rows)
        if number != published.first + published.rows:
            why = (
                f"batch {published.batch} is damaged: {number - published.first} of its {published.rows} rows are there"
            )
            raise StorageError(self._spool.directory, why)
        await group.flush()
        if group.is_over:
            raise ExcludedError(group.name, group.process)  # the next incarnation sends the batch again
        self._spool.settle(published)
        self.rows += published.rows
