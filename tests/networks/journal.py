"""A log that outlives `kill -9`: every row is handed to the operating system before the call returns.

A recorder keeps its last rows in memory, and a process that is killed takes them along; what it sent last is then
unknown to the audit, rightly. Here whoever kills the processes wants the audit to know. So a row is one line, written
at once; after the run `to_history` makes the lines a log of the usual kind, ending with the crash if there was one.
"""

import os
from pathlib import Path
from typing import Any, Final, final

import msgspec
import pyarrow.parquet as pq

from antiphon.history.log import Cells, Log, MemoryLog, to_table
from antiphon.history.segments import segment_file

SUFFIX: Final = ".journal"
KINDS_AT_THE_END: Final = ("stop", "crash")


@final
class Journal(Log):
    """The log of one process incarnation, one line per row; the file must not be there yet."""

    def __init__(self, directory: Path, *, run: str, process: str, incarnation: int) -> None:
        super().__init__(run=run, process=process, incarnation=incarnation, merge=False)
        file = directory / f"{process}-{incarnation}{SUFFIX}"
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def _extend(self, *arguments: Any, **named: Any) -> None:
        super()._extend(*arguments, **named)
        self._write()

    def _append(self, cells: Cells) -> None:
        super()._append(cells)
        self._write()

    def _write(self) -> None:
        rows = self._complete_rows()
        for cells in rows:
            os.write(self._file, msgspec.json.encode(cells) + b"\n")
        rows.clear()

    def close(self) -> None:
        """A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def last_incarnation(directory: Path, process: str) -> int:
    """The highest incarnation of `process` that has left a journal; 0 if none has."""
    files = directory.glob(f"{process}-*{SUFFIX}")
    return max((int(file.name.removesuffix(SUFFIX).rpartition("-")[2]) for file in files), default=0)


def to_history(journals: Path, history: Path, run: str, killed: dict[tuple[str, int], int]) -> None:
    """Make all journals Parquet logs; `killed` says which lives were killed, and when (time_ns)."""
    history.mkdir()
    for file in sorted(journals.glob(f"*{SUFFIX}")):
        process, _, incarnation = file.name.removesuffix(SUFFIX).rpartition("-")
        lines = [line for line in file.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]
        rows = [msgspec.json.decode(line, type=Cells) for line in lines]
        log = MemoryLog(run=run, process=process, incarnation=int(incarnation))
        life = (process, int(incarnation))
        if life in killed and (not rows or rows[-1][1] not in KINDS_AT_THE_END):
            log.crash(max(killed[life], rows[-1][0] if rows else 0), "killed")
            rows += log._complete_rows()
        pq.write_table(to_table(log, 0, rows), segment_file(history, *life, 0), compression="zstd")
