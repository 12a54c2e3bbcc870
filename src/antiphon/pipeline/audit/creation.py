"""creation: every delivered message was sent, and to the process that delivers it.

Violated by a number beyond what the sender's complete log sent, and by what names destinations that leave the process
out; unknown beyond the record of an open log.
"""

from collections.abc import Iterator

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts, Segments, spans_by_key
from antiphon.pipeline.intervals import Mask, Spans


def count(case: Case) -> RowCounts:
    rows = case.rows
    beyond = np.maximum(rows.end - np.maximum(rows.start, case.sent + 1), 0)
    segments = case.segments(np.ones(len(case.place), bool))
    astray = case.per_row(segments, np.where(_astray(case, segments), segments.end - segments.start, 0))
    return RowCounts(np.where(case.open, 0, beyond) + astray, np.where(case.open, beyond, 0), rows.end - rows.start)


def first_violation(case: Case, row: int) -> FirstViolation:
    """The first number that was meant for others, or else the first that was never sent."""
    chosen = np.zeros(len(case.place), bool)
    chosen[row] = True
    segments = case.segments(chosen)
    astray = _astray(case, segments)
    if astray.any():
        return FirstViolation(int(segments.start[np.argmax(astray)]), [])
    return FirstViolation(max(int(case.rows.start[row]), int(case.sent[row]) + 1), [])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The messages that were meant for others, and those that were never sent."""
    segments = case.segments(chosen)
    astray = _astray(case, segments)
    yield from spans_by_key(case.place[segments.row[astray]], segments.start[astray], segments.end[astray])
    beyond = chosen & ~case.open
    first = np.maximum(case.rows.start, case.sent + 1)
    yield from spans_by_key(case.place[beyond], first[beyond], case.rows.end[beyond])


def _astray(case: Case, segments: Segments) -> Mask:
    """Which segments were sent to destinations that leave the process out."""
    left_out = np.array([*(case.process not in meant for meant in case.order.destinations), False])  # the last: none
    result: Mask = left_out[case.order.narrow[segments.run]]
    return result
