"""Reading from a history only what the picture of a counterexample needs, however long the history is.

A counterexample names its rows; those, their neighbours, and the rows about the messages in question are read. Filters
are pushed down to Parquet, so that row groups elsewhere in the history are not even decoded.
"""

from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from antiphon.pipeline.result import Example
from antiphon.report.rows import COLUMNS, LogRow, rows_of
from antiphon.report.window import NEIGHBOURS, in_question, step_places

ROWS_READ_MAX: Final = 20_000


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


def _read(dataset: ds.Dataset, condition: pc.Expression) -> list[LogRow]:
    return rows_of(dataset.scanner(columns=list(COLUMNS), filter=condition).head(ROWS_READ_MAX))
