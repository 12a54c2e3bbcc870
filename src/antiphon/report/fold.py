"""A send and the delivery of the same messages to the sender itself, right after it, are drawn as one mark.

Such a delivery is part of sending. Receives are never drawn and stand between nothing.
"""

from dataclasses import replace

from antiphon.report.rows import LogRow, Place, by_process


def join_own(rows: list[LogRow], apart: frozenset[Place] = frozenset()) -> list[LogRow]:
    """The rows without receives, each send joined with its own delivery; a delivery in `apart` stays by itself."""
    return [row for _, log in by_process(rows) for row in _joined(log, apart)]


def _joined(log: list[LogRow], apart: frozenset[Place]) -> list[LogRow]:
    received = {row.index for row in log if row.kind == "receive"}
    result: list[LogRow] = []
    for row in log:
        if row.kind == "receive":
            continue
        before = result[-1] if result else row
        nothing_between = received.issuperset(range(before.index_last + 1, row.index))
        if row.place not in apart and nothing_between and _delivers_at_once(before, row):
            result[-1] = replace(before, own=True, span=row.index_last - before.index + 1)
        else:
            result.append(row)
    return result


def _delivers_at_once(one: LogRow, other: LogRow) -> bool:
    same = (one.sender, one.group, one.number, one.count) == (other.sender, other.group, other.number, other.count)
    return (one.kind, other.kind) == ("send", "deliver") and same
