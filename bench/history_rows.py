"""Rows of a generated history as columns, and their files: like those of a recorder, but written faster.

`Rows` are some rows of one log, in order; names, labels and lists of members are indices into a `Vocabulary`. A
`LogWriter` takes them piece by piece, numbers them, and emits a segment whenever it has SEGMENT_ROWS: so memory is
bounded by one segment per log, however long the history is. `write_to` writes the segments to files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from antiphon.history.schema import KINDS, SCHEMA
from antiphon.history.segments import segment_file

Ints = npt.NDArray[np.int64]

NONE: Final = -1
SEGMENT_ROWS: Final = 131_072
MESSAGE_BYTES: Final = 64
START, SEND, DELIVER, VIEW, CRASH, STOP, NOTE = (
    KINDS.index(kind) for kind in ("start", "send", "deliver", "view", "crash", "stop", "note")
)
MADE_LEVELS: Final = ("reliable", "fifo", "causal", "agreed", "safe")
"""The levels of generated histories: those that most stacks offer."""
AT_RELIABLE, AT_FIFO, AT_CAUSAL, AT_AGREED, AT_SAFE = range(len(MADE_LEVELS))
PRIVATE: Final = 3
"""The `part` of a delivery that is one member's alone."""


class _Column:
    """One column of `Rows`."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, rows: "Rows", _: type["Rows"]) -> Ints:
        column: Ints = rows.cells[self._place]
        return column

    def __set__(self, rows: "Rows", values: npt.ArrayLike) -> None:
        rows.cells[self._place] = values


COLUMNS: Final = (
    *("kind", "time_ns", "group", "view", "members", "sender", "number", "count", "level", "label", "destinations"),
    *("round", "part", "extra"),
)
_PLACES: Final = {name: place for place, name in enumerate(COLUMNS)}


class Rows:
    """One entry per row in each column; NONE stands for null. All columns are one array, so that many go at once."""

    kind = _Column(_PLACES["kind"])
    time_ns = _Column(_PLACES["time_ns"])
    group = _Column(_PLACES["group"])
    view = _Column(_PLACES["view"])
    members = _Column(_PLACES["members"])
    sender = _Column(_PLACES["sender"])
    number = _Column(_PLACES["number"])
    count = _Column(_PLACES["count"])
    level = _Column(_PLACES["level"])
    label = _Column(_PLACES["label"])
    destinations = _Column(_PLACES["destinations"])
    round = _Column(_PLACES["round"])
    """In which round a delivered message was sent; not written."""
    part = _Column(_PLACES["part"])
    """0 for a whole burst, 1 and 2 for its halves where it is delivered in two; not written."""

    extra = _Column(_PLACES["extra"])
    """Payload bytes beyond those that were sent, where there are some."""

    def __init__(self, cells: Ints) -> None:
        self.cells = cells

    def __len__(self) -> int:
        return int(self.cells.shape[1])

    def take(self, order: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> "Rows":
        """A copy of some rows: by their places, or those that are chosen."""
        return Rows(self.cells.take(order.nonzero()[0] if order.dtype == bool else order, axis=1))


def make_rows(length: int, **columns: npt.ArrayLike) -> Rows:
    """Rows of which some columns are set; a single value stands for all rows."""
    cells = np.full((len(COLUMNS), length), NONE, np.int64)
    for name, values in columns.items():
        cells[_PLACES[name]] = values
    return Rows(cells)


def join(parts: Sequence[Rows]) -> Rows:
    return Rows(np.concatenate([part.cells for part in parts], axis=1))


class Vocabulary:
    """Distinct values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[object, int] = {}

    def place(self, value: object) -> int:
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(value)
        return self._places[value]


@dataclass
class Words:
    """All vocabularies of a run. A sender is (name, incarnation)."""

    groups: Vocabulary
    senders: Vocabulary
    labels: Vocabulary
    lists: Vocabulary

    @classmethod
    def empty(cls) -> "Words":
        return cls(Vocabulary(), Vocabulary(), Vocabulary(), Vocabulary())


class Segment(NamedTuple):
    """Some rows of the log of one process incarnation, and which of its segments they are."""

    process: str
    incarnation: int
    place: int
    table: pa.Table


Keep = Callable[[Segment], None]
"""What becomes of a segment."""


def write_to(directory: Path) -> Keep:
    """Segments become files, as a recorder names them."""
    directory.mkdir(parents=True, exist_ok=True)

    def write(segment: Segment) -> None:
        file = segment_file(directory, segment.process, segment.incarnation, segment.place)
        rows = len(segment.table)
        pq.write_table(segment.table, file, compression="zstd", row_group_size=rows, store_schema=False)

    return write


class LogWriter:
    """The log of one process incarnation, on its way to segments."""

    def __init__(self, keep: Keep, run: str, process: str, incarnation: int, words: Words) -> None:
        self._keep = keep
        self._run = run
        self._process = process
        self._incarnation = incarnation
        self._words = words
        self._waiting: list[Rows] = []
        self._waiting_rows = 0
        self._segment = 0
        self.rows = 0
        self.events = 0

    def add(self, rows: Rows) -> None:
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self.events += int(np.maximum(rows.count, 1).sum())
        if self._waiting_rows >= SEGMENT_ROWS:
            together = join(self._waiting)
            whole = len(together) // SEGMENT_ROWS * SEGMENT_ROWS
            for first in range(0, whole, SEGMENT_ROWS):
                self._write(together.take(np.arange(first, first + SEGMENT_ROWS)))
            self._waiting = [together.take(np.arange(whole, len(together)))]
            self._waiting_rows = len(together) - whole

    def close(self) -> None:
        if self._waiting_rows:
            self._write(join(self._waiting))
        self._waiting, self._waiting_rows = [], 0

    def _write(self, rows: Rows) -> None:
        self._keep(Segment(self._process, self._incarnation, self._segment, self._table(rows)))
        self._segment += 1
        self.rows += len(rows)

    def _table(self, rows: Rows) -> pa.Table:
        """Strings stay dictionaries up to the file, where they are strings again."""
        length = len(rows)
        messages = rows.count != NONE
        names = [name for name, _ in self._words.senders.values]
        incarnations = np.array([number for _, number in self._words.senders.values], np.int64)
        columns = {
            "run": _words(np.zeros(length, np.int64), [self._run]),
            "process": _words(np.zeros(length, np.int64), [self._process]),
            "incarnation": pa.array(np.full(length, self._incarnation)),
            "index": pa.array(np.arange(self.rows, self.rows + length)),
            "time_ns": pa.array(rows.time_ns),
            "kind": _words(rows.kind, KINDS),
            "group": _words(rows.group, self._words.groups.values),
            "view": pa.array(rows.view, mask=rows.view == NONE),
            "members": _lists(rows.members, self._words.lists.values),
            "sender": _words(rows.sender, names),
            "sender_incarnation": pa.array(incarnations[rows.sender], mask=rows.sender == NONE),
            "number": pa.array(rows.number, mask=rows.number == NONE),
            "count": pa.array(rows.count, mask=~messages),
            "level": _words(rows.level, MADE_LEVELS),
            "label": _words(rows.label, self._words.labels.values),
            "destinations": _lists(rows.destinations, self._words.lists.values),
            "size": pa.array(rows.count * MESSAGE_BYTES + np.maximum(rows.extra, 0), mask=~messages),
            "digest": pa.nulls(length, pa.string()),
        }
        return pa.table([columns[name] for name in SCHEMA.names], names=SCHEMA.names, metadata=SCHEMA.metadata)


def _words(codes: Ints, values: Sequence[object]) -> pa.DictionaryArray:
    indices = pa.array(codes.astype(np.int32), mask=codes == NONE)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def _lists(codes: Ints, values: Sequence[object]) -> pa.Array:
    """Mostly null: the few lists are taken one by one."""
    known = pa.array(values or [()], pa.list_(pa.string()))
    return known.take(pa.array(np.maximum(codes, 0), mask=codes == NONE))
