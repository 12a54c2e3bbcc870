"""How a history is cut up for the passes over it.

A *task* is one row group, or several where they share a stretch of some log; a *piece* is what one task holds of one
log, in order of index. Pieces of a log never interleave, so that a pass can work on each by itself, with a seed for
what came before it. The recorder writes one log per file, in order: there each row group is one task and one piece.
On Spark rows are cut up as they are read (`antiphon.pipeline.scan`), and a task holds its pieces.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import DamagedRowGroupError
from antiphon.history.reader import LOG_COLUMNS, HistoryFiles, Unit, read_unit, stretches

ORDER: Final = [(name, "ascending") for name in (*LOG_COLUMNS, "index")]


class Piece(NamedTuple):
    """The rows that one task holds of one log, in order of index."""

    run: str
    process: str
    """"name/incarnation"."""
    table: pa.Table


class HeldTask(NamedTuple):
    """Pieces that are in memory already."""

    pieces: tuple[Piece, ...]


FileTask = tuple[Unit, ...]
Task = FileTask | HeldTask


class Extent(NamedTuple):
    """Where a piece lies: first and last index of a log in a row group."""

    run: str
    process: str
    incarnation: int
    first: int
    last: int
    place: int
    """Which row group, by its place in the history."""


def plan(history: HistoryFiles) -> list[FileTask]:
    """The tasks of a history: row groups that share a stretch of a log belong together."""
    extents = sorted(extent for place, unit in enumerate(history.units) for extent in _extents(unit, place))
    joined = list(range(len(history.units)))

    def root(place: int) -> int:
        while joined[place] != place:
            place = joined[place]
        return place

    reach: Extent | None = None
    for extent in extents:
        if reach is not None and reach[:3] == extent[:3] and extent.first <= reach.last:
            joined[root(extent.place)] = root(reach.place)
        if reach is None or reach[:3] != extent[:3] or extent.last > reach.last:
            reach = extent
    tasks: dict[int, list[Unit]] = {}
    for place, unit in enumerate(history.units):
        tasks.setdefault(root(place), []).append(unit)
    return [tuple(units) for units in tasks.values()]


def read_pieces(task: Task, columns: Sequence[str] | None = None) -> Iterator[Piece]:
    """The pieces of a task, one by one; where columns are named, those alone, and unchecked as by `read_unit`."""
    if isinstance(task, HeldTask):
        yield from task.pieces
        return
    if not task:
        return
    names = None if columns is None else dict.fromkeys((*LOG_COLUMNS, "index", *columns))
    table = pa.concat_tables([read_unit(unit, None if names is None else list(names)) for unit in task])
    yield from _pieces_of(table)


def read_whole_logs(history: HistoryFiles) -> list[HeldTask]:
    """Each log as one piece in memory, for a history that is small. Raises DamagedRowGroupError."""
    logs: dict[tuple[str, str], list[pa.Table]] = {}
    for unit in history.units:
        for piece in _pieces_of(read_unit(unit)):
            logs.setdefault((piece.run, piece.process), []).append(piece.table)
    tasks = []
    for (run, process), parts in logs.items():
        table = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
        index = table["index"].to_numpy()
        tasks.append(HeldTask((Piece(run, process, table if _rises(index) else table.sort_by("index")),)))
    return tasks


def _pieces_of(table: pa.Table) -> Iterator[Piece]:
    if not _in_order(table):
        table = table.sort_by(ORDER)
    for first, end in pairwise(_log_bounds(table)):
        part = table.slice(first, end - first)
        run, name, incarnation = (part[column][0].as_py() for column in LOG_COLUMNS)
        yield Piece(run, f"{name}/{incarnation}", part)


def _rises(index: npt.NDArray[np.int64]) -> bool:
    return bool((index[1:] > index[:-1]).all())


def _log_bounds(table: pa.Table) -> list[int]:
    """Where one log ends and the next begins."""
    same = np.ones(max(len(table) - 1, 0), bool)
    for name in LOG_COLUMNS:
        column = table[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return [0, *(np.flatnonzero(~same) + 1).tolist(), len(table)]


def _in_order(table: pa.Table) -> bool:
    """Whether there is one log only, in rising order of index."""
    return len(_log_bounds(table)) == 2 and _rises(table["index"].to_numpy())


def _extents(unit: Unit, place: int) -> list[Extent]:
    """Of each log in a row group; what cannot be read, the first pass will tell."""
    try:
        return [Extent(*stretch, place) for stretch in stretches(unit)]
    except DamagedRowGroupError:
        return []
