"""The few rows that a lineage needs, read where they lie.

Filters are pushed down to Parquet, so that row groups that cannot hold them are not decoded. Rows behind a gap in their
log do not count, as in the audit. Memory: one batch of rows, or the rows about the
messages that are asked for.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from antiphon.history.reader import HistoryFiles, rows_of_table
from antiphon.history.schema import SCHEMA, Row
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.explain import MessageName


class RowReader:
    """Reads rows of one run."""

    def __init__(self, history: HistoryFiles, run: str, logs: Mapping[str, LogFacts]) -> None:
        files = sorted({unit.file for unit in history.units})
        self._dataset = ds.dataset(files, schema=SCHEMA, format="parquet")
        self._in_run = ds.field("run") == run
        self._logs = logs

    def about(self, *messages: MessageName) -> list[Row]:
        """Every row that stands for one of the messages, log by log in order."""
        chosen = ds.scalar(False)
        for message in messages:
            holds = (ds.field("number") <= message.number) & (ds.field("number") + ds.field("count") > message.number)
            chosen |= (ds.field("group") == message.group) & _of_sender(message.sender) & holds
        rows = rows_of_table(self._dataset.to_table(filter=self._in_run & chosen))
        known = [row for row in rows if row.index < self._logs[process_of(row)].rows]
        return sorted(known, key=lambda row: (process_of(row), row.index))

    def log_batches(self, process: str, kind: str, group: str | None, since_ns: int, until: int) -> Iterator[pa.Table]:
        """The rows of a kind in one log, from a time on, before the index `until`: batch by batch."""
        name, _, incarnation = process.rpartition("/")
        in_log = (ds.field("process") == name) & (ds.field("incarnation") == int(incarnation))
        chosen = self._in_run & in_log & (ds.field("kind") == kind)
        chosen &= (ds.field("time_ns") >= since_ns) & (ds.field("index") < until)
        if group is not None:
            chosen &= ds.field("group") == group
        for batch in self._dataset.scanner(filter=chosen).to_batches():
            if len(batch):
                yield pa.Table.from_batches([batch])


def process_of(row: Row) -> str:
    return f"{row.process}/{row.incarnation}"


def _of_sender(sender: str) -> pc.Expression:
    name, _, incarnation = sender.rpartition("/")
    return (ds.field("sender") == name) & (ds.field("sender_incarnation") == int(incarnation))
