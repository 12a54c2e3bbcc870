"""Walking over all rows of one run, a row group at a time, with names as numbers.

Only the columns that are asked for are decoded, and row groups that Parquet's statistics show to be of other runs are
not touched. Memory: one row group, and one entry per name that was met.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import SCHEMA
from antiphon.pipeline.intervals import Ints

NAMES: Final = tuple(field.name for field in SCHEMA if field.type == pa.string() and field.name != "digest")
"""The columns that are kept as dictionaries: few values, many rows."""

DENSE_MAX: Final = 1 << 20


class RunScan:
    """The row groups that may hold rows of `run`."""

    def __init__(self, history: HistoryFiles, run: str) -> None:
        self.run = run
        self._row_groups: dict[str, list[int]] = {}
        places: dict[str, set[int]] = {}
        for unit in history.units:
            places.setdefault(unit.file, set()).add(unit.row_group)
        for file, wanted in places.items():
            metadata = pq.read_metadata(file)
            own = [place for place in sorted(wanted) if _may_hold(metadata.row_group(place), run)]
            if own:
                self._row_groups[file] = own

    @property
    def files(self) -> list[str]:
        return list(self._row_groups)

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """The run's rows, `columns` only, one row group at a time; each log in its own order."""
        wanted = list(dict.fromkeys(("run", *columns)))
        for file, places in self._row_groups.items():
            with ExitStack() as stack:
                try:
                    parquet = stack.enter_context(pq.ParquetFile(file, read_dictionary=list(NAMES)))
                    for place in places:
                        yield self._own(parquet.read_row_group(place, columns=wanted))
                except (pa.ArrowException, OSError) as error:
                    raise UnusableHistoryError(Path(file), f"it cannot be read again ({error})") from error

    def _own(self, table: pa.Table) -> pa.Table:
        values = pc.unique(table["run"]).to_pylist()
        return table if values == [self.run] else table.filter(pc.equal(table["run"], self.run))


def _may_hold(row_group: Any, run: str) -> bool:
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        if column.path_in_schema == "run":
            statistics = column.statistics
            return statistics is None or not statistics.has_min_max or statistics.min <= run <= statistics.max
    return True


class Numbering:
    """Numbers 0, 1, 2… for combinations of values of some columns, in the order in which they are met."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.known: dict[tuple[Any, ...], int] = {}

    def of(self, table: pa.Table) -> Ints:
        """The number of each row's combination."""
        combined = np.zeros(table.num_rows, np.int64)
        for name in self.columns:
            codes, values = _codes(table[name])
            combined = _dense(combined * values + codes)  # dense at each step, so that no product can overflow
        rows = np.arange(table.num_rows)
        firsts = np.zeros(combined.max(initial=-1) + 1, np.int64)
        firsts[combined[::-1]] = rows[::-1]
        keys = zip(*(table[name].take(pa.array(firsts)).to_pylist() for name in self.columns), strict=True)
        numbers = np.array([self.known.setdefault(key, len(self.known)) for key in keys], np.int64)
        result: Ints = numbers[combined]
        return result


def _dense(codes: Ints) -> Ints:
    """The codes renumbered 0, 1, 2… without gaps, in their order."""
    if codes.max(initial=0) >= DENSE_MAX:
        return np.unique(codes, return_inverse=True)[1].reshape(-1)
    present = np.zeros(codes.max(initial=-1) + 1, np.int64)
    present[codes] = 1
    result: Ints = (np.cumsum(present) - 1)[codes]
    return result


def _codes(column: pa.ChunkedArray) -> tuple[Ints, int]:
    """Each row's value as a number, and how many numbers there are; what is null has one too."""
    array = pa.concat_arrays(column.unify_dictionaries().chunks) if column.num_chunks else pa.array([], column.type)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = len(encoded.dictionary)
    codes = encoded.indices.fill_null(values).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, values + 1


def ints(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers, zero where there is none."""
    return np.asarray(pc.fill_null(table[name], 0).to_numpy(), np.int64)


def of_kinds(table: pa.Table, *kinds: str) -> pa.Table:
    """The rows of these kinds."""
    return table.filter(pc.is_in(table["kind"], pa.array(kinds)))


class Thinned:
    """Rows of equally many whole numbers, of which every first, second, fourth… is kept so that they stay bounded."""

    def __init__(self, width: int, rows_max: int) -> None:
        self.stride = 1
        """One row is kept of so many."""
        self._rows_max = rows_max
        self._seen = 0
        self._kept: list[Ints] = []
        self._width = width
        self._count = 0

    def add(self, rows: Ints) -> None:
        """Rows as an array of (rows, width)."""
        first = -self._seen % self.stride
        self._seen += len(rows)
        chosen = rows[first :: self.stride]
        self._kept.append(chosen)
        self._count += len(chosen)
        while self._count > self._rows_max:
            self._kept = [self.rows()[::2].copy()]
            self._count = len(self._kept[0])
            self.stride *= 2

    def rows(self) -> Ints:
        result: Ints = np.concatenate(self._kept) if self._kept else np.zeros((0, self._width), np.int64)
        return result
