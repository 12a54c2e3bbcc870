"""A feeder: a member that multicasts the published batches of a spool, in order, each row once as receivers see it.

Rows are numbered over all batches and go out under their number (toolkit/feeds.py says what receivers do with it). A
batch is settled, and the position on disk moves past it, when all its rows are at every member. A feeder that is
killed, or given up by the others, begins again at the position, as a new incarnation, once it is in a view without its
former ones. So no row is left out, and the rows that were already delivered come with numbers that receivers know.

What it holds in memory: the record batch that it is sending, and what the group's flow control lets it be ahead.
"""

import asyncio
import os
from typing import Final

from antiphon import ClosedError, Excluded, ExcludedError, Group, ProcessId, View, ViewChange
from antiphon.history.durable import StorageError, count_up, take_lock
from antiphon.history.spool import PublishedBatch, Spool
from antiphon.streams.membership import StreamPlace, member
from antiphon.toolkit.feeds import encode_row

LOOK_S: Final = 0.05
"""How often the spool is looked at for new batches."""


class Feeder:
    """Empties a spool into a group until it is stopped."""

    def __init__(self, spool: Spool, place: StreamPlace) -> None:
        self._spool = spool
        self._place = place
        self._view = View(0, ())
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self.rows = 0
        """Rows that are known to be at all members, in this run."""

    def stop(self) -> None:
        """Leave when the batch that is under way is settled."""
        self._stopping.set()

    async def run(self) -> None:
        """Join and send, and come back when excluded, until `stop`. Raises if it cannot get in, or read the spool."""
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
        """One life: send until the group ends here, or `stop`."""
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
        """Own messages come back like everybody's, and have to be read; views tell when to begin."""
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
            await group.send_many(rows, order=level)
            number += len(rows)
        if number != published.first + published.rows:
            why = f"batch {published.batch} is damaged: it has {number - published.first} of {published.rows} rows"
            raise StorageError(self._spool.directory, why)
        await group.flush()
        if group.is_over:
            raise ExcludedError(group.name, group.process)  # the next life sends it again
        self._spool.settle(published)
        self.rows += published.rows
