"""fifo: a sender's messages to a group are delivered in sending order, without gaps within what the process is owed.

A row delivers consecutive numbers in order, so it is right or wrong as a whole: everything owed below its first number
must have been delivered before it. What it may have been owed and lacks makes it unknown.
"""

from collections.abc import Iterator

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts, spans_by_key
from antiphon.pipeline.audit.rows import FIFO_RANK
from antiphon.pipeline.intervals import Mask, Spans


def count(case: Case) -> RowCounts:
    rows = case.rows
    held = (rows.level >= FIFO_RANK) & (case.end > rows.start)
    violated = np.zeros(len(held), bool)
    unknown = np.zeros(len(held), bool)
    for place in np.unique(case.place[held]).tolist():
        of_key = case.rows_of(place)
        chosen = held[of_key]
        own, behind = of_key[chosen], case.missing(place)[1:][chosen]
        at = rows.index[own]
        violated[own] = (behind < rows.start[own]) & ~case.left_by(place, at)
        if case.order.open_keys[place]:
            unknown[own] = case.off_record(place).position(rows.start[own] - 1) > at
        perhaps = case.order.perhaps_owed(case.process, place)
        if perhaps.size():
            late = case.cover(place, perhaps).position(rows.start[own] - 1) > at
            unknown[own] |= late & ~case.left_by(place, at)
        left_open = case.order.open_to(case.process, place)
        if left_open.size():
            late = case.deliveries(place, left_open).position(rows.start[own] - 1) > at
            unknown[own] |= late & ~case.left_by(place, at)
        unknown[own] &= ~violated[own]
    messages = np.where(held, case.end - rows.start, 0)
    return RowCounts(np.where(violated, messages, 0), np.where(unknown, messages, 0), messages)


def first_violation(case: Case, row: int) -> FirstViolation:
    """The lowest number that the row should have waited for."""
    place, start, index = int(case.place[row]), int(case.rows.start[row]), int(case.rows.index[row])
    missing = case.cover(place, case.order.owed(case.process, place)).lowest_missing(index, start - 1)
    assert missing is not None
    return FirstViolation(start, [(place, missing)])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The lowest number that each row should have waited for."""
    for place in np.unique(case.place[chosen]).tolist():
        numbers = case.missing(place)[1:][chosen[case.rows_of(place)]]
        yield from spans_by_key(np.full(len(numbers), place), numbers, numbers + 1)
