"""The application's queue: events wait here until the application reads them. One for a node, or one for each group
(runtime/node_streams.py).

Limits: at `messages_max` messages or `bytes_max` payload bytes the queue is full and asks for a pause; when half of
both is free again it asks to resume. Between the two it takes what was already on its way, at most what one step of the
engine delivers. A paused engine stops consuming, so senders wait in turn: nothing is dropped. Questions of a stack are
bounded apart, by QUESTIONS_MAX: one more is dropped, and the stack has an empty answer when its time is over.

One reader (readers.py) at a time. A new reader may follow one that has stopped reading, and goes on where that one left
off, even in the middle of a batch; two that read at the same time are refused, since each would miss what the other
took. Instead of a reader there can be a listener: a function that is called with each event as it comes, so that
nothing is queued.

Whoever does not want its own messages back says so, and is not handed them. They count as taken where they stand, so
that the history has them at their place, and room is made as if they had been read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from antiphon.runtime.errors import ReaderError
from antiphon.runtime.events import (
    Barrier,
    Batch,
    BatchEvent,
    Excluded,
    Message,
    Question,
    Stalled,
    StreamEvent,
    TransitionalView,
    ViewChange,
)

PREPARED_MAX: Final = 256
TURN_MESSAGES: Final = 1024
"""A reader that never finds the queue empty lets the rest of the event loop have a turn after so many messages."""
QUESTIONS_MAX: Final = 1024

Other = ViewChange | Barrier | Stalled | Excluded | TransitionalView | Question
Listener = Callable[[BatchEvent], None]
Taken = Callable[[Batch, int, int, int], None]
"""Told of each batch or part of one as the application is handed it: batch, first number, count, payload bytes."""


@final
class Stream:
    """Events on their way to the application; `source` names whose they are, as in "group 'quotes'"."""

    def __init__(
        self,
        source: str,
        *,
        messages_max: int,
        bytes_max: int,
        on_full: Callable[[], None],
        on_room: Callable[[], object],
        on_taken: Taken | None,
        on_view: Callable[[ViewChange], None],
        on_transitional: Callable[[TransitionalView], None],
        on_barrier: Callable[[Barrier], None],
        on_excluded: Callable[[str], None],
    ) -> None:
        self.source = source
        self.messages = 0
        self.bytes = 0
        self.unread = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._on_room = on_room
        self._on_taken = on_taken
        self._on_view = on_view
        self._on_transitional = on_transitional
        self._on_barrier = on_barrier
        self._on_excluded = on_excluded
        self.on_waiting: Callable[[], None] | None = None
        """Told when a message or a barrier begins to wait for a reader or a listener."""
        self._entries: deque[BatchEvent] = deque()
        self._position = 0
        """How many messages of the first entry have been taken already."""
        self._full = False
        self._turn = 0
        self.prepared: list[Message] = []
        """Messages made for the reader of single ones, the next one last."""
        self._reader: object = None
        self.reading: object = None
        """Whose call has read last."""
        self._listener: Listener | None = None
        self._skipped = ""
        """The name of the process whose messages are not handed out, if any."""
        self._waiter: asyncio.Future[None] | None = None
        self._finished = False
        self._ended = False
        self._error: Exception | None = None

    def put(self, entry: BatchEvent) -> None:
        if self._ended:
            if isinstance(entry, Batch):
                self.unread += len(entry.payloads)
            elif isinstance(entry, Barrier):
                self.unread += 1
            elif not self.unread:
                self._take_other(entry)
            return
        if isinstance(entry, Question) and self._count_questions() >= QUESTIONS_MAX:
            return
        self._entries.append(entry)
        if isinstance(entry, Batch):
            self.messages += len(entry.payloads)
            self.bytes += entry.size
        if self._listener is not None:
            self.tell()
            return
        if self.on_waiting is not None and isinstance(entry, Batch | Barrier):
            self.on_waiting()
        if not self._full and (self.messages >= self._messages_max or self.bytes >= self._bytes_max):
            self._full = True
            self._on_full()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def finish(self) -> None:
        """Nothing more will come. What is there can still be read, and then readers see the stream end."""
        self._finished = True
        self._wake()

    def end(self, error: Exception | None) -> None:
        """Readers get `error`, or see the stream end. What nobody has read, now or later, is counted and gone; but a
        view with no unread message before it counts as taken, since the application lacks nothing before it."""
        if self._ended:
            return
        for entry in self._entries:
            if error is not None or isinstance(entry, Batch | Barrier):
                break
            self._take_other(entry)
        self._ended = True
        self._error = error
        self._put_back()
        self.unread = self.messages + sum(isinstance(entry, Barrier) for entry in self._entries)
        self.messages = 0
        self.bytes = 0
        self._entries.clear()
        self._position = 0
        self._wake()
        if self._full:
            self._on_room()  # who does not read any more shall not hold up the others

    def attach(self, reader: object, skipped: str = "") -> None:
        """From here on this one reads; it is not handed messages of the process of the name `skipped`."""
        if self._waiter is not None or self._listener is not None:
            raise ReaderError(self.source)
        self._put_back()
        self._reader = reader
        self._skipped = skipped
        self.reading = None

    def listen(self, listener: Listener | None, skipped: str = "") -> None:
        """Have `listener` called with what comes, as it comes, and by `tell` with all that waits; None: leave it to
        readers again."""
        if self._waiter is not None:
            raise ReaderError(self.source)
        self._put_back()
        self._reader = None
        self._skipped = skipped
        self.reading = None
        self._listener = listener

    @property
    def is_waiting(self) -> bool:
        """Whether there is a message or a barrier that the application has not been handed."""
        return bool(self.prepared) or any(isinstance(entry, Batch | Barrier) for entry in self._entries)

    @property
    def is_full(self) -> bool:
        """Whether this has asked for a pause."""
        return self._full

    def count(self, group: str) -> int:
        """Messages and barriers of one group that the application has not read."""
        count = sum(message.group == group for message in self.prepared)
        for entry in self._entries:
            if entry.group == group and isinstance(entry, Batch):
                count += len(entry.payloads)
            elif entry.group == group and isinstance(entry, Barrier):
                count += 1
        if self._position and self._entries[0].group == group:
            count -= self._position
        return count

    def _count_questions(self) -> int:
        """Questions that the application has not read; they are rare, so that they are counted only when one comes."""
        return sum(isinstance(entry, Question) for entry in self._entries)

    def take_out(self, group: str) -> list[BatchEvent]:
        """Take the events of one group out, unread; `check_room` is to follow."""
        self._put_back()
        if self._position:
            first = self._entries[0]
            assert isinstance(first, Batch)
            self._entries[0] = self._rest(first)
            self._position = 0
        taken = [entry for entry in self._entries if entry.group == group]
        if taken:
            self._entries = deque([entry for entry in self._entries if entry.group != group])
            for entry in taken:
                if isinstance(entry, Batch):
                    self.messages -= len(entry.payloads)
                    self.bytes -= entry.size
        return taken

    def _put_back(self) -> None:
        """What was prepared and not read is for whoever reads next; a reader from before finds nothing there."""
        left = self.prepared[::-1]
        self.prepared.clear()
        self.prepared = []
        if left:
            first = left[0]
            batch = Batch(
                [message.payload for message in left], first.sender, first.number, first.order, first.group,
                first.view_id, first.private,
            )  # fmt: skip
            if self._position:  # of the entry that they were taken from
                entry = self._entries[0]
                assert isinstance(entry, Batch)
                self._entries[0] = self._rest(entry)
                self._position = 0
            self._entries.appendleft(batch)
            self.messages += len(left)
            self.bytes += batch.size

    def _rest(self, entry: Batch) -> Batch:
        """What is left of the first entry."""
        start = self._position
        return Batch(
            entry.payloads[start:], entry.sender, entry.number + start, entry.order, entry.group, entry.view_id,
            entry.private,
        )  # fmt: skip

    def tell(self) -> None:
        """Call the listener with all that waits."""
        while self._has_entry() and self._listener is not None:
            try:
                self._listener(self.take_batch())
            except asyncio.CancelledError as error:
                # Nobody has cancelled anything here: let through, this would end whatever is on the stack.
                raise RuntimeError(f"the listener of {self.source} raised CancelledError") from error

    def is_ready(self, reader: object) -> bool:
        """Whether there is something to take at once, by this reader, which has not had its turn."""
        return (
            reader is self._reader and self._waiter is None and self._has_entry() and self._turn < TURN_MESSAGES
        )  # fmt: skip

    def _has_entry(self) -> bool:
        """Whether there is something to hand out; takes what is not to be handed out from the front."""
        if self._skipped:
            while self._entries:
                entry = self._entries[0]
                if not isinstance(entry, Batch) or entry.sender.name != self._skipped:
                    break
                self.take_batch()
        return bool(self._entries)

    async def ready(self, reader: object) -> None:
        """Return when there is something to take. Nothing is taken here, so to cancel this loses nothing."""
        if reader is not self._reader or self._waiter is not None:
            raise ReaderError(self.source)
        if self._turn >= TURN_MESSAGES:
            self._turn = 0
            await asyncio.sleep(0)
        while not self._has_entry():
            if self._error is not None:
                raise self._error
            if self._ended or self._finished:
                raise StopAsyncIteration
            self._turn = 0
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def take_batch(self) -> BatchEvent:
        """The first entry, or what is left of it."""
        entry = self._entries.popleft()
        if not isinstance(entry, Batch):
            return self._take_other(entry)
        if self._position:
            entry = self._rest(entry)
            self._position = 0
        self._took(entry, entry.number, len(entry.payloads), entry.size)
        return entry

    def take_message(self) -> StreamEvent:
        """The first message, out of its batch."""
        entry = self._entries[0]
        if not isinstance(entry, Batch):
            self._entries.popleft()
            return self._take_other(entry)
        # What is recorded is recorded as it is handed over, one by one; else many are prepared at a time.
        start = self._position
        end = min(len(entry.payloads), start + (PREPARED_MAX if self._on_taken is None else 1))
        size = 0
        for position in range(end - 1, start - 1, -1):
            payload = entry.payloads[position]
            size += len(payload)
            self.prepared.append(
                Message(
                    payload,
                    entry.sender,
                    entry.number + position,
                    entry.order,
                    entry.group,
                    entry.view_id,
                    entry.private,
                )
            )
        self._position = end
        if end == len(entry.payloads):
            self._entries.popleft()
            self._position = 0
        self._took(entry, entry.number + start, end - start, size)
        return self.prepared.pop()

    def _take_other(self, entry: Other) -> Other:
        if isinstance(entry, ViewChange):
            self._on_view(entry)
        elif isinstance(entry, TransitionalView):
            self._on_transitional(entry)
        elif isinstance(entry, Barrier):
            self._on_barrier(entry)
        elif isinstance(entry, Excluded):
            self._on_excluded(entry.group)
        return entry

    def _took(self, batch: Batch, number: int, count: int, size: int) -> None:
        self._turn += count
        self.messages -= count
        self.bytes -= size
        if self._on_taken is not None:
            self._on_taken(batch, number, count, size)
        if self._full:
            self.check_room()

    def check_room(self) -> None:
        """Ask to resume if half of the room is free again."""
        if self._full and self.messages * 2 <= self._messages_max and self.bytes * 2 <= self._bytes_max:
            self._full = False
            self._on_room()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
