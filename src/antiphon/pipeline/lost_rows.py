"""Which rows of damaged files are lost, as far as the columns that name them can still be read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.pipeline.held import LogName
from antiphon.pipeline.scan import FILE, unpack_table

_INDICES: Final = pa.schema([("run", pa.string()), ("process", pa.string()), (FILE, pa.int64()), ("index", pa.int64())])


def lost_extents(rows: DataFrame, pieces: DataFrame, names: Mapping[int, str]) -> dict[LogName, list[str]]:
    """The rows that are in the files, and not among the pieces that could be read of them, in words, by log.

    Spark reads only the columns that are asked for: here those that name a row, which may be sound.
    """
    placed = rows.select("run", f.concat_ws("/", "process", "incarnation").alias("process"), FILE, "index")
    read = pieces.mapInArrow(_indices, from_arrow_schema(_INDICES))
    found = placed.join(read, ["run", "process", FILE, "index"], "left_anti")
    lost: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for row in found.orderBy("run", "process", FILE, "index").collect():
        lost[row["run"], row["process"], row[FILE]].append(row["index"])
    texts: dict[LogName, list[str]] = defaultdict(list)
    for (run, process, number), indices in lost.items():
        bounds = [0, *(place for place, (one, next_one) in enumerate(pairwise(indices), 1) if next_one > one + 1)]
        for first, end in pairwise([*bounds, len(indices)]):
            extent = f"rows {indices[first]} to {indices[end - 1]} of the log are damaged"
            texts[run, process].append(f"{extent}: {names[number]}")
    return texts


def _indices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of PACKED_PIECES → one row for each row in them."""
    for batch in batches:
        for row in batch.to_pylist():
            if row["body"] is None:
                continue
            index = pc.cast(unpack_table(row["body"])["index"].combine_chunks(), pa.int64())
            same = [pa.array([row[name]] * len(index), _INDICES.field(name).type) for name in ("run", "process", FILE)]
            yield pa.RecordBatch.from_arrays([*same, index], schema=_INDICES)
