"""Recording a log to Parquet, off the hot path.

A call appends one tuple to a list. When the list holds a segment's worth of rows, or spans more than SEGMENT_SPAN_NS by
the times that the caller gave, it goes over a bounded queue to the one background thread, which makes it an Arrow
table and writes it as one segment: one file, one row group. A segment is written as `….parquet.partial` and renamed
when complete, so a process that is killed loses what was in memory and in the open segment, and no more. Files are not
synced: a machine that loses power may lose more, and the reader will find the log cut short.

With `flush_s` the thread also writes whatever there is after so many seconds, whether or not calls come: then a process
that is killed loses at most the rows of its last second. SIGTERM, unless the program handles it itself, first has all
rows written. Without `flush_s`, what is written is a function of the calls alone: no clock, no chance, no name that
differs from run to run.

One recorder writes a log: it holds a lock on `<process>-<incarnation>.lock` beside the segments, which the operating
system releases when the process dies. `spawn` starts something else in place of the thread: a simulation, in its own
time.

Limits: at most QUEUE_SEGMENTS full segments wait for the thread; when the queue is full, the caller waits. When a
segment cannot be written, every later call raises HistoryWriteError, and so does `close`.

Pages carry checksums, so that the reader can tell damaged bytes from others.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Final, Protocol, Self, final

import pyarrow.parquet as pq

from antiphon.history.errors import HistoryWriteError
from antiphon.history.log import Cells, Log, to_table
from antiphon.history.private_files import make_private, open_private
from antiphon.history.segments import PARTIAL, lock_file, log_of, segment_file
from antiphon.history.termination import forget, write_at_termination
from antiphon.kernel.errors import UsageError

SEGMENT_ROWS: Final = 131_072
SEGMENT_SPAN_NS: Final = 10_000_000_000
QUEUE_SEGMENTS: Final = 2


class Joinable(Protocol):
    """A thread, or what takes its place."""

    def join(self) -> None:
        """Wait until everything that was asked for is written."""


def _start_thread(recorder: "Recorder") -> Thread:
    name = f"history of {recorder.process}/{recorder.incarnation}"
    thread = Thread(target=recorder.write_until_closed, name=name, daemon=True)
    thread.start()
    return thread


@final
class Recorder(Log):
    """Writes the log of one process incarnation into `directory`, which is made if need be.

    Close it, or use it as a context manager: what was recorded is then on disk, also when the block was left by an
    exception. Without a `stop` or `crash` row at its end the log counts as cut short.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        run: str,
        process: str,
        incarnation: int = 1,
        segment_rows: int = SEGMENT_ROWS,
        merge: bool = True,
        flush_s: float | None = None,
        spawn: "Callable[[Recorder], Joinable] | None" = None,
    ) -> None:
        super().__init__(run=run, process=process, incarnation=incarnation, merge=merge)
        if segment_rows < 1:
            raise UsageError(f"segment_rows is {segment_rows}, but a segment holds at least one row")
        self.directory = Path(directory)
        self._segment_rows = segment_rows
        self._flush_s = flush_s
        self._segment = 0
        self._first_index = 0
        self._first_ns = 0
        self._closed = False
        self._failure: HistoryWriteError | None = None
        self._lock_descriptor = self._prepare_directory()
        # What takes the place of the thread runs in that of the caller, who could not wait for it.
        self._queue: Queue[tuple[int, int, list[Cells]] | Event | None] = Queue(0 if spawn else QUEUE_SEGMENTS)
        self._thread: Joinable = _start_thread(self) if spawn is None else spawn(self)
        if flush_s is not None and spawn is None:
            write_at_termination(self)

    def close(self) -> None:
        """Write what is left and wait until it is on disk. A second call does nothing."""
        if self._closed:
            return
        forget(self)
        with self._rows_lock:
            self._closed = True
            self._cut()
        self._queue.put(None)
        self._thread.join()
        lock_file(self.directory, self.process, self.incarnation).unlink(missing_ok=True)
        os.close(self._lock_descriptor)
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """The process is dead: nothing more is written, and the lock is free."""
        if not self._closed:
            self._closed = True
            os.close(self._lock_descriptor)

    def write_now(self, timeout_s: float) -> bool:
        """Have all rows written, for a process that is about to end; false if that took too long, or a call is under
        way, which this one has interrupted."""
        if self._closed or not self._rows_lock.acquire(blocking=False):
            return False
        try:
            self._cut()
        finally:
            self._rows_lock.release()
        written = Event()
        self._queue.put(written)
        return written.wait(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _prepare_directory(self) -> int:
        """Take the lock of this log; two logs must never mix, so a directory that already holds it is refused."""
        name = f"{self.process}/{self.incarnation}"
        try:
            make_private(self.directory)
            file = lock_file(self.directory, self.process, self.incarnation)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise UsageError(
                    f"{name} is being recorded into {self.directory} by another node; give this one another name, "
                    "incarnation or directory"
                ) from None
            present = [one for one in self.directory.iterdir() if log_of(one) == (self.process, self.incarnation)]
        except OSError as error:
            raise HistoryWriteError(self.directory, error.strerror or str(error)) from error
        if present:
            file.unlink(missing_ok=True)
            os.close(descriptor)
            raise UsageError(f"{self.directory} already holds a log of {name}; choose an empty directory")
        return descriptor

    def _before_row(self, time_ns: int) -> None:
        if self._closed:
            raise UsageError(f"the recorder of {self.process}/{self.incarnation} is closed; it records nothing more")
        if self._failure is not None:
            raise self._failure
        rows = len(self._rows.cells)
        if rows >= self._segment_rows or (rows and time_ns - self._first_ns > SEGMENT_SPAN_NS):
            self._emit()
            rows = 0
        if not rows:
            self._first_ns = time_ns

    def _cut(self) -> None:
        """All rows so far go to the thread."""
        self._rows.end_run()
        self._emit()

    def _emit(self) -> None:
        if self._rows.cells:
            self._queue.put(self._take())

    def _take(self) -> tuple[int, int, list[Cells]]:
        rows = self._rows.take()
        taken = (self._segment, self._first_index, rows)
        self._segment += 1
        self._first_index += len(rows)
        return taken

    def write_until_closed(self) -> None:
        """The background thread. After a failure it only empties the queue, so that no caller waits for ever."""
        going = True
        while going:
            try:
                going = self._handle(self._queue.get(timeout=self._flush_s))
            except Empty:
                self._flush()

    def write_round(self) -> None:
        """Write what waits, and what there is: for whoever takes the place of the thread, time and again."""
        while not self._queue.empty():
            self._handle(self._queue.get())
        self._flush()

    def _handle(self, item: tuple[int, int, list[Cells]] | Event | None) -> bool:
        """See to what came over the queue; whether more may come."""
        if isinstance(item, Event):
            item.set()
        elif item is not None and self._failure is None:
            self._write(*item)
        return item is not None

    def _flush(self) -> None:
        """Write what there is. If a call is under way, which may be waiting for this thread, the next round will."""
        if self._failure is not None or not self._rows_lock.acquire(blocking=False):
            return
        try:
            self._rows.end_run()
            taken = self._take() if self._rows.cells and self._queue.empty() else None
        finally:
            self._rows_lock.release()
        if taken is not None:
            self._write(*taken)

    def _write(self, segment: int, first_index: int, rows: list[Cells]) -> None:
        file = segment_file(self.directory, self.process, self.incarnation, segment)
        partial = file.with_name(file.name + PARTIAL)
        try:
            table = to_table(self, first_index, rows)
            with open_private(partial) as stream:
                pq.write_table(table, stream, compression="zstd", row_group_size=len(rows), write_page_checksum=True)
            partial.rename(file)
        except Exception as error:  # whatever it was, the caller must hear of it, and the thread must go on emptying
            self._failure = HistoryWriteError(file, str(error) or type(error).__name__)
            self._rows.merge = False  # so that the very next call begins a row, and raises
