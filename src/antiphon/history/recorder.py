"""Recording a log to Parquet, off the hot path.

A call appends one tuple to a list. When the list holds a segment's worth of rows, or spans more than SEGMENT_SPAN_NS by
the times that the caller gave, it goes over a bounded queue to the one background thread, which makes it an Arrow
table and writes it as one segment: one file, one row group. A segment is written as `….parquet.partial` and renamed
when complete, so a process that is killed loses what was in memory and in the open segment, and no more. Files are not
synced: a machine that loses power may lose more, and the reader will find the log cut short.

Limits: at most QUEUE_SEGMENTS full segments wait for the thread; when the queue is full, the caller waits. When a
segment cannot be written, every later call raises HistoryWriteError, and so does `close`.

Pages carry checksums, so that the reader can tell damaged bytes from others.

What is written is a function of the calls alone: no clock, no chance, no name that differs from run to run.
"""

from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import Final, Self, final

import pyarrow.parquet as pq

from antiphon.history.errors import HistoryWriteError
from antiphon.history.log import Cells, Log, to_table
from antiphon.history.segments import PARTIAL, log_of, segment_file
from antiphon.kernel.errors import UsageError

SEGMENT_ROWS: Final = 131_072
SEGMENT_SPAN_NS: Final = 10_000_000_000
QUEUE_SEGMENTS: Final = 2


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
    ) -> None:
        super().__init__(run=run, process=process, incarnation=incarnation, merge=merge)
        if segment_rows < 1:
            raise UsageError(f"segment_rows is {segment_rows}, but a segment holds at least one row")
        self.directory = Path(directory)
        self._segment_rows = segment_rows
        self._segment = 0
        self._first_index = 0
        self._first_ns = 0
        self._closed = False
        self._failure: HistoryWriteError | None = None
        self._prepare_directory()
        self._queue: Queue[tuple[int, int, list[Cells]] | None] = Queue(QUEUE_SEGMENTS)
        self._thread = Thread(target=self._write_all, name=f"history of {process}/{incarnation}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left and wait until it is on disk. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._kind:
            self._end_run()
        self._emit()
        self._queue.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _prepare_directory(self) -> None:
        """Two logs must never mix: a directory that already holds this log is refused."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            present = [file for file in self.directory.iterdir() if log_of(file) == (self.process, self.incarnation)]
        except OSError as error:
            raise HistoryWriteError(self.directory, error.strerror or str(error)) from error
        if present:
            raise UsageError(
                f"{self.directory} already holds a log of {self.process}/{self.incarnation}; choose an empty directory"
            )

    def _before_row(self, time_ns: int) -> None:
        if self._closed:
            raise UsageError(f"the recorder of {self.process}/{self.incarnation} is closed; it records nothing more")
        if self._failure is not None:
            raise self._failure
        full = len(self._cells) >= self._segment_rows
        if full or (self._cells and time_ns - self._first_ns > SEGMENT_SPAN_NS):
            self._emit()
        if not self._cells:
            self._first_ns = time_ns

    def _emit(self) -> None:
        if not self._cells:
            return
        self._queue.put((self._segment, self._first_index, self._cells))
        self._segment += 1
        self._first_index += len(self._cells)
        self._cells = []

    def _write_all(self) -> None:
        """The background thread. After a failure it only empties the queue, so that no caller waits for ever."""
        while (item := self._queue.get()) is not None:
            if self._failure is None:
                self._write(*item)

    def _write(self, segment: int, first_index: int, rows: list[Cells]) -> None:
        file = segment_file(self.directory, self.process, self.incarnation, segment)
        partial = file.with_name(file.name + PARTIAL)
        try:
            table = to_table(self, first_index, rows)
            pq.write_table(table, partial, compression="zstd", row_group_size=len(rows), write_page_checksum=True)
            partial.rename(file)
        except Exception as error:  # whatever it was, the caller must hear of it, and the thread must go on emptying
            self._failure = HistoryWriteError(file, str(error) or type(error).__name__)
            self._merge = False  # so that the very next call begins a row, and raises
