"""Walking a history log by log, row by row, in order of index.

A log is what it holds from index 0 up to its first gap; what lies behind a gap is not walked. Row groups that share a
stretch of a log are read together and sorted; where the recorder wrote the files there are none such.

Memory: per log that is being walked, one row group (or the few that share a stretch) as an Arrow table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import LOG_COLUMNS, HistoryFiles, Unit, read_unit, rows_of_table, stretches
from antiphon.history.schema import Row

ROWS_AT_ONCE: Final = 4096
"""So many rows of a row group are plain values at a time."""


class LogKey(NamedTuple):
    """Which log."""

    run: str
    process: str
    incarnation: int

    @property
    def name(self) -> str:
        return f"{self.process}/{self.incarnation}"


class _Extent(NamedTuple):
    """First and last index of a log in a row group."""

    first: int
    last: int
    unit: Unit


@dataclass(frozen=True)
class LogFiles:
    """Where one log lies."""

    key: LogKey
    pieces: tuple[tuple[Unit, ...], ...]
    """Row groups in order of index; those of one piece share a stretch."""

    def rows(self) -> Iterator[Row]:
        """The rows from index 0 up to the first gap."""
        expected = 0
        for table in self.tables():
            for first in range(0, len(table), ROWS_AT_ONCE):
                for row in rows_of_table(table.slice(first, ROWS_AT_ONCE)):
                    if row.index != expected:
                        return
                    expected += 1
                    yield row

    def tables(self) -> Iterator[pa.Table]:
        """The rows of the log piece by piece, in order of index, also those behind a gap."""
        for piece in self.pieces:
            tables = [own_rows(read_unit(unit), self.key) for unit in piece]
            yield pa.concat_tables(tables).sort_by("index")


def own_rows(table: pa.Table, key: LogKey) -> pa.Table:
    """What a table holds of one log."""
    own = [pc.equal(table[name], value) for name, value in zip(LOG_COLUMNS, key, strict=True)]
    return table.filter(pc.and_(pc.and_(own[0], own[1]), own[2]))


def find_logs(history: HistoryFiles, run: str | None = None) -> list[LogFiles]:
    """All logs of a history, or of one of its runs, by name."""
    extents: dict[LogKey, list[_Extent]] = {}
    for unit in history.units:
        for stretch in stretches(unit):
            extents.setdefault(LogKey(*stretch[:3]), []).append(_Extent(stretch.first_index, stretch.last_index, unit))
    runs = {key.run for key in extents}
    if run is not None and run not in runs:
        known = ", ".join(sorted(runs)[:5])
        raise UnusableHistoryError(history.path, f"it holds no run {run!r}; it holds {known}")
    return [LogFiles(key, tuple(_pieces(own))) for key, own in sorted(extents.items()) if run is None or key.run == run]


def by_run(logs: Sequence[LogFiles]) -> dict[str, list[LogFiles]]:
    """The logs of each run."""
    result: dict[str, list[LogFiles]] = {}
    for log in logs:
        result.setdefault(log.key.run, []).append(log)
    return result


def _pieces(extents: list[_Extent]) -> Iterator[tuple[Unit, ...]]:
    piece: list[Unit] = []
    reach = -1
    for extent in sorted(extents, key=lambda extent: (extent.first, extent.last)):
        if piece and extent.first > reach:
            yield tuple(piece)
            piece = []
        piece.append(extent.unit)
        reach = max(reach, extent.last)
    yield tuple(piece)
