"""The rows of a history, cut into pieces of logs, checked, and packed.

Rows come to Python as files that Spark has read (`antiphon.pipeline.file_scan`) or, of tables and of large files, as
batches of rows. Python opens no file. Rows are checked (`antiphon.history.validity`) and cut where one log ends and the
next begins; a *packed piece* is one such stretch as compressed Arrow data in one cell, with what must be known to put
it in its place: run, process, first and last index. What follows shuffles and keeps packed pieces, a few bytes for each
row, and never single rows. So each row is decoded once, and not sorted.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.reader import LOG_COLUMNS
from antiphon.history.schema import SCHEMA
from antiphon.history.start import parse_start
from antiphon.history.validity import row_problem
from antiphon.history.versions import upgrade
from antiphon.pipeline.audit.pieces import Piece

FILE: Final = "file"
"""The path of the file that a piece comes from, as Spark tells it; null for a table."""
BATCH_ROWS: Final = 131_072
"""Rows that Spark hands to Python at once; pieces are no longer."""
BODY: Final = [name for name in SCHEMA.names if name not in LOG_COLUMNS]
_NULLABLE: Final = pa.schema([field.with_nullable(True) for field in SCHEMA])
_ORDER: Final = [(name, "ascending") for name in (*LOG_COLUMNS, "index")]
_CODEC: Final = pa.ipc.IpcWriteOptions(compression="lz4")

PACKED_PIECES: Final = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),  # "name/incarnation"
        (FILE, pa.string()),
        ("first_index", pa.int64()),
        ("last_index", pa.int64()),
        ("rows", pa.int64()),
        ("version", pa.int64()),  # of the schema, where a start row in it tells and it has not been brought up to date
        ("problem", pa.string()),  # what makes the history unusable; there is no body then
        ("damage", pa.string()),  # what cannot be read; there is no body then, and first_index is a place in the file
        ("body", pa.binary()),
    ]
)


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of SCHEMA become rows of PACKED_PIECES."""
    for batch in batches:
        if not len(batch):
            continue
        rows = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(_NULLABLE)
        if (problem := row_problem(rows)) is not None:
            found: list[dict[str, Any]] = [{"problem": f"a row makes no sense: {problem[1]}"}]
        else:
            found = [packed_piece(piece) for piece in cut(rows)]
        yield pa.RecordBatch.from_pylist(found, PACKED_PIECES)


def cut(table: pa.Table) -> Iterator[Piece]:
    """What some rows hold of each log, in order of index."""
    bounds = _bounds(table)
    index = table["index"].to_numpy()
    rising = index[1:] > index[:-1]
    rising[[bound - 1 for bound in bounds[1:-1]]] = True
    if not rising.all() or _is_scattered(table, bounds):
        table = table.sort_by(_ORDER)
        bounds = _bounds(table)
    for first, end in pairwise(bounds):
        part = table.slice(first, end - first)
        process = f"{part['process'][0].as_py()}/{part['incarnation'][0].as_py()}"
        yield Piece(part["run"][0].as_py(), process, part.select(BODY))


def _bounds(table: pa.Table) -> list[int]:
    same = np.ones(len(table) - 1, bool)
    for name in LOG_COLUMNS:
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return [0, *(np.flatnonzero(~same) + 1).tolist(), len(table)]


def _is_scattered(table: pa.Table, bounds: list[int]) -> bool:
    """Whether rows of one log lie apart."""
    heads = table.select(list(LOG_COLUMNS)).take(bounds[:-1])
    return len(heads.group_by(heads.column_names).aggregate([])) < len(heads)


def parts_of(piece: Piece, rows: int) -> Iterator[Piece]:
    """A piece in parts of so many rows."""
    for first in range(0, len(piece.table), rows):
        yield piece._replace(table=piece.table.slice(first, rows))


def packed_piece(piece: Piece) -> dict[str, Any]:
    """A row of PACKED_PIECES, but for FILE."""
    part, index = piece.table, piece.table["index"]
    sink = pa.BufferOutputStream()
    body = part.combine_chunks()
    with pa.ipc.new_stream(sink, body.schema, options=_CODEC) as writer:
        writer.write_table(body)
    starts = part.filter(pc.equal(part["kind"], "start"))["label"].to_pylist()
    return {
        "run": piece.run,
        "process": piece.process,
        "first_index": index[0].as_py(),
        "last_index": index[-1].as_py(),
        "rows": len(part),
        "version": min((parse_start(label).version for label in starts), default=None),
        "body": sink.getvalue().to_pybytes(),
    }


def unpack_table(body: bytes, version: int | None = None) -> pa.Table:
    """The rows of a packed piece, brought up to date; the columns that name the log are left out."""
    table = pa.ipc.open_stream(pa.BufferReader(body)).read_all()
    return table if version is None or version >= 2 else upgrade(table.drop_columns("digest"), version)


def pieces_of_logs(packed: pa.Table) -> list[Piece]:
    """Whole logs of PACKED_PIECES, each as one piece in order of index."""
    logs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in packed.sort_by([("process", "ascending"), ("first_index", "ascending")]).to_pylist():
        logs.setdefault((row["run"], row["process"]), []).append(row)
    pieces = []
    for (run, process), rows in logs.items():
        version = min((row["version"] for row in rows if row["version"] is not None), default=None)
        table = pa.concat_tables([unpack_table(row["body"], version) for row in rows])
        if any(before["last_index"] >= after["first_index"] for before, after in pairwise(rows)):
            table = table.sort_by("index")
        pieces.append(Piece(run, process, table))
    return pieces


def packed_pieces(rows: DataFrame) -> DataFrame:
    """Rows of a history as a DataFrame of PACKED_PIECES."""
    return rows.mapInArrow(pack, from_arrow_schema(PACKED_PIECES))
