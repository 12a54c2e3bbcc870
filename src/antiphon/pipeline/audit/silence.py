"""silence: after the view that drops f, nothing of that incarnation of f is delivered.

Violated by a delivery whose sender was in an earlier view of the process, and is not in the one the process is in.
Only deliveries in a view that lacks a member of an earlier one are checked: the others could not violate it.
"""

from collections.abc import Iterator

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts
from antiphon.pipeline.intervals import Mask, Spans, span


def count(case: Case) -> RowCounts:
    messages = np.maximum(case.end - case.rows.start, 0)
    dropped = np.zeros(len(messages), bool)
    checked = np.zeros(len(messages), bool)
    for place, rows, presences, which in case.presence:
        sender = case.rows.keys[place][1]
        dropped[rows] = np.array([*(sender in presence.dropped for presence in presences), False])[which]
        checked[rows] = np.array([*(bool(presence.dropped) for presence in presences), False])[which]
    return RowCounts(np.where(dropped, messages, 0), np.zeros_like(messages), np.where(checked, messages, 0))


def first_violation(case: Case, row: int) -> FirstViolation:
    return FirstViolation(int(case.rows.start[row]), [])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The senders that should have been silent: whatever they sent counts as one."""
    for place in np.unique(case.place[chosen]).tolist():
        yield place, span(0, 1)
