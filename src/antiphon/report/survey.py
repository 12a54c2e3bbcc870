"""The first pass over a run: who was in which view when, when rows happened, and when messages were sent.

Memory: one row group, and what `timeline` and `Thinned` allow, however long the run is.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.pipeline.intervals import Ints
from antiphon.report.rows import COLUMNS, rows_of
from antiphon.report.scan import Numbering, RunScan, Thinned, ints, of_kinds
from antiphon.report.timeline import LIFE_KINDS, Lives

TIMES_MAX: Final = 200_000
SENDS_MAX: Final = 1_000_000
STREAM: Final = ("group", "sender", "sender_incarnation")
"""What, with a number, names a message."""


@dataclass(kw_only=True)
class Survey:
    """What one pass tells."""

    rows: int
    drawn_rows: int
    """Without receives."""
    first_ns: int
    last_ns: int
    lives: Lives
    times: Thinned
    """time_ns of rows other than receives."""
    sends: Thinned
    """stream, number, last number, time_ns of send rows."""
    streams: Numbering


def survey(scan: RunScan) -> Survey:
    """Pass over the run once."""
    result = Survey(
        rows=0, drawn_rows=0, first_ns=0, last_ns=0, lives=Lives(),
        times=Thinned(1, TIMES_MAX), sends=Thinned(4, SENDS_MAX), streams=Numbering(*STREAM),
    )  # fmt: skip
    for table in scan.tables(*COLUMNS):
        if table.num_rows:
            _take_in(result, table)
    result.lives.finish()
    return result


def _take_in(result: Survey, table: pa.Table) -> None:
    low, high = (value.as_py() for value in pc.min_max(table["time_ns"]).values())
    result.first_ns = low if result.rows == 0 else min(result.first_ns, low)
    result.last_ns = max(result.last_ns, high)
    result.rows += table.num_rows
    drawn = table.filter(pc.not_equal(table["kind"], "receive"))
    result.drawn_rows += drawn.num_rows
    result.times.add(ints(drawn, "time_ns").reshape(-1, 1))
    sends = of_kinds(table, "send")
    if sends.num_rows:
        result.sends.add(send_rows(sends, result.streams))
    for row in rows_of(of_kinds(table, *LIFE_KINDS)):
        result.lives.add(row)
    for process, time_ns in _last_times(table):
        result.lives.seen_until(process, time_ns)


def send_rows(sends: pa.Table, streams: Numbering) -> Ints:
    """Stream, first and last number, and time of each send row; the sender is the process itself."""
    place = sends.schema.get_field_index
    named = sends.set_column(place("sender"), "sender", sends["process"])
    named = named.set_column(place("sender_incarnation"), "sender_incarnation", sends["incarnation"])
    number = ints(sends, "number")
    last = number + ints(sends, "count") - 1
    return np.stack((streams.of(named), number, last, ints(sends, "time_ns")), axis=1)


def _last_times(table: pa.Table) -> list[tuple[str, int]]:
    """Each log that the table has rows of, and the time of its last one."""
    logs = Numbering("process", "incarnation")
    numbers = logs.of(table)
    last_ns = np.full(len(logs.known), np.iinfo(np.int64).min)
    np.maximum.at(last_ns, numbers, ints(table, "time_ns"))
    return [(f"{name}/{incarnation}", int(last_ns[number])) for (name, incarnation), number in logs.known.items()]
