"""History rows as the report uses them: small plain values, free of Arrow, with whole names.

A process, and a sender, is "name/incarnation" in one string, as in an audit's observations and examples.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

COLUMNS: Final = (
    "process", "incarnation", "index", "time_ns", "kind", "group", "view", "members",
    "sender", "sender_incarnation", "number", "count", "level", "label",
)  # fmt: skip


Place = tuple[str, int]
"""What names a row within its run: the process and the index in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of one log, or several that are drawn as one (see fold); both processes are "name/incarnation"."""

    process: str
    index: int
    time_ns: int
    kind: str
    group: str | None = None
    view: int | None = None
    members: tuple[str, ...] = ()
    sender: str | None = None
    number: int = 0
    count: int = 0
    level: str | None = None
    label: str | None = None
    span: int = 1
    """How many rows of the log it stands for, from `index` on, receives in between included."""
    own: bool = False
    """Whether this is a send that includes the delivery to the sender itself."""

    @property
    def place(self) -> Place:
        return self.process, self.index

    @property
    def index_last(self) -> int:
        """The place in its log of the last row that this one stands for."""
        return self.index + self.span - 1

    @property
    def last(self) -> int:
        """The number of the last message this row stands for; `number` is the first."""
        return self.number + self.count - 1

    @property
    def carries(self) -> bool:
        """Whether this row stands for messages that the application saw: sent, or was handed."""
        return self.kind in ("send", "deliver")

    def overlaps(self, other: "LogRow") -> bool:
        """Whether both stand for at least one message in common."""
        return (
            self.sender == other.sender
            and self.group == other.group
            and self.number <= other.last
            and other.number <= self.last
        )


def rows_of(table: pa.Table) -> list[LogRow]:
    """The rows of a table in the history's schema; other columns are left alone."""
    return [_row(values) for values in table.select(COLUMNS).to_pylist()]


def _row(values: dict[str, Any]) -> LogRow:
    process = f"{values['process']}/{values['incarnation']}"
    sender = None if values["sender"] is None else f"{values['sender']}/{values['sender_incarnation']}"
    if values["kind"] == "send":
        sender = process  # the schema says so, and a recorder need not repeat it
    return LogRow(
        process=process,
        index=values["index"],
        time_ns=values["time_ns"],
        kind=values["kind"],
        group=values["group"],
        view=values["view"],
        members=tuple(values["members"] or ()),
        sender=sender,
        number=values["number"] or 0,
        count=values["count"] or 0,
        level=values["level"],
        label=values["label"],
    )


def by_process(rows: list[LogRow]) -> Iterator[tuple[str, list[LogRow]]]:
    """The logs among the rows, by process in reading order, each in its own order."""
    logs: dict[str, list[LogRow]] = {}
    for row in rows:
        logs.setdefault(row.process, []).append(row)
    for process in sorted(logs, key=reading_order):
        yield process, sorted(logs[process], key=lambda row: row.index)


def reading_order(process: str) -> tuple[list[int | str], int]:
    """A sort key under which p2 comes before p10."""
    name, _, incarnation = process.rpartition("/")
    # Splitting at digits gives text and numbers by turns, so that like is always compared with like.
    parts = [int(part) if position % 2 else part for position, part in enumerate(re.split("([0-9]+)", name))]
    return parts, int(incarnation)
