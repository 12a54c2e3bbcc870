"""Reading from a history only what a diagram needs, however long the history is.

A counterexample names its rows; those, their neighbours, and the rows about the messages in question are read. Without
one, a slice of time from the middle of the busiest group is read, just wide enough to have rows to choose from. Filters
are pushed down to Parquet, so that row groups elsewhere in the history are not even decoded.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from antiphon.history.reader import History
from antiphon.history.schema import SCHEMA
from antiphon.pipeline.result import BROKEN, Audit, Example, MemberObservation
from antiphon.report.rows import COLUMNS, LogRow, rows_of
from antiphon.report.window import NEIGHBOURS, Window, busy_window, example_window, in_question, step_places

ROWS_READ_MAX: Final = 20_000
ROWS_WANTED: Final = 1_200


def window_of(audit: Audit, history: Path) -> Window | None:
    """What to draw of this history: the first counterexample, else the liveliest part of its middle."""
    files = sorted({unit.file for unit in History.open(history).units})
    dataset = ds.dataset(files, schema=SCHEMA, format="parquet")
    for finding in audit.findings:
        if finding.verdict == BROKEN and finding.example is not None:
            window = example_window(example_rows(dataset, finding.example), finding)
            if window is not None:
                return window
    return _middle(dataset, audit.observations)


def _read(dataset: ds.Dataset, condition: pc.Expression) -> list[LogRow]:
    return rows_of(dataset.scanner(columns=list(COLUMNS), filter=condition).head(ROWS_READ_MAX))


def example_rows(dataset: ds.Dataset, example: Example) -> list[LogRow]:
    """The steps and their neighbours, then everything about the messages in question."""
    in_run = ds.field("run") == example.run
    places = step_places(example)
    near = ds.scalar(False)
    for process, index in places:
        name, _, incarnation = process.rpartition("/")
        in_log = (ds.field("process") == name) & (ds.field("incarnation") == int(incarnation))
        near |= in_log & (ds.field("index") >= index - NEIGHBOURS) & (ds.field("index") <= index + NEIGHBOURS)
    found = {row.place: row for row in _read(dataset, in_run & near)}
    steps = [found[place] for place in places if place in found]
    about = ds.scalar(False)
    for row in in_question(steps) if steps else []:
        assert row.sender is not None
        name, _, incarnation = row.sender.rpartition("/")
        by_sender = (ds.field("sender") == name) & (ds.field("sender_incarnation") == int(incarnation))
        overlap = (ds.field("number") <= row.last) & (ds.field("number") + ds.field("count") > row.number)
        about |= by_sender & (ds.field("group") == row.group) & overlap & (ds.field("kind") != "receive")
    found |= {row.place: row for row in _read(dataset, in_run & about)}
    return list(found.values())


def _middle(dataset: ds.Dataset, observations: tuple[MemberObservation, ...]) -> Window | None:
    """A window from the middle of the group, of one run, in which most was delivered."""
    delivered: Counter[tuple[str, str]] = Counter()
    for member in observations:
        delivered[member.run, member.group] += member.delivered
    if not delivered:
        return None
    run, group = max(sorted(delivered), key=lambda key: delivered[key])
    members = [member for member in observations if (member.run, member.group) == (run, group)]
    from_ns = min(member.first_ns for member in members)
    until_ns = max(member.last_ns for member in members)
    in_group = (ds.field("run") == run) & ((ds.field("group") == group) | ds.field("kind").isin(["crash", "stop"]))
    rows = _read(dataset, in_group & _slice(dataset, in_group, from_ns, until_ns))
    caption = f"From the middle of run “{run}”, group “{group}”"
    return busy_window(rows, caption)


def _slice(dataset: ds.Dataset, in_group: pc.Expression, from_ns: int, until_ns: int) -> pc.Expression:
    """A slice of time in the middle of the rows, not of the time: a run may have long pauses."""
    rows = dataset.count_rows(filter=in_group)
    if rows <= 2 * ROWS_WANTED:
        return ds.scalar(True)
    start_ns = _time_ns_after(dataset, in_group, from_ns, until_ns, (rows - ROWS_WANTED) // 2)
    end_ns = _time_ns_after(dataset, in_group, from_ns, until_ns, (rows + ROWS_WANTED) // 2)
    return (ds.field("time_ns") >= start_ns) & (ds.field("time_ns") < end_ns)


def _time_ns_after(dataset: ds.Dataset, in_group: pc.Expression, from_ns: int, until_ns: int, rows: int) -> int:
    """A time before which about this many rows lie, by bisection: it costs passes, but no memory."""
    low_ns, high_ns = from_ns, until_ns + 1
    while high_ns - low_ns > 1:
        middle_ns = (low_ns + high_ns) // 2
        before = dataset.count_rows(filter=in_group & (ds.field("time_ns") < middle_ns))
        if abs(before - rows) <= ROWS_WANTED // 8:
            return middle_ns
        low_ns, high_ns = (middle_ns, high_ns) if before < rows else (low_ns, middle_ns)
    return high_ns
