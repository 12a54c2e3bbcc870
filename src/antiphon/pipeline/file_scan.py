"""Files of a history as Spark reads them, one cell each: decoded, checked, cut into pieces of logs, and packed.

Spark brings the bytes of a file from whatever file system its session knows; Arrow decodes them where they arrive. So
no row is converted from Java to Python: that costs 15 µs for each, more than everything else that is done for it.
It is also what the reader of one process does (`antiphon.history.reader`), to the words for what cannot be read.
What cannot be read, for want of an end or since bytes were damaged, is a row of PACKED_PIECES with `damage`.

A file is a cell, so it must be small beside the memory of a task: FILE_BYTES_MAX. Larger ones are read row by row.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.errors import DamagedRowGroupError, UnusableHistoryError
from antiphon.history.reader import Damage, HeldFile, Unit, extent_text, read_unit, stretch_of, units_of
from antiphon.pipeline.scan import BATCH_ROWS, FILE, PACKED_PIECES, cut, packed_piece, parts_of

FILE_BYTES_MAX: Final = 64 * 2**20
"""The recorder's files have about one megabyte, those of `antiphon history pack` about 20."""
RUN: Final = "run"
"""The column of the folder that names the run, where Spark wrote the files by run."""


def packed_files(files: DataFrame, runs: Sequence[str]) -> DataFrame:
    """Files, with path and content, as a DataFrame of PACKED_PIECES; of some runs, or of all if none are named."""
    wanted = frozenset(runs)

    def pack_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(batches, wanted)

    columns = [name for name in ("path", "content", RUN) if name in files.columns]
    return files.select(*columns).mapInArrow(pack_files, from_arrow_schema(PACKED_PIECES))


def pack(batches: Iterable[pa.RecordBatch], runs: frozenset[str] = frozenset()) -> Iterator[pa.RecordBatch]:
    """Rows of path, content, and the run if the folder tells it, become rows of PACKED_PIECES."""
    for batch in batches:
        for place in range(len(batch)):
            path = batch.column("path")[place].as_py()
            run = batch.column(RUN)[place].as_py() if RUN in batch.schema.names else None
            held = HeldFile(batch.column("content")[place].as_buffer(), run)
            for rows in _of_file(Path(path), held):
                own = [row | {FILE: path} for row in rows if not runs or row.get("run") in (None, *runs)]
                yield pa.RecordBatch.from_pylist(own, PACKED_PIECES)


def _of_file(file: Path, held: HeldFile) -> Iterator[list[dict[str, Any]]]:
    """The pieces of a file, row group by row group. One row without a piece says that the file was read."""
    try:
        units = units_of(file, held)
        if not units:
            yield [{"rows": 0, "damage": f"{file.name} has no readable end" if units is None else None}]
        for unit in units or ():
            yield _of_unit(unit, held)
    except UnusableHistoryError as error:
        yield [{"problem": error.problem}]


def _of_unit(unit: Unit, held: HeldFile) -> list[dict[str, Any]]:
    try:
        pieces = [part for piece in cut(read_unit(unit, held=held)) for part in parts_of(piece, BATCH_ROWS)]
        return [packed_piece(piece) | {"version": None} for piece in pieces]
    except DamagedRowGroupError as error:
        stretch = stretch_of(unit, held)
        damage = {"rows": 0, "first_index": unit.first_row, "damage": extent_text(Damage(unit, error.problem), stretch)}
        return [damage | ({} if stretch is None else {"run": stretch.run, "process": f"{stretch[1]}/{stretch[2]}"})]
