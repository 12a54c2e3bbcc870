"""Logs of simulated processes: the rows that the real recorder is given, kept in memory instead of on disk."""

from collections.abc import Iterable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Final, final

from antiphon.history.log import Log
from antiphon.history.schema import LEFT, Row
from antiphon.history.schema import STALLED as STANDS_STILL

if TYPE_CHECKING:
    from antiphon.testing.host import Program

STALLED: Final = "stalled"
"""How the log of a process ends that was in a group that stood still for want of a majority."""


def stalled_groups(rows: Iterable[Row]) -> list[str]:
    """The groups that stood still for want of a majority at the end of these rows."""
    stalled: dict[str, None] = {}
    for row in rows:
        if row.group is None:
            continue
        if row.kind == "note" and row.label == STANDS_STILL:
            stalled[row.group] = None
        elif row.kind == "view" or (row.kind == "note" and row.label == LEFT):
            stalled.pop(row.group, None)
    return list(stalled)


@final
class ProgramLog(Log):
    """What one process incarnation recorded, up to the moment in which its program was killed."""

    def __init__(self, program: "Program", *, run: str, process: str, incarnation: int) -> None:
        super().__init__(run=run, process=process, incarnation=incarnation)
        self._rows_lock = RLock()  # type: ignore[assignment]  # a kill that strikes within a row reads the rows
        self._program = program
        self._kept: list[Row] | None = None

    def _before_row(self, time_ns: int) -> None:
        self._program.touch()

    @property
    def is_ended(self) -> bool:
        """Whether the last row is a last row."""
        rows = list(self.rows())
        return bool(rows) and rows[-1].kind in ("stop", "crash")

    def cut(self, why: str, time_ns: int) -> None:
        """The program is dead: the last row is that it was killed, and what it may still record is kept nowhere."""
        if self._kept is None:
            if not self.is_ended:
                self.crash(max(time_ns, self._last_ns()), why)
            self._kept = list(self.rows())

    def end(self, why: str, time_ns: int) -> None:
        """The simulation is over."""
        if self._kept is None:
            self.stop(max(time_ns, self._last_ns()), why)
            self._kept = list(self.rows())

    def close(self) -> None:
        """All is where it shall be."""

    def rows(self) -> Iterator[Row]:
        """All rows that were recorded while the program lived."""
        if self._kept is not None:
            yield from self._kept
            return
        for index, cells in enumerate(self._complete_rows()):
            yield Row(self.run, self.process, self.incarnation, index, *cells)

    def _last_ns(self) -> int:
        rows = self._complete_rows()
        return rows[-1][0] if rows else 0
