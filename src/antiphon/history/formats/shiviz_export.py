"""Export to ShiViz: one event per row, with vector clocks that are computed from the rows.

A row's clock counts, for each process, the rows that happened before it: those before it in its own log, and for a
delivery all that happened before the send rows that it draws from. The parser expression at the head of the file has a
group `row` beside those that ShiViz asks for: the row itself as JSON, which ShiViz shows beside the event, and from
which `antiphon.history.formats.shiviz_import` makes the same history again.

Where the send of a message is not on record, its delivery brings no clock. So it is where the record has a cycle, which
no true log has: then one of its deliveries is taken to bring none, and a remark says so.

Memory: one row group per log, and the clock of each send row; at most ROWS_MAX rows, more than ShiViz draws.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import Final, TextIO
from urllib.parse import quote

from antiphon.history.formats.exporting import Exported, logs_by_run
from antiphon.history.formats.sends import SendRows, Stream, stream_of
from antiphon.history.formats.shiviz_text import EVENTS_MAX
from antiphon.history.formats.words import words
from antiphon.history.logs import LogFiles
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row
from antiphon.kernel.errors import UsageError

PARSER: Final = r"(?<event>.*)\n(?<host>\S*) (?<row>{.*}) (?<clock>{.*})"
"""Greedy, so the last `} {` parts row and clock; host names are quoted, so the clock holds none."""
DELIMITER: Final = r"^=== (?<trace>.*) ===$"
BRACES: Final = str.maketrans("{}", "()")
ROWS_MAX: Final = EVENTS_MAX
ROW_COLUMNS: Final = tuple(field.name for field in fields(Row))[4:]

Clock = dict[str, int]


def export_shiviz(history: HistoryFiles, out: TextIO, run: str | None) -> Exported:
    """Write a history, or one of its runs, as a file that ShiViz takes."""
    runs = logs_by_run(history, run)
    if history.rows > ROWS_MAX:
        reason = f"it holds {history.rows:,} rows, and ShiViz at most {ROWS_MAX:,}"
        raise UsageError(f"{history.path}: {reason}; name a folder with fewer of its runs")
    out.write(f"{PARSER}\n{DELIMITER}\n")
    rows = cycles = 0
    for name, logs in runs.items():
        out.write(f"=== {quote(name, safe=' ')} ===\n")
        ordering = _Ordering(logs)
        for host, row, clock in ordering.events():
            out.write(f"{_event(row)}\n{host} {_json(_row_cells(row))} {_json(clock)}\n")
            rows += 1
        cycles += ordering.cycles
    remark = f"{cycles} deliveries come before their own sends; they are shown without arrows"
    count = sum(len(logs) for logs in runs.values())
    return Exported(runs=len(runs), logs=count, rows=rows, remarks=(remark,) if cycles else ())


def host_name(process: str, incarnation: int) -> str:
    """A process as ShiViz can take it: without spaces or braces."""
    return f"{quote(process, safe='')}/{incarnation}"


def _event(row: Row) -> str:
    """The words for a row. Braces would look like a row or a clock to the parser expression."""
    return words(row).translate(BRACES)


def _row_cells(row: Row) -> dict[str, object]:
    return {name: value for name in ROW_COLUMNS if (value := getattr(row, name)) is not None}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@dataclass
class _Cursor:
    """How far a log has come."""

    host: str
    rows: Iterator[Row]
    next: Row | None
    clock: Clock


class _Ordering:
    """Takes the rows of all logs in an order in which causes come first, by time where there is a choice."""

    def __init__(self, logs: list[LogFiles]) -> None:
        self._sends = SendRows(logs)
        self._clocks: dict[tuple[Stream, int], Clock] = {}
        """Of each send row that was taken, by stream and first number."""
        self._cursors: list[_Cursor] = []
        for log in logs:
            rows = log.rows()
            host = host_name(log.key.process, log.key.incarnation)
            self._cursors.append(_Cursor(host, rows, next(rows, None), {}))
        self._ready: list[tuple[int, int]] = []
        self._blocked: dict[int, tuple[Stream, int]] = {}
        """Cursors that wait for a send row."""
        self._waiting: dict[tuple[Stream, int], list[int]] = {}
        self.cycles = 0

    def events(self) -> Iterator[tuple[str, Row, Clock]]:
        """Host, row and clock, in order. A clock is valid until the next one is taken."""
        for place in range(len(self._cursors)):
            self._queue(place)
        while self._ready or self._blocked:
            if not self._ready:
                self._release()
            _, place = heappop(self._ready)
            cursor = self._cursors[place]
            row = cursor.next
            assert row is not None
            self._take(cursor, row)
            yield cursor.host, row, cursor.clock
            cursor.next = next(cursor.rows, None)
            self._queue(place)

    def _queue(self, place: int) -> None:
        """Make a cursor ready, or let it wait for the first send row that it lacks."""
        row = self._cursors[place].next
        if row is None:
            return
        if row.kind == "deliver":
            stream = stream_of(row)
            for first in self._sends.drawn_from(row):
                if (stream, first) not in self._clocks:
                    self._blocked[place] = (stream, first)
                    self._waiting.setdefault((stream, first), []).append(place)
                    return
        heappush(self._ready, (row.time_ns, place))

    def _release(self) -> None:
        """All wait for each other: the earliest goes on as if the send rows that it lacks were not on record."""
        place = min(self._blocked, key=lambda place: (self._time_ns(place), place))
        key = self._blocked.pop(place)
        self._waiting[key].remove(place)
        self.cycles += 1
        heappush(self._ready, (self._time_ns(place), place))

    def _time_ns(self, place: int) -> int:
        row = self._cursors[place].next
        assert row is not None
        return row.time_ns

    def _take(self, cursor: _Cursor, row: Row) -> None:
        clock = cursor.clock
        if row.kind == "deliver":
            stream = stream_of(row)
            for first in self._sends.drawn_from(row):
                for host, value in self._clocks.get((stream, first), {}).items():
                    if value > clock.get(host, 0):
                        clock[host] = value
        clock[cursor.host] = row.index + 1
        if row.kind == "send":
            key = (stream_of(row), row.number or 0)
            self._clocks[key] = dict(clock)
            for place in self._waiting.pop(key, ()):
                del self._blocked[place]
                self._queue(place)
