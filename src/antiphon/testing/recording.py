"""Logs of simulated processes: the rows that the real recorder is given, in memory, so that a run is judged by all that
its programs did, whatever is left of it on disk.

A program that records into a directory has the real recorder as well. Its thread is a worker of the simulation: it
writes in virtual time, and stops in the middle when the program is killed.
"""

from collections.abc import Iterable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, final

from antiphon.history.log import Log
from antiphon.history.schema import LEFT, Row
from antiphon.history.schema import STALLED as STANDS_STILL

if TYPE_CHECKING:
    from antiphon.history.recorder import Recorder
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


class VirtualThread:
    """The background thread of a recorder, in virtual time."""

    def __init__(self, program: "Program", recorder: "Recorder", every_ns: int) -> None:
        self._program = program
        self._recorder = recorder
        self._every_ns = every_ns
        self._over = False
        program.at_death[program.timeline.number()] = self._die
        self._again()

    def _again(self) -> None:
        self._program.timeline.at(self._program.timeline.now_ns + self._every_ns, self._round)

    def _round(self) -> None:
        if self._over:
            return
        if not self._program.is_paused:
            self._program.touch()
            if self._over:
                return
            self._recorder.write_round()
        self._again()

    def join(self) -> None:
        """Write what is left."""
        self._over = True
        self._recorder.write_round()

    def _die(self, power: bool) -> None:
        if not self._over:
            self._over = True
            self._recorder.abandon()


class DiskLog(Log):
    """Records into memory and, as long as the program lives, with the real recorder."""

    def __init__(self, program: "Program", memory: ProgramLog, recorder: "Recorder") -> None:
        super().__init__(run=memory.run, process=memory.process, incarnation=memory.incarnation)
        self._program = program
        self._memory = memory
        self._recorder = recorder

    def _both(self, name: str, *arguments: Any, **named: Any) -> None:
        getattr(self._memory, name)(*arguments, **named)
        if self._program.is_alive:
            getattr(self._recorder, name)(*arguments, **named)

    def start(self, *arguments: Any, **named: Any) -> None:
        self._both("start", *arguments, **named)

    def view(self, *arguments: Any, **named: Any) -> None:
        self._both("view", *arguments, **named)

    def transitional(self, *arguments: Any, **named: Any) -> None:
        self._both("transitional", *arguments, **named)

    def send(self, *arguments: Any, **named: Any) -> None:
        self._both("send", *arguments, **named)

    def depart(self, *arguments: Any, **named: Any) -> None:
        self._both("depart", *arguments, **named)

    def receive(self, *arguments: Any, **named: Any) -> None:
        self._both("receive", *arguments, **named)

    def deliver(self, *arguments: Any, **named: Any) -> None:
        self._both("deliver", *arguments, **named)

    def suspect(self, *arguments: Any, **named: Any) -> None:
        self._both("suspect", *arguments, **named)

    def note(self, *arguments: Any, **named: Any) -> None:
        self._both("note", *arguments, **named)

    def crash(self, *arguments: Any, **named: Any) -> None:
        self._both("crash", *arguments, **named)

    def stop(self, *arguments: Any, **named: Any) -> None:
        self._both("stop", *arguments, **named)

    def close(self) -> None:
        """Write what is left."""
        self._memory.close()
        self._recorder.close()
