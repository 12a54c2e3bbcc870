"""Neighbouring rows of a log that can be drawn as one mark.

A process that delivers its own messages right after sending them does so as part of sending; the two rows are always
one mark. Where a history is dense, its runs are joined as well: what a process does to consecutive messages of one
sender with nothing in between is one event for the eye, wherever the recorder cut it.

Receives are never drawn and stand between nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from antiphon.report.rows import LogRow, Place, by_process

Join = Callable[[LogRow, LogRow], LogRow | None]


def join_own(rows: list[LogRow], apart: frozenset[Place] = frozenset()) -> list[LogRow]:
    """The rows without receives, each send joined with its own delivery; a delivery in `apart` stays by itself."""
    return [row for _, log in by_process(rows) for row in _joined(log, (_delivered_at_once,), apart)]


def join_runs(rows: list[LogRow]) -> list[LogRow]:
    """The rows without receives, all neighbours joined that can be."""
    # Sends that were joined may match a longer delivery, and then continue the send before them.
    joins = (_continued, _delivered_at_once, _continued)
    return [row for _, log in by_process(rows) for row in _joined(log, joins, frozenset())]


def _joined(log: list[LogRow], joins: tuple[Join, ...], apart: frozenset[Place]) -> list[LogRow]:
    received = {row.index for row in log if row.kind == "receive"}
    result = [row for row in log if row.kind != "receive"]
    for join in joins:
        rows, result = result, []
        for row in rows:
            before = result[-1] if result else row
            joined = None if row.place in apart else join(before, row)
            if joined is not None and received.issuperset(range(before.index_last + 1, row.index)):
                result[-1] = replace(joined, span=row.index_last - before.index + 1)
            else:
                result.append(row)
    return result


def _continued(one: LogRow, other: LogRow) -> LogRow | None:
    """A run and the run that goes on from it."""
    alike = (one.kind, one.sender, one.group, one.view, one.level, one.own) == (
        other.kind, other.sender, other.group, other.view, other.level, other.own,
    )  # fmt: skip
    if not one.carries or not alike or other.number != one.last + 1:
        return None
    return replace(one, count=one.count + other.count)


def _delivered_at_once(one: LogRow, other: LogRow) -> LogRow | None:
    """A send and the delivery of the same messages to the sender itself."""
    same = (one.sender, one.group, one.number, one.count) == (other.sender, other.group, other.number, other.count)
    if (one.kind, other.kind) != ("send", "deliver") or not same:
        return None
    return replace(one, own=True)
