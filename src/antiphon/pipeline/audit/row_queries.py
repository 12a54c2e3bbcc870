"""Row queries: single deliver rows that the driver asks the workers for, because the summaries do not tell enough.

It asks for few: the order of deliveries of one process per view, what was delivered of lost messages, and, only where
something is out of order, all agreed and safe deliveries of a group.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import Key, MessageRows, message_rows
from antiphon.pipeline.intervals import Ints
from antiphon.pipeline.packing import pack, unpack

LogName = tuple[str, str]
"""Run and process."""


class RowQuery(NamedTuple):
    """Which deliver rows of a log to show: of a group, within [first_index, end_index), and where it is named, of one
    sender, or at one level."""

    group: str
    first_index: int
    end_index: int
    sender: str | None = None
    level: int | None = None


@dataclass(frozen=True)
class QueriedRows:
    """The rows of a log and group that were asked for, in order of index: each the numbers [start, end) of a sender."""

    keys: list[Key]
    key: Ints
    """Places in `keys`."""
    start: Ints
    end: Ints
    index: Ints
    level: Ints
    """The rank of the level."""

    def between(self, first_index: int, end_index: int) -> "QueriedRows":
        part = slice(*np.searchsorted(self.index, [first_index, end_index]))
        return QueriedRows(
            self.keys, self.key[part], self.start[part], self.end[part], self.index[part], self.level[part]
        )

    def and_then(self, more: "QueriedRows") -> "QueriedRows":
        """These rows and later ones of the same log and keys."""
        names = ("key", "start", "end", "index", "level")
        return QueriedRows(self.keys, *(np.concatenate((getattr(self, n), getattr(more, n))) for n in names))


RowQueries = Mapping[LogName, Sequence[RowQuery]]
QueryResults = Mapping[tuple[str, str], Mapping[str, QueriedRows]]
"""(run, group) → process → rows."""
ReadRows = Callable[[RowQueries], QueryResults]

QUERIED_ROWS: Final = pa.schema(
    [
        # One row per group of a piece that has any; the rows that were asked for are columns, packed.
        *((name, pa.string()) for name in ("run", "group", "process")),
        ("first_index", pa.int64()),
        ("senders", pa.list_(pa.string())),
        *((name, pa.binary()) for name in ("sender", "start", "count", "index", "level")),
    ]
)


def select_rows(piece: Piece, queries: Sequence[RowQuery]) -> pa.RecordBatch:
    """The rows of a piece that are asked for, each once, as rows of QUERIED_ROWS."""
    rows = message_rows(piece.table, "deliver")
    wanted = np.zeros(len(rows.key), bool)
    first, last = (piece.table["index"][place].as_py() for place in (0, -1))
    for query in queries:
        if query.first_index > last or query.end_index <= first:
            continue
        mask = rows.of_group(query.group) & (rows.index >= query.first_index) & (rows.index < query.end_index)
        if query.sender is not None:
            mask &= np.array([sender == query.sender for _, sender in rows.keys], bool)[rows.key]
        if query.level is not None:
            mask &= rows.level == query.level
        wanted |= mask
    log = {"run": piece.run, "process": piece.process}
    chosen = rows.chosen(wanted)
    groups = sorted({chosen.keys[key][0] for key in np.unique(chosen.key)})
    return pa.RecordBatch.from_pylist([log | _packed(chosen, group) for group in groups], QUERIED_ROWS)


def _packed(rows: MessageRows, group: str) -> dict[str, Any]:
    own = rows.chosen(rows.of_group(group))
    places, sender = np.unique(own.key, return_inverse=True)
    columns = {"sender": sender, "start": own.start, "count": own.end - own.start}
    columns |= {"index": own.index, "level": own.level}
    found: dict[str, Any] = {name: pack(column) for name, column in columns.items()}
    found |= {"group": group, "first_index": int(own.index[0]), "senders": [own.keys[place][1] for place in places]}
    return found


def results_of(table: pa.Table) -> dict[tuple[str, str], dict[str, QueriedRows]]:
    """The rows of a table of QUERIED_ROWS, log by log."""
    pieces: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for piece in table.sort_by("first_index").to_pylist():
        pieces[piece["run"], piece["group"], piece["process"]].append(piece)
    result: dict[tuple[str, str], dict[str, QueriedRows]] = {}
    for (run, group, process), own in sorted(pieces.items()):
        senders = sorted({sender for piece in own for sender in piece["senders"]})
        places = {sender: place for place, sender in enumerate(senders)}
        parts = [np.array([places[sender] for sender in piece["senders"]])[unpack(piece["sender"])] for piece in own]
        start, count, index, level = (
            np.concatenate([unpack(piece[name]) for piece in own]) for name in ("start", "count", "index", "level")
        )
        keys = [(group, sender) for sender in senders]
        result.setdefault((run, group), {})[process] = QueriedRows(
            keys, np.concatenate(parts), start, start + count, index, level
        )
    return result
