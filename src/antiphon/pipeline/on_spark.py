"""The passes of an audit on Spark: tasks as partitions, knowledge shipped to the workers, view rows as frames."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.reader import Unit
from antiphon.history.schema import SCHEMA_VERSION
from antiphon.pipeline import view_counts, view_frames
from antiphon.pipeline.audit.pieces import HeldTask, Piece, Task
from antiphon.pipeline.held import LogName, RecordedHistory, delivery_in
from antiphon.pipeline.jobs import described, settings
from antiphon.pipeline.passes import over_numbers
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.reading import ReadHistory
from antiphon.pipeline.scan import BATCH_ROWS, PACKED_PIECES, packed_piece, parts_of, pieces_of_logs, unpack_table
from antiphon.pipeline.shipping import shipped
from antiphon.pipeline.view_rows import GroupCounts, Logs
from antiphon.pipeline.workplace import Work, Workplace, tasks_without, unit_of


def over_tasks(
    spark: SparkSession, chosen: Sequence[int], work: Callable[[int], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Run `work` over some tasks, by their places."""

    def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(chosen[number])

    return over_numbers(spark, len(chosen), work_on, schema)


class OnSpark(Workplace):
    """The row groups of a history, each read by the worker that gets it; the files lie where all workers see them."""

    def __init__(self, spark: SparkSession, tasks: Sequence[Task]) -> None:
        self._spark = spark
        self.tasks = list(tasks)

    def over_tasks(self, chosen: Sequence[int] | None, work: Work, schema: pa.Schema) -> pa.Table:
        tasks = self.tasks
        places = range(len(tasks)) if chosen is None else chosen
        return over_tasks(self._spark, places, lambda place: work(place, tasks[place]), schema).toArrow()

    def unit(self, place: int, number: int) -> Unit:
        return unit_of(self.tasks[place], number)

    def leave_out(self, units: Collection[Unit]) -> None:
        self.tasks = tasks_without(self.tasks, units)

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return shipped(self._spark, content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_frames.count_views(self._spark, logs, promises)


FILES_PER_PARTITION: Final = 2
"""With fewer files than that for each partition of a shuffle, some would have much more to do than others."""


class PiecesHistory(RecordedHistory):
    """One long run of a history that Spark has read: its packed pieces, each with a number, while in context.

    Pieces of a log that overlap, since a file holds its rows in another order than that of their indices, are put in
    order first, log by log, and kept so. Pieces of few files, which a few tasks read, are dealt out to all. Driver: the
    extent of each piece.
    """

    def __init__(self, history: ReadHistory, run: str) -> None:
        self._history = history
        self._run = run
        self._kept: DataFrame | None = None
        self.pieces = self._numbered()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.unpersist()

    @property
    def rows(self) -> int:
        return self._history.runs[self._run]

    def unfinished(self) -> dict[LogName, str]:
        return {log: cause for log, cause in self._history.cut_short.items() if log[0] == self._run}

    def first_delivery(self, run: str, process: str, group: str, sender: str, number: int) -> int | None:
        def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for piece in _unpacked(batches):
                index = delivery_in(piece[1], group, sender, number)
                yield pa.RecordBatch.from_pydict({"index": pa.array([index], pa.int64())})

        own = self.pieces.where((f.col("run") == run) & (f.col("process") == process))
        with described(self._history.spark, f"look a delivery of {process} up"):
            found = own.mapInArrow(find, "index LONG").agg(f.min("index").alias("index")).collect()
        index: int | None = found[0]["index"]
        return index

    def _numbered(self) -> DataFrame:
        own = self._history.pieces.where(f.col("run") == self._run)
        with described(self._history.spark, f"see whether pieces of {self._run} overlap"):
            extents = own.select("process", "first_index", "last_index", "version").toArrow()
        mixed, old = mixed_logs(extents), old_logs(extents)
        for process, version in old.items():
            version_of = f.when(f.col("process") == process, f.lit(version)).otherwise(f.col("version"))
            own = own.withColumn("version", version_of.cast("long"))
        if mixed:
            apart = own.where(f.col("process").isin(*mixed))
            in_order = apart.groupBy("process").applyInArrow(_put_in_order, from_arrow_schema(PACKED_PIECES))
            own = own.where(~f.col("process").isin(*mixed)).unionAll(in_order)
        partitions = int(self._history.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        is_uneven = len(self._history.place.paths) < FILES_PER_PARTITION * partitions < len(extents)
        if is_uneven:
            own = own.repartition(FILES_PER_PARTITION * partitions, "process", "first_index")
        if mixed or is_uneven:
            self._kept = own = own.persist(StorageLevel.MEMORY_AND_DISK)
        return own.withColumn("place", f.xxhash64("process", "first_index"))


def mixed_logs(extents: pa.Table) -> list[str]:
    """The logs whose pieces overlap."""
    mixed: set[str] = set()
    reach: dict[str, int] = {}
    for row in extents.sort_by([("first_index", "ascending"), ("last_index", "ascending")]).to_pylist():
        if row["first_index"] <= reach.get(row["process"], -1):
            mixed.add(row["process"])
        reach[row["process"]] = max(row["last_index"], reach.get(row["process"], -1))
    return sorted(mixed)


def old_logs(extents: pa.Table) -> dict[str, int]:
    """The logs that are to be brought up to date, and their versions."""
    told = extents.filter(pc.less(extents["version"], SCHEMA_VERSION)).group_by("process")
    return {row["process"]: row["version_min"] for row in told.aggregate([("version", "min")]).to_pylist()}


def _put_in_order(packed: pa.Table) -> pa.Table:
    """All of one log, cut up anew."""
    (piece,) = pieces_of_logs(packed)
    return pa.Table.from_pylist([packed_piece(part) for part in parts_of(piece, BATCH_ROWS)], PACKED_PIECES)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Piece]]:
    for batch in batches:
        for row in batch.to_pylist():
            table = unpack_table(row["body"], row["version"])
            yield row["place"], Piece(row["run"], row["process"], table)


def in_a_cell(batch: pa.RecordBatch) -> bytes:
    """What was found, as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    cell: bytes = sink.getvalue().to_pybytes()
    return cell


def out_of_cells(cells: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """All of it together."""
    found = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in cells]
    return pa.concat_tables([schema.empty_table(), *found])


class OverPieces(Workplace):
    """The packed pieces of a long run, each judged by the worker that keeps it.

    What is found of a piece leaves the worker in one cell, so that Java need not look into it."""

    def __init__(self, spark: SparkSession, history: PiecesHistory) -> None:
        self._spark = spark
        self._history = history

    def over_tasks(self, chosen: Sequence[int] | None, work: Work, schema: pa.Schema) -> pa.Table:
        def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for place, piece in _unpacked(batches):
                for found in work(place, HeldTask((piece,))):
                    yield pa.RecordBatch.from_pydict({"found": [in_a_cell(found)]})

        pieces = self._history.pieces
        if chosen is not None:
            pieces = pieces.where(f.col("place").isin(*chosen))
        with settings(self._spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": PIECES_AT_ONCE}):
            cells = pieces.mapInArrow(work_on, "found BINARY").toArrow()["found"]
        return out_of_cells(cells, schema)

    def unit(self, place: int, number: int) -> Unit:
        raise AssertionError("Spark has read the rows: no row group is read here")

    def leave_out(self, units: Collection[Unit]) -> None:
        raise AssertionError("Spark has read the rows: no row group is read here")

    def sharing(self, content: Any) -> AbstractContextManager[Callable[[], Any]]:
        return shipped(self._spark, content)

    def count_views(self, logs: Logs, promises: Promises) -> list[GroupCounts]:
        return view_counts.count_views(logs, promises)  # the rows are here: jobs over them cost more than their work


PIECES_AT_ONCE: Final = 4
"""So many packed pieces go to Python together: each is some hundred kilobytes."""
