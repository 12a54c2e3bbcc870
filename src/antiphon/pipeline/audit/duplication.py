"""duplication: no process incarnation delivers a message twice.

What is first delivered by a row is new; the rest of the row is repetition.
"""

from collections.abc import Iterator

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts
from antiphon.pipeline.intervals import Mask, Spans, covered_twice


def count(case: Case) -> RowCounts:
    rows = case.rows
    new = np.zeros(len(rows.key), np.int64)
    messages = rows.end - rows.start
    for place in np.unique(case.place).tolist():
        own = case.rows_of(place)
        if (rows.start[own] >= np.append(case.known(place).top, rows.end[own[:-1]])).all():
            new[own] = messages[own]  # each begins above all that came before
            continue
        positions, sizes = case.deliveries(place).first_deliveries()
        np.add.at(new, np.searchsorted(rows.index, positions), sizes)
    return RowCounts(messages - new, np.zeros_like(messages), messages)


def first_violation(case: Case, row: int) -> FirstViolation:
    """The lowest number of the row that had been delivered before it."""
    start, end, index = (int(column[row]) for column in (case.rows.start, case.rows.end, case.rows.index))
    again = case.deliveries(int(case.place[row])).delivered_before(index)
    numbers = np.maximum(again.starts, start)
    return FirstViolation(int(numbers[(numbers < again.ends) & (numbers < end)][0]), [])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The messages that were delivered by several rows, or by a row and before the piece."""
    for place in np.unique(case.place[chosen]).tolist():
        own = case.rows_of(place)
        already = case.known(place).spans(case.order.owed(case.process, place))
        starts = np.concatenate((already.starts, case.rows.start[own]))
        yield place, covered_twice(starts, np.concatenate((already.ends, case.rows.end[own])))
