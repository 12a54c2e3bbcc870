"""The source: a listener's journal as a stream of rows, `spark.readStream.format("antiphon").load("journal")`.

option          means
path            the journal's directory, as every executor sees it
startingoffset  where a new query begins: earliest (the default), latest, or an offset; a restarted query goes on
                where its checkpoint says
maxrows         rows per micro-batch, at most; without it, all there are
partitionrows   rows per task, at most (50,000 unless set)
keep            all (the default); or unread: segments that the query has done with are deleted. For one query alone

An offset is {"journal": id, "offset": n}: the rows before n have been read. What stands at an offset never changes, so
a batch that Spark repeats after a failure is the same batch; that, a checkpoint, and a sink that knows its batch ids
make each row count once. The id tells a journal from another in the same place.

Columns: those of `antiphon.history.journal`, and `time`, a timestamp to put a watermark on, made of time_ns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from antiphon.history.durable import StorageError
from antiphon.history.journal import SCHEMA, JournalReader
from antiphon.history.journal_writer import trim
from antiphon.kernel.errors import UsageError

PARTITION_ROWS: Final = 50_000
ROW_SCHEMA: Final = (
    "offset LONG, time TIMESTAMP, time_ns LONG, kind STRING, group STRING, listener STRING, view LONG, "
    "members ARRAY<STRING>, sender STRING, sender_incarnation LONG, number LONG, level STRING, private BOOLEAN, "
    "payload BINARY, feed STRING, feed_number LONG, repeated BOOLEAN"
)

Offset = dict[str, Any]


@dataclass(frozen=True)
class Span(InputPartition):
    """The rows at offsets start … end - 1."""

    start: int
    end: int


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._journal = JournalReader(directory_of(options))
        self._from = options.get("startingoffset", "earliest")
        self._max_rows = positive(options, "maxrows", None)
        self._partition_rows = positive(options, "partitionrows", PARTITION_ROWS) or PARTITION_ROWS
        self._keep = options.get("keep", "all")
        self._target: int | None = None
        if self._keep not in ("all", "unread"):
            raise UsageError(f"option keep is {self._keep!r}; it can be all or unread")
        if self._from not in ("earliest", "latest") and not self._from.isdecimal():
            raise UsageError(f"option startingoffset is {self._from!r}; it can be earliest, latest or an offset")

    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names)
        start, end = self._journal.start(), self._journal.end()
        if self._from.isdecimal():
            if not start <= int(self._from) <= end:
                why = f"startingoffset is {self._from}, but the journal holds the offsets {start} to {end}"
                raise StorageError(self._journal.directory, why)
            return self._offset(int(self._from))
        return self._offset(start if self._from == "earliest" else end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._journal.end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        first = self._number(start)
        end = self._journal.end()
        if end < first:
            why = f"it ends at offset {end}, but this query has read up to {first}: it was cut; use a new checkpoint"
            raise StorageError(self._journal.directory, why)
        if self._target is not None:
            end = max(first, min(end, self._target))
        if isinstance(limit, ReadMaxRows):
            end = min(end, first + limit.max_rows)
        return self._offset(end)

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return self._offset(self._journal.end())

    def partitions(self, start: Offset, end: Offset) -> list[Span]:
        first, last = self._number(start), self._number(end)
        step = self._partition_rows
        return [Span(at, min(at + step, last)) for at in range(first, last, step)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return (with_time(batch) for batch in self._journal.read(partition.start, partition.end))

    def commit(self, end: Offset) -> None:
        if self._keep == "unread":
            trim(self._journal.directory, self._number(end))

    def _offset(self, number: int) -> Offset:
        return {"journal": self._journal.id, "offset": number}

    def _number(self, offset: Offset) -> int:
        if offset["journal"] != self._journal.id:
            why = "this is another journal than the one that the query's checkpoint speaks of; use a new checkpoint"
            raise StorageError(self._journal.directory, why)
        return int(offset["offset"])


def with_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a journal as ROW_SCHEMA has them."""
    time = pc.divide(batch["time_ns"], 1000).cast(pa.timestamp("us", tz="UTC"))
    names = ["offset", "time", *SCHEMA.names[1:]]
    return pa.RecordBatch.from_arrays([batch["offset"], time, *batch.columns[1:]], names=names)


def directory_of(options: Mapping[str, str]) -> Path:
    """Where the journal or spool lies."""
    path = options.get("path")
    if not path:
        raise UsageError('name the directory of the journal or spool, as in .option("path", "quotes-journal")')
    return Path(path)


def positive(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """A number of rows from the options."""
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise UsageError(f"option {name} is {text!r}; it must be a number from 1 on")
    return int(text)
