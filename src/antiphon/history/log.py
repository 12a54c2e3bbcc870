"""The log of one process incarnation, as it is being recorded.

`Log` turns calls into rows and numbers them; where the rows go is the subclass's affair: `MemoryLog` keeps them,
`antiphon.history.recorder.Recorder` writes them to Parquet. Both make the same rows from the same calls.

Which calls become one row is told in rows.py. A call may come while another thread puts rows away: a lock keeps them
apart.
"""

import json
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import final

import pyarrow as pa

from antiphon.history.columns import column_of, same_of
from antiphon.history.rows import MERGE_SPAN_NS, Cells, RowBuffer
from antiphon.history.schema import ALL_GROUPS, QUIET, SCHEMA, SCHEMA_VERSION, Row

__all__ = ["MERGE_SPAN_NS", "Cells", "Log", "MemoryLog", "to_table"]


class Log:
    """One call per event, in the process's own order; `time_ns` may stand still but is expected not to go back."""

    def __init__(self, *, run: str, process: str, incarnation: int = 1, merge: bool = True) -> None:
        self.run = run
        self.process = process
        self.incarnation = incarnation
        self._rows = RowBuffer(merge)
        self._rows_lock = Lock()
        """Held while the rows in memory change."""

    def start(
        self,
        time_ns: int,
        group: str,
        stack: str,
        policy: str,
        levels: Sequence[str],
        promises: Sequence[str],
        scope: str = ALL_GROUPS,
        domain: str | None = None,
        claimed: bool = False,
    ) -> None:
        """The process joins `group`; `promises` are the ids of the guarantees that the audit shall hold it to. `scope`
        says among which messages causal order holds, and where it is a causality domain, `domain` names that. They are
        `claimed` if somebody says so of another system's log: then what nothing could check is unknown."""
        facts: dict[str, object] = {
            "schema": SCHEMA_VERSION,
            "stack": stack,
            "policy": policy,
            "levels": list(levels),
            "promises": list(promises),
            "scope": scope,
        }
        if domain is not None:
            facts["domain"] = domain
        if claimed:
            facts["claimed"] = True
        label = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
        self._append((time_ns, "start", group, None, None, None, None, None, None, None, label, None, None, None))

    def view(self, time_ns: int, group: str, view: int, members: Sequence[str]) -> None:
        """The group is in `view` from here on; `members` are "name/incarnation", ranked by age."""
        self._append(
            (time_ns, "view", group, view, tuple(members), None, None, None, None, None, None, None, None, None)
        )

    def transitional(self, time_ns: int, group: str, view: int, members: Sequence[str]) -> None:
        """`view` ends; what follows up to the next view is delivered among `members`, who come along."""
        self._append(
            (time_ns, "transitional", group, view, tuple(members), None, None, None, None, None, None, None, None, None)
        )

    def send(
        self,
        time_ns: int,
        group: str,
        view: int | None,
        number: int,
        count: int,
        level: str,
        size: int,
        destinations: tuple[str, ...] | None = None,
        label: str | None = None,
        digest: str | None = None,
    ) -> None:
        """The application called for `count` messages, numbered from `number` on, with `size` payload bytes together.

        `view`: they leave at once, in this view; None: `depart` will tell, if they leave at all.
        """
        self._extend(
            "send",
            time_ns,
            group,
            view,
            self.process,
            self.incarnation,
            number,
            count,
            level,
            label,
            destinations,
            size,
            digest,
        )

    def depart(self, time_ns: int, group: str, view: int, number: int, count: int, size: int) -> None:
        """Messages of earlier calls leave in `view`."""
        with self._rows_lock:
            left = self._rows.leave_at_once(group, view, number, count, size)
        if not left:
            self._extend(
                "depart", time_ns, group, view, self.process, self.incarnation, number, count, None, None, None, 0, None
            )

    def receive(
        self,
        time_ns: int,
        group: str,
        view: int,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str,
        size: int,
    ) -> None:
        """A packet with these messages came in for the first time."""
        self._extend(
            "receive", time_ns, group, view, sender, sender_incarnation, number, count, level, None, None, size, None
        )

    def deliver(
        self,
        time_ns: int,
        group: str,
        view: int,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str,
        size: int,
        label: str | None = None,
        destinations: tuple[str, ...] | None = None,
        digest: str | None = None,
    ) -> None:
        """The application is handed these messages, in this order; `destinations` as far as it can know them."""
        self._extend(
            "deliver",
            time_ns,
            group,
            view,
            sender,
            sender_incarnation,
            number,
            count,
            level,
            label,
            destinations,
            size,
            digest,
        )

    def suspect(self, time_ns: int, group: str, view: int, suspected: str) -> None:
        """`suspected` ("name/incarnation") is thought to have failed."""
        self._append((time_ns, "suspect", group, view, None, None, None, None, None, None, suspected, None, None, None))

    def note(self, time_ns: int, text: str, group: str | None = None) -> None:
        """Anything worth knowing; LEAVES and LEFT have a meaning for the audit, for `group` where it is named."""
        self._append((time_ns, "note", group, None, None, None, None, None, None, None, text, None, None, None))

    def crash(self, time_ns: int, why: str) -> None:
        """The process dies here: the last row of its log, written by whoever killed it."""
        self._append((time_ns, "crash", None, None, None, None, None, None, None, None, why, None, None, None))

    def stop(self, time_ns: int, why: str = QUIET) -> None:
        """The last row of the log. "quiet": the run had healed and was given the time to go quiet."""
        self._append((time_ns, "stop", None, None, None, None, None, None, None, None, why, None, None, None))

    def add(self, cells: Cells) -> None:
        """A row as it is, for what was recorded elsewhere; it is merged with nothing."""
        self._append(cells)

    def _extend(
        self,
        kind: str,
        time_ns: int,
        group: str,
        view: int | None,
        sender: str,
        sender_incarnation: int,
        number: int,
        count: int,
        level: str | None,
        label: str | None,
        destinations: tuple[str, ...] | None,
        size: int,
        digest: str | None,
    ) -> None:
        """Lengthen the open run, or end it and open another."""
        rows = self._rows
        with self._rows_lock:
            if not rows.add(
                kind,
                time_ns,
                group,
                view,
                sender,
                sender_incarnation,
                number,
                count,
                level,
                label,
                destinations,
                size,
                digest,
            ):
                self._before_row(time_ns)
                rows.begin(kind)

    def _append(self, cells: Cells) -> None:
        with self._rows_lock:
            self._rows.end_run()
            self._before_row(cells[0])
            self._rows.cells.append(cells)

    def _complete_rows(self) -> list[Cells]:
        """All rows so far; the open run ends."""
        with self._rows_lock:
            self._rows.end_run()
            return self._rows.cells

    def _before_row(self, time_ns: int) -> None:
        """A new row comes after all that are complete: the moment to put those away."""


@final
class MemoryLog(Log):
    """Keeps its rows in memory, for runs that are audited where they were made."""

    def rows(self) -> Iterator[Row]:
        """All rows so far; more may be recorded after it."""
        for index, cells in enumerate(self._complete_rows()):
            yield Row(self.run, self.process, self.incarnation, index, *cells)

    def table(self) -> pa.Table:
        """All rows so far, as they would lie in a file."""
        return to_table(self, 0, self._complete_rows())


def to_table(log: Log, first_index: int, rows: list[Cells]) -> pa.Table:
    """The rows of `log` from `first_index` on as an Arrow table of SCHEMA."""
    count = len(rows)
    arrays: list[pa.Array] = [
        same_of(log.run, count),
        same_of(log.process, count),
        same_of(log.incarnation, count),
        column_of(range(first_index, first_index + count), pa.int64()),
    ]
    columns = zip(*rows, strict=True) if rows else [()] * (len(SCHEMA) - len(arrays))
    for column, field in zip(columns, list(SCHEMA)[len(arrays) :], strict=True):
        arrays.append(column_of(column, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
