"""Export to Perfetto: the Trace Event Format of Chrome, as a JSON object, for ui.perfetto.dev.

    log                                 a process, named after it
    group                               two threads of the process: its views, and its messages
    view                                a slice (X), until the next view of the group or the end of the log
    send, receive, deliver              an instant (i) on the thread of messages, and for a run of messages one
    suspect, note, crash, stop, start   an instant on the thread of the group's views, or on the process's own thread
    send → deliver                      a flow: one start (s) per send row, one end (f) per delivery row and send row

Flows bind to slices; in Perfetto an instant of a thread is a slice without length, and a flow event binds to the one
written right before it. Times are microseconds since the first row of the history.

Memory: one row group, and 16 bytes per send row of a run.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, TextIO

from antiphon.history.formats.exporting import Exported, logs_by_run
from antiphon.history.formats.sends import SendRows, stream_of
from antiphon.history.formats.words import messages, words
from antiphon.history.logs import LogFiles
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row

MESSAGE_KINDS: Final = ("send", "receive", "deliver")

Event = dict[str, Any]


def export_perfetto(history: HistoryFiles, out: TextIO, run: str | None) -> Exported:
    """Write a history, or one of its runs, as a trace."""
    runs = logs_by_run(history, run)
    logs = [log for own in runs.values() for log in own]
    first_ns = min((row.time_ns for log in logs for row in _first(log)), default=0)
    tracks = _Tracks()
    rows = 0
    out.write('{"traceEvents":[')
    separator = "\n"
    for name, own in runs.items():
        sends = SendRows(own)
        for log in own:
            lane = _Lane(log, sends, tracks, first_ns, f"{name}: " if len(runs) > 1 else "")
            for event in lane.events():
                out.write(separator + json.dumps(event, separators=(",", ":")))
                separator = ",\n"
            rows += lane.rows
    other = {"generator": "antiphon", "first_time_ns": str(first_ns)}
    out.write(f'\n],"displayTimeUnit":"ns","otherData":{json.dumps(other)}}}\n')
    return Exported(runs=len(runs), logs=len(logs), rows=rows)


def _first(log: LogFiles) -> Iterator[Row]:
    for row in log.rows():
        yield row
        return


class _Tracks:
    """Numbers for processes and threads; a thread's is used in one process only."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


class _Lane:
    """One log."""

    def __init__(self, log: LogFiles, sends: SendRows, tracks: _Tracks, first_ns: int, prefix: str) -> None:
        self._log = log
        self._sends = sends
        self._tracks = tracks
        self._first_ns = first_ns
        self._title = f"{prefix}{log.key.name}"
        self._process = tracks.next()
        self._threads: dict[tuple[str, str], int] = {}
        self._views: dict[str, Row] = {}
        self.rows = 0

    def events(self) -> Iterator[Event]:
        yield self._metadata("process_name", self._process, self._title)
        yield self._metadata("thread_name", self._process, "process")
        last_ns = self._first_ns
        for row in self._log.rows():
            self.rows += 1
            last_ns = row.time_ns
            if row.kind in MESSAGE_KINDS:
                yield from self._message(row)
            elif row.kind == "view":
                yield from self._end_view(row.group or "", row.time_ns)
                self._views[row.group or ""] = row
            else:
                thread, new = self._thread("views", row.group)
                yield from new
                yield self._event(row, "i", thread, words(row), "life", s="t", args=_details(row))
        for group in list(self._views):
            yield from self._end_view(group, last_ns)

    def _message(self, row: Row) -> Iterator[Event]:
        thread, new = self._thread("messages", row.group)
        yield from new
        yield self._event(row, "i", thread, f"{row.kind} {messages(row)}", row.kind, s="t", args=_details(row))
        if row.kind == "send":
            yield self._event(row, "s", thread, "message", "message", id=self._flow(row, row.number or 0))
        elif row.kind == "deliver":
            for first in self._sends.drawn_from(row):
                yield self._event(row, "f", thread, "message", "message", id=self._flow(row, first), bp="e")

    def _flow(self, row: Row, first: int) -> str:
        """The id of all arrows from one send row."""
        name = json.dumps([self._log.key.run, *stream_of(row), first])
        return f"0x{blake2b(name.encode(), digest_size=8).hexdigest()}"

    def _end_view(self, group: str, end_ns: int) -> Iterator[Event]:
        row = self._views.pop(group, None)
        if row is None:
            return
        thread, new = self._thread("views", group)
        yield from new
        length = max(end_ns - row.time_ns, 0) / 1000
        yield self._event(row, "X", thread, f"view {row.view}", "view", dur=length, args=_details(row))

    def _thread(self, what: str, group: str | None) -> tuple[int, list[Event]]:
        """The thread for a group's views or messages, with its name if it is new; without a group the process's own."""
        if group is None:
            return self._process, []
        known = self._threads.get((what, group))
        if known is not None:
            return known, []
        thread = self._threads[what, group] = self._tracks.next()
        return thread, [self._metadata("thread_name", thread, f"{group}: {what}")]

    def _metadata(self, what: str, thread: int, name: str) -> Event:
        return {"ph": "M", "name": what, "pid": self._process, "tid": thread, "ts": 0, "args": {"name": name}}

    def _event(self, row: Row, phase: str, thread: int, name: str, category: str, **more: Any) -> Event:
        time = (row.time_ns - self._first_ns) / 1000
        return {
            "ph": phase,
            "name": name,
            "cat": category,
            "pid": self._process,
            "tid": thread,
            "ts": time,
            **more,
        }


def _details(row: Row) -> dict[str, Any]:
    names = ("index", "view", "level", "number", "count", "size", "members", "destinations", "label")
    return {name: value for name in names if (value := getattr(row, name)) is not None}
