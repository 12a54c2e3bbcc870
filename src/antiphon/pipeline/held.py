"""What an audit must know of a history beside the rows that its tasks read, wherever these rows are.

They lie in files of this machine, or Spark hands them to a task that judges whole runs, so that they are in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from antiphon.history.reader import HistoryFiles
from antiphon.pipeline.audit.pieces import Piece

LogName = tuple[str, str]
"""Run, and "name/incarnation"."""


class RecordedHistory(ABC):
    """A history beside its rows."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many there are."""

    @abstractmethod
    def unfinished(self) -> dict[LogName, str]:
        """Of which logs something is known to be gone, and what it is, in words."""

    @abstractmethod
    def first_delivery(self, run: str, process: str, group: str, sender: str, number: int) -> int | None:
        """The index of the row by which a process first delivered a message."""


@dataclass(frozen=True)
class FileHistory(RecordedHistory):
    """A history in files of this machine."""

    files: HistoryFiles

    @property
    def rows(self) -> int:
        return self.files.rows

    def unfinished(self) -> dict[LogName, str]:
        return self.files.unfinished()

    def first_delivery(self, run: str, process: str, group: str, sender: str, number: int) -> int | None:
        row = self.files.first_delivery(run, process, group, sender, number)
        return None if row is None else row.index


@dataclass(frozen=True)
class HeldHistory(RecordedHistory):
    """Pieces in memory, and which logs were cut short, with the cause in words."""

    pieces: Sequence[Piece]
    cut_short: Mapping[LogName, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(piece.table) for piece in self.pieces)

    def unfinished(self) -> dict[LogName, str]:
        return dict(self.cut_short)

    def first_delivery(self, run: str, process: str, group: str, sender: str, number: int) -> int | None:
        found = [
            index
            for piece in self.pieces
            if (piece.run, piece.process) == (run, process)
            and (index := delivery_in(piece, group, sender, number)) is not None
        ]
        return min(found, default=None)


def delivery_in(piece: Piece, group: str, sender: str, number: int) -> int | None:
    """The index of the first row of a piece that delivers a message."""
    name, _, incarnation = sender.rpartition("/")
    chosen = (
        (pc.field("kind") == "deliver")
        & (pc.field("group") == group)
        & (pc.field("sender") == name)
        & (pc.field("sender_incarnation") == int(incarnation))
        & (pc.field("number") <= number)
        & (pc.field("number") + pc.field("count") > number)
    )
    index: int | None = pc.min(piece.table.filter(chosen)["index"]).as_py()
    return index
