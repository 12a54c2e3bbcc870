"""Import of ShiViz logs: vector clocks in, messages out.

ShiViz knows events, hosts and clocks, and no messages. Where an event has a direct cause at another host
(`antiphon.history.formats.shiviz_clocks`), a message must have gone from that event to this one. So

    host               a process; all hosts of an execution are the members of one group, in one view for ever
    event              a note with its text
    direct cause       a delivery of the message that the cause sent
    direct effects     one send, to the hosts that have them as its destinations

A process numbers its sending events 1, 2, 3…. An event that both learns and is learned of delivers first, then sends.
There are no times: an event's time is 1 µs for each event that happened before it or is it, so no effect comes before
its cause. What clocks cannot show is not there: a message that told its receiver nothing new, and who else was sent it.

An export of our own has each row beside its event, in the group `row`; then that row is what is imported, and the
clocks are only checked.

Memory: all events, at most EVENTS_MAX of them.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import ENDED, Imported, ImportOptions, begin
from antiphon.history.formats.shiviz_clocks import CheckedEvent, CheckedExecution
from antiphon.history.formats.shiviz_text import Execution, read_executions
from antiphon.history.log import Cells, Log, MemoryLog, to_table
from antiphon.history.recorder import Recorder
from antiphon.history.schema import LEAVES, LEFT, Row
from antiphon.history.validity import row_problem

LEVEL: Final = "causal"
GROUP: Final = "execution"
STACK: Final = "shiviz"
TICK_NS: Final = 1000
CELL_NAMES: Final = tuple(field.name for field in fields(Row))[4:]
"""The columns behind run, process, incarnation and index, which the log's place tells."""


def import_shiviz(source: Path, directory: Path, options: ImportOptions) -> Imported:
    """Write the history of the log `source` into `directory`; each execution is a run."""
    runs = logs = events = 0
    several: set[str] = set()
    skipped: list[int] = []
    amended: list[int] = []
    for execution in read_executions(source, options.parser, options.delimiter):
        own_rows = execution.events[0].row is not None
        checked = CheckedExecution(source, execution, strict=own_rows)
        hosts = checked.hosts
        skipped += execution.skipped
        amended += checked.amended_lines
        run = _run_name(execution, options.run, runs + 1, own_rows)
        if run in several:
            raise MalformedLogError(source, execution.line, f"there is a run {run!r} already")
        several.add(run)
        # Runs may have processes of the same name, whose files then need folders of their own.
        place = directory if runs == 0 else directory / f"{runs:05}"
        if own_rows:
            _write_rows(source, place, run, hosts)
        else:
            _write_events(place, run, options.level or LEVEL, hosts)
        runs += 1
        logs += len(hosts)
        events += len(execution.events)
    return Imported(runs=runs, logs=logs, events=events, remarks=tuple(_told(skipped, amended)))


def _run_name(execution: Execution, default: str, place: int, own_rows: bool) -> str:
    """The name of an execution; the first without one is the run that was named, others have their place behind it."""
    name = unquote(execution.name) if own_rows else execution.name
    return name or (default if place == 1 else f"{default}-{place}")


def _told(skipped: list[int], amended: list[int]) -> list[str]:
    remarks = []
    if skipped:
        told = f"{len(skipped):,} lines hold text that the parser expression does not match"
        remarks.append(f"{told}, the first is line {skipped[0]}; it was skipped")
    if amended:
        told = f"{len(amended):,} clocks know less than the events that they know of, the first on line {amended[0]}"
        remarks.append(f"{told}; they were completed")
    return remarks


def _write_events(directory: Path, run: str, level: str, hosts: dict[str, list[CheckedEvent]]) -> None:
    members = [f"{host}/1" for host in hosts]
    numbers = {host: _numbers(events) for host, events in hosts.items()}
    for host, events in hosts.items():
        with Recorder(directory, run=run, process=host, merge=False) as log:
            begin(log, GROUP, STACK, level, members)
            for item in events:
                time_ns = TICK_NS * item.past
                log.note(time_ns, f"event: {item.event.text}" if item.event.text in (LEAVES, LEFT) else item.event.text)
                for cause in item.causes:
                    number = numbers[cause.event.host][cause.event.own]
                    log.deliver(time_ns, GROUP, 1, cause.event.host, 1, number, 1, level, 0)
                if item.followers:
                    destinations = tuple(f"{follower}/1" for follower in item.followers)
                    log.send(time_ns, GROUP, 1, numbers[host][item.event.own], 1, level, 0, destinations)
            log.stop(TICK_NS * events[-1].past, ENDED)


def _numbers(events: list[CheckedEvent]) -> dict[int, int]:
    """By an event's own component, the number of the message that it sends."""
    sending = [item.event.own for item in events if item.followers]
    return {own: number for number, own in enumerate(sending, start=1)}


def _write_rows(source: Path, directory: Path, run: str, hosts: dict[str, list[CheckedEvent]]) -> None:
    for host, events in hosts.items():
        name, _, incarnation = host.rpartition("/")
        if not name or not incarnation.isdecimal():
            raise MalformedLogError(source, events[0].event.line, f"host {host!r} is no name/incarnation")
        process, life = unquote(name), int(incarnation)
        rows = [_cells(source, item) for item in events]
        _refuse_nonsense(source, events, MemoryLog(run=run, process=process, incarnation=life), rows)
        with Recorder(directory, run=run, process=process, incarnation=life, merge=False) as log:
            for cells in rows:
                log.add(cells)


def _refuse_nonsense(source: Path, events: list[CheckedEvent], log: Log, rows: list[Cells]) -> None:
    """Raise for the first row that no log can hold."""
    try:
        problem = row_problem(to_table(log, 0, rows))
    except (pa.ArrowException, TypeError, OverflowError) as error:
        if len(rows) > 1:  # one of them is to blame
            for item, cells in zip(events, rows, strict=True):
                _refuse_nonsense(source, [item], log, [cells])
        problem = 0, f"a column is of another type than it should be ({error})"
    if problem:
        raise MalformedLogError(source, events[problem[0]].event.line, f"its row makes no sense: {problem[1]}")


def _cells(source: Path, item: CheckedEvent) -> Cells:
    try:
        row = json.loads(item.event.row or "")
    except ValueError as error:
        raise MalformedLogError(source, item.event.line, f"its row is no JSON object: {error}") from None
    if not isinstance(row, dict) or not row.keys() <= set(CELL_NAMES):
        raise MalformedLogError(source, item.event.line, "its row is no JSON object of our columns")
    cells: Any = tuple(tuple(value) if isinstance(value := row.get(name), list) else value for name in CELL_NAMES)
    if type(cells[0]) is not int or not isinstance(cells[1], str):
        raise MalformedLogError(source, item.event.line, "its row lacks time_ns or kind")
    result: Cells = cells
    return result
