"""Export to Jepsen: a list-append history in JSON, an array with one operation per line, for checkers such as Elle.

    group              a key
    process            a process, numbered by name from 0 on
    message sent       a transaction that appends to the key's list, and completes at once
    end of a log       for each group of the process a transaction that reads: all that it delivered, in order

A value is number × processes + number of the sending process, so values are unique without any table; a message of a
sender that has no log is a text. Times count from the first operation on, and follow the order of the file.

A multicast promises one order, not that what is sent can be read at once: hold such a history to `serializable`, not to
models of real time. Messages below level agreed, and members that join late, may have lists of their own; a remark says
how many such messages there are.

Memory: one row group per log, and 8 bytes per delivery of one log at a time (more for those of unknown senders).
"""

import json
from collections.abc import Iterator
from heapq import merge
from typing import Final, TextIO

from antiphon.history.formats.exporting import Exported, one_run
from antiphon.history.logs import LogFiles
from antiphon.history.reader import HistoryFiles
from antiphon.history.schema import Row

ONE_ORDER: Final = ("agreed", "safe")

Step = tuple[str, str, object]
Transaction = tuple[int, int, list[Step], list[Step]]
"""Time, process, and the steps as invoked and as completed."""


def export_jepsen(history: HistoryFiles, out: TextIO, run: str | None) -> Exported:
    """Write one run of a history as a list-append history."""
    logs = one_run(history, run, "Jepsen")
    export = _Export(logs)
    transactions = merge(*(export.transactions(log) for log in logs), key=lambda transaction: transaction[:2])
    index = 0
    first_ns: int | None = None
    out.write("[")
    for time_ns, process, invoked, completed in transactions:
        first_ns = time_ns if first_ns is None else first_ns
        for kind, steps in (("invoke", invoked), ("ok", completed)):
            operation = {
                "index": index,
                "type": kind,
                "process": process,
                "f": "txn",
                "value": steps,
                "time": time_ns - first_ns,
            }
            out.write(("\n" if index == 0 else ",\n") + json.dumps(operation, separators=(",", ":")))
            index += 1
    out.write("\n]\n")
    remark = f"{export.unordered:,} messages are of a level that promises no single order; readers may differ in them"
    return Exported(runs=1, logs=len(logs), rows=export.rows, remarks=(remark,) if export.unordered else ())


class _Export:
    def __init__(self, logs: list[LogFiles]) -> None:
        self._rank = {log.key.name: rank for rank, log in enumerate(logs)}
        self.rows = 0
        self.unordered = 0

    def transactions(self, log: LogFiles) -> Iterator[Transaction]:
        """The transactions of one log; their times never go back."""
        rank = self._rank[log.key.name]
        groups: dict[str, None] = {}
        time_ns: int | None = None
        for row in log.rows():
            self.rows += 1
            time_ns = row.time_ns if time_ns is None else max(time_ns, row.time_ns)
            if row.group is not None:
                groups[row.group] = None
            if row.kind == "send":
                self.unordered += 0 if row.level in ONE_ORDER else row.count or 1
                for value in self._values(row):
                    steps: list[Step] = [("append", row.group or "", value)]
                    yield time_ns, rank, steps, steps
        for group in groups:
            delivered = self._delivered(log, group)
            yield time_ns or 0, rank, [("r", group, None)], [("r", group, delivered)]

    def _delivered(self, log: LogFiles, group: str) -> list[int | str]:
        chosen = (row for row in log.rows() if row.kind == "deliver" and row.group == group)
        return [value for row in chosen for value in self._values(row)]

    def _values(self, row: Row) -> Iterator[int | str]:
        sender = f"{row.sender}/{row.sender_incarnation}"
        rank = self._rank.get(sender)
        for number in range(row.number or 0, (row.number or 0) + (row.count or 1)):
            yield f"{sender}#{number}" if rank is None else number * len(self._rank) + rank
