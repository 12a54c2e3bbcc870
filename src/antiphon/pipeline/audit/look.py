"""A second look: single deliver rows that the driver asks to see, because the summaries do not tell enough.

It wishes for few: the order of deliveries of one process per view, what was delivered of lost messages, and, only where
something is out of order, all agreed and safe deliveries of a group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import Key, message_rows
from antiphon.pipeline.intervals import Ints

LogName = tuple[str, str]
"""Run and process."""


class Wish(NamedTuple):
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


Wishes = Mapping[LogName, Sequence[Wish]]
Sights = Mapping[tuple[str, str], Mapping[str, Seen]]
"""(run, group) → process → rows."""
Look = Callable[[Wishes], Sights]

LOOK: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "group", "process", "sender")),
        *((name, pa.int64()) for name in ("index", "start", "end")),
    ]
)


def look(piece: Piece, wishes: Sequence[Wish]) -> pa.RecordBatch:
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
    chosen = np.flatnonzero(wanted)
    columns: list[object] = [[piece.run] * len(chosen)]
    columns.append([rows.keys[key][0] for key in rows.key[chosen]])
    columns.append([piece.process] * len(chosen))
    columns.append([rows.keys[key][1] for key in rows.key[chosen]])
    columns += [rows.index[chosen], rows.start[chosen], rows.end[chosen]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, LOOK, strict=True)], schema=LOOK
    )


def sights_of(table: pa.Table) -> dict[tuple[str, str], dict[str, Seen]]:
    """The rows of a table of LOOK, log by log."""
    table = table.sort_by([(name, "ascending") for name in ("run", "group", "process", "index")]).combine_chunks()
    owner = list(zip(*(table[name].to_pylist() for name in ("run", "group", "process")), strict=True))
    bounds = [place for place in range(len(owner)) if place == 0 or owner[place] != owner[place - 1]]
    result: dict[tuple[str, str], dict[str, Seen]] = {}
    for first, end in pairwise([*bounds, len(owner)]):
        run, group, process = owner[first]
        part = table.slice(first, end - first)
        senders = part["sender"].combine_chunks().dictionary_encode()
        numbers = [part[name].to_numpy().astype(np.int64) for name in ("start", "end", "index")]
        keys = [(group, sender) for sender in senders.dictionary.to_pylist()]
        result.setdefault((run, group), {})[process] = Seen(keys, np.asarray(senders.indices, np.int64), *numbers)
    return result
