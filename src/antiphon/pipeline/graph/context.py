"""The context graph of a history as Spark DataFrames: edges, waves, and when each message was stable.

A row may stand for a run of consecutive messages (`count`), as rows of a history do.

edges      run, group, sender, number, cause_group, cause_sender, cause_number, count, certain (`reduction`)
waves      run, group, sender, number, count, wave (`waves`)
stability  run, group, sender, number, count, view, sent_ns, stable_ns, last, lacking (`stability`)

Edges are made from the vectors alone, slice by slice, without another look at the rows. Waves are made on the driver.
Only stability has to bring together what the members' logs say, and so shuffles their deliver rows, a few numbers each.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import read_pieces
from antiphon.pipeline.graph.reading import CausalHistory, read_causal_history
from antiphon.pipeline.graph.reduction import EDGES, edges, slices
from antiphon.pipeline.graph.stability import DELIVERED, STABILITY, blocks, delivered, stability
from antiphon.pipeline.graph.waves import WAVES, wave_table
from antiphon.pipeline.on_spark import over_tasks


class ContextGraph:
    """The context graph of every run in a history; each DataFrame is computed when it is used."""

    def __init__(self, causal: CausalHistory, spark: SparkSession) -> None:
        self._causal = causal
        self._spark = spark
        self._orders = spark.sparkContext.broadcast({name: run.order for name, run in causal.runs.items()})

    @cached_property
    def edges(self) -> DataFrame:
        tasks = [(name, first, end) for name, run in self._causal.runs.items() for first, end in slices(run.order)]
        orders = self._orders

        def work(place: int) -> Iterator[pa.RecordBatch]:
            name, first, end = tasks[place]
            yield edges(orders.value[name], first, end)

        return over_tasks(self._spark, range(len(tasks)), work, EDGES)

    @cached_property
    def waves(self) -> DataFrame:
        tables = [wave_table(run.order) for run in self._causal.runs.values()]
        return self._spark.createDataFrame(pa.concat_tables([WAVES.empty_table(), *tables]))

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
                    yield delivered(piece, orders.value[piece.run], known_end)

        def put_together(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
            run, place, block = (value.as_py() for value in key)
            return stability(orders.value[run], place, block, table)

        every_block = [blocks(run.order) for run in self._causal.runs.values()]
        known = self._spark.createDataFrame(pa.Table.from_batches(every_block, DELIVERED))
        rows = over_tasks(self._spark, range(len(tasks)), work, DELIVERED).unionAll(known)
        return rows.groupBy("run", "key", "block").applyInArrow(put_together, from_arrow_schema(STABILITY))


def context_graph(path: Path | str, spark: SparkSession) -> ContextGraph:
    """Read a history and put its context graph together. Raises UnusableHistoryError if it is none."""
    return ContextGraph(read_causal_history(HistoryFiles.open(path), spark), spark)
