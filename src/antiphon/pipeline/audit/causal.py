"""causal: when a process delivers m', it has delivered every m with m → m' that it was owed, in every group they share.

The past of a message is one number per key (`antiphon.pipeline.audit.order`); for each key, the position by which the
process had delivered everything owed up to that number must lie before the delivery. A message that is in its own past
is violated by every delivery. What is not violated is unknown if something in the past is off record.
"""

import numpy as np

from antiphon.pipeline.audit.case import Case, RowCounts, Segments, Witness
from antiphon.pipeline.audit.rows import CAUSAL_RANK
from antiphon.pipeline.intervals import Ints, Mask


def count(case: Case) -> RowCounts:
    segments = case.segments(case.rows.level >= CAUSAL_RANK)
    late = _late(case, segments)
    circular = _circular_end(case, segments) - segments.start
    messages = segments.end - segments.start
    violations = np.where(late, messages, circular)
    unknown = np.where(case.order.off_record()[segments.run], messages - violations, 0)
    return RowCounts(*(case.per_row(segments, counts) for counts in (violations, unknown, messages)))


def witness(case: Case, row: int) -> Witness:
    """The first violating message of the row, and of each key the highest number that it should have waited for."""
    chosen = np.zeros(len(case.place), bool)
    chosen[row] = True
    segments = case.segments(chosen)
    circular = _circular_end(case, segments) > segments.start
    segment = int(np.argmax(_late(case, segments) | circular))
    number, place, index = int(segments.start[segment]), int(case.place[row]), int(case.rows.index[row])
    if circular[segment]:
        return Witness(number, [(place, number)])
    past = case.order.past[segments.run[segment]].copy()
    past[place] = case.rows.start[row] - 1
    missing = [
        (key, case.coverage(key).highest_missing(index, int(past[key]))) for key in np.flatnonzero(past).tolist()
    ]
    return Witness(number, [(key, lacking) for key, lacking in missing if lacking is not None])


def _late(case: Case, segments: Segments) -> Mask:
    """Which segments were delivered before something in their past."""
    at = case.rows.index[segments.row]
    own = case.place[segments.row]
    late = np.zeros(len(at), bool)
    for place in range(len(case.order.keys)):
        # Of its own key, everything below the row: the numbers within the row come in order.
        needed = np.where(own == place, case.rows.start[segments.row] - 1, case.order.past[segments.run, place])
        if needed.any():
            late |= case.coverage(place).position(needed) > at
    return late


def _circular_end(case: Case, segments: Segments) -> Ints:
    """The end of those numbers of a segment that are in their own past."""
    own_past = case.order.past[segments.run, case.place[segments.row]]
    return np.clip(own_past + 1, segments.start, segments.end)
