"""The context graph of a history as Spark DataFrames: edges, waves, and when each message was stable.

A row may stand for a run of consecutive messages (`count`), as rows of a history do.

edges      run, group, sender, number, cause_group, cause_sender, cause_number, count, certain (`reduction`)
waves      run, group, sender, number, count, wave (`waves`)
stability  run, group, sender, number, count, view, sent_ns, stable_ns, last, lacking (`stability`)

Edges and waves are made from the vectors alone, on the workers, without another look at the rows. The vectors of a run
are one cell of a frame that is keyed by run; a long run is in as many rows as there are tasks to share its edges, which
Spark moves to where they are worked on. Only stability has to bring together what the members' logs say, and so
shuffles their deliver rows, a few numbers each; there each task needs the vectors of the runs that it meets.

All of it works over Spark Connect too.
"""

import pickle
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.pieces import read_pieces
from antiphon.pipeline.graph.reading import CausalHistory, read_causal_history
from antiphon.pipeline.graph.reduction import EDGES, edges, slices
from antiphon.pipeline.graph.stability import DELIVERED, STABILITY, blocks, delivered, stability
from antiphon.pipeline.graph.waves import WAVES, wave_table
from antiphon.pipeline.on_spark import over_tasks
from antiphon.pipeline.passes import PARTITIONS_PER_CORE, is_connected

SHARES_MAX: Final = 64
"""Into so many tasks the edges of one run are parted at most; each needs all vectors of the run."""


class ContextGraph:
    """The context graph of every run in a history; each DataFrame is computed when it is used."""

    def __init__(self, causal: CausalHistory, spark: SparkSession) -> None:
        self._causal = causal
        self._spark = spark

    @cached_property
    def edges(self) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for order, share, shares in _orders_in(batches):
                for first, end in slices(order)[share::shares]:
                    yield edges(order, first, end)

        return self._shares(SHARES_MAX).mapInArrow(work, from_arrow_schema(EDGES))

    @cached_property
    def waves(self) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for order, _, _ in _orders_in(batches):
                yield from wave_table(order).to_batches()

        return self._shares(1).mapInArrow(work, from_arrow_schema(WAVES))

    def _shares(self, most: int) -> DataFrame:
        """The vectors of each run, in as many rows as tasks shall share its slices, spread over the workers."""
        rows = []
        for run in self._causal.runs.values():
            shares = max(1, min(most, len(slices(run.order)), self._parallelism()))
            rows += [(run.name, share, shares) for share in range(shares)]
        packed = {run.name: pickle.dumps(run.order, protocol=5) for run in self._causal.runs.values()}
        columns = [
            pa.array([name for name, _, _ in rows], pa.string()),
            pa.array([share for _, share, _ in rows], pa.int64()),
            pa.array([shares for _, _, shares in rows], pa.int64()),
            pa.array([packed[name] for name, _, _ in rows], pa.binary()),
        ]
        frame = self._spark.createDataFrame(pa.Table.from_arrays(columns, ["run", "share", "shares", "order"]))
        return frame.repartition(max(1, min(len(rows), self._parallelism())), "run", "share")

    def _parallelism(self) -> int:
        if is_connected(self._spark):
            return int(self._spark.conf.get("spark.sql.shuffle.partitions") or PARTITIONS_PER_CORE)
        return PARTITIONS_PER_CORE * self._spark.sparkContext.defaultParallelism

    @cached_property
    def _orders(self) -> Callable[[], dict[str, Order]]:
        """Gives the vectors of all runs where a task calls it. Connect has no broadcasts: there they travel inside."""
        orders = {name: run.order for name, run in self._causal.runs.items()}
        if is_connected(self._spark):
            return lambda: orders
        shared = self._spark.sparkContext.broadcast(orders)
        return lambda: shared.value

    @cached_property
    def stability(self) -> DataFrame:
        tasks, orders = self._causal.tasks, self._orders
        known_ends = {
            (piece["task"], name, process): piece["known_end"]
            for name, run in self._causal.runs.items()
            for process, log in run.logs.items()
            for piece in log.pieces
        }

        def work(place: int) -> Iterator[pa.RecordBatch]:
            for piece in read_pieces(tasks[place]):
                known_end = known_ends.get((place, piece.run, piece.process))
                if known_end is not None:  # else it lies behind a gap
                    yield delivered(piece, orders()[piece.run], known_end)

        def put_together(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
            run, place, block = (value.as_py() for value in key)
            return stability(orders()[run], place, block, table)

        every_block = [blocks(run.order) for run in self._causal.runs.values()]
        known = self._spark.createDataFrame(pa.Table.from_batches(every_block, DELIVERED))
        rows = over_tasks(self._spark, range(len(tasks)), work, DELIVERED).unionAll(known)
        return rows.groupBy("run", "key", "block").applyInArrow(put_together, from_arrow_schema(STABILITY))


def _orders_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Order, int, int]]:
    """The vectors in rows of `_shares`; each with which share of how many."""
    for batch in batches:
        for row in batch.to_pylist():
            yield pickle.loads(row["order"]), row["share"], row["shares"]


def context_graph(path: Path | str, spark: SparkSession) -> ContextGraph:
    """Read a history and put its context graph together. Raises UnusableHistoryError if it is none."""
    return ContextGraph(read_causal_history(HistoryFiles.open(path), spark), spark)
