"""view_sending: a message is delivered in the view it was sent in.

The view that the process is in by its view rows, and the view that the deliver row names, must both be the one in which
the message left. What is off record, or not known to have left, is unknown. What was sent to named destinations is not
held to it: a message from one to one is sent again in the next view if need be, as no flush cares for it. Neither is
what somebody sent who was never a member: it is in no view, and may have sent the same message in several.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts, Segments, spans_by_key
from antiphon.pipeline.audit.departures import NOT_LEFT
from antiphon.pipeline.intervals import Mask, Spans

NO_VIEW: Final = np.iinfo(np.int64).min


def count(case: Case) -> RowCounts:
    segments = case.segments(np.ones(len(case.place), bool))
    messages = np.where(_is_held(case, segments), segments.end - segments.start, 0)
    on_record = case.order.view[segments.run] != NOT_LEFT
    violations = np.where(_elsewhere(case, segments), messages, 0)
    unknown = np.where(on_record, 0, messages)
    return RowCounts(*(case.per_row(segments, counts) for counts in (violations, unknown, messages)))


def first_violation(case: Case, row: int) -> FirstViolation:
    chosen = np.zeros(len(case.place), bool)
    chosen[row] = True
    segments = case.segments(chosen)
    return FirstViolation(int(segments.start[np.argmax(_elsewhere(case, segments))]), [])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The messages that were delivered in another view."""
    segments = case.segments(chosen)
    bad = _elsewhere(case, segments)
    yield from spans_by_key(case.place[segments.row[bad]], segments.start[bad], segments.end[bad])


def _elsewhere(case: Case, segments: Segments) -> Mask:
    """Which segments are on record as having left for all of another view."""
    sent_in = case.order.view[segments.run]
    seen = np.full(len(case.place), NO_VIEW)
    for _, rows, presences, which in case.presence:
        seen[rows] = np.array([*(presence.view for presence in presences), NO_VIEW])[which]
    here = (seen[segments.row] == sent_in) & (case.rows.view[segments.row] == sent_in)
    elsewhere: Mask = (sent_in != NOT_LEFT) & _is_held(case, segments) & ~here
    return elsewhere


def _is_held(case: Case, segments: Segments) -> Mask:
    """Which segments are held to it: what members sent to all."""
    order = case.order
    member = np.array([key in order.joined or key[1] in order.missing for key in order.keys], bool)
    held: Mask = (order.narrow[segments.run] < 0) & member[case.place[segments.row]]
    return held
