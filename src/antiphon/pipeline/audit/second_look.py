"""A second look: single deliver rows that the driver asks to see, because the summaries do not tell enough.

It wishes for few: the order of deliveries of one process per view, what was delivered of lost messages, and, only where
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
class Seen:
    """The rows of a log and group that were asked for, in order of index: each the numbers [start, end) of a sender."""

    keys: list[Key]
    key: Ints
    """Places in `keys`."""
    start: Ints
    end: Ints
    index: Ints

    def between(self, first_index: int, end_index: int) -> "Seen":
        part = slice(*np.searchsorted(self.index, [first_index, end_index]))
        return Seen(self.keys, self.key[part], self.start[part], self.end[part], self.index[part])


Wishes = Mapping[LogName, Sequence[RowQuery]]
Sights = Mapping[tuple[str, str], Mapping[str, Seen]]
"""(run, group) → process → rows."""
Look = Callable[[Wishes], Sights]

LOOK: Final = pa.schema(
    [
        # One row per group of a piece that has any; the rows that were asked for are columns, packed.
        *((name, pa.string()) for name in ("run", "group", "process")),
        ("first_index", pa.int64()),
        ("senders", pa.list_(pa.string())),
        *((name, pa.binary()) for name in ("sender", "start", "count", "index")),
    ]
)


def look(piece: Piece, wishes: Sequence[RowQuery]) -> pa.RecordBatch:
    """The rows of a piece that are wished for, each once, as rows of LOOK."""
    rows = message_rows(piece.table, "deliver")
    wanted = np.zeros(len(rows.key), bool)
    first, last = (piece.table["index"][place].as_py() for place in (0, -1))
    for wish in wishes:
        if wish.first_index > last or wish.end_index <= first:
            continue
        mask = rows.of_group(wish.group) & (rows.index >= wish.first_index) & (rows.index < wish.end_index)
        if wish.sender is not None:
            mask &= np.array([sender == wish.sender for _, sender in rows.keys], bool)[rows.key]
        if wish.level is not None:
            mask &= rows.level == wish.level
        wanted |= mask
    log = {"run": piece.run, "process": piece.process}
    chosen = rows.chosen(wanted)
    groups = sorted({chosen.keys[key][0] for key in np.unique(chosen.key)})
    return pa.RecordBatch.from_pylist([log | _packed(chosen, group) for group in groups], LOOK)


def _packed(rows: MessageRows, group: str) -> dict[str, Any]:
    own = rows.chosen(rows.of_group(group))
    places, sender = np.unique(own.key, return_inverse=True)
    columns = {"sender": sender, "start": own.start, "count": own.end - own.start, "index": own.index}
    found: dict[str, Any] = {name: pack(column) for name, column in columns.items()}
    found |= {"group": group, "first_index": int(own.index[0]), "senders": [own.keys[place][1] for place in places]}
    return found


def sights_of(table: pa.Table) -> dict[tuple[str, str], dict[str, Seen]]:
    """The rows of a table of LOOK, log by log."""
    pieces: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for piece in table.sort_by("first_index").to_pylist():
        pieces[piece["run"], piece["group"], piece["process"]].append(piece)
    result: dict[tuple[str, str], dict[str, Seen]] = {}
    for (run, group, process), own in sorted(pieces.items()):
        senders = sorted({sender for piece in own for sender in piece["senders"]})
        places = {sender: place for place, sender in enumerate(senders)}
        parts = [np.array([places[sender] for sender in piece["senders"]])[unpack(piece["sender"])] for piece in own]
        start, count, index = (
            np.concatenate([unpack(piece[name]) for piece in own]) for name in ("start", "count", "index")
        )
        keys = [(group, sender) for sender in senders]
        result.setdefault((run, group), {})[process] = Seen(keys, np.concatenate(parts), start, start + count, index)
    return result
