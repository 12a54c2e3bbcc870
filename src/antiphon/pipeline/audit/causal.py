"""causal: when a process delivers m', it has delivered every m with m → m' that it was owed, in every group they share.

The past of a message is one number per source (`antiphon.pipeline.audit.past`). For each key, the lowest message that
the process is still owed behind a delivery must not be among so many of its source. A message that is in its own past
is violated by every delivery. What is not violated is unknown if something in the past is off record, or lacking and
perhaps owed to the process. Of what is lost, only what is in the strong past counts (`antiphon.pipeline.audit.lost`);
that, and examples, go by numbers of keys. A process that reads each group apart is held to the order within each group
only.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts, Segments, spans_by_key
from antiphon.pipeline.audit.logs import ENDLESS
from antiphon.pipeline.audit.order import NO_ROW
from antiphon.pipeline.audit.past import Counts
from antiphon.pipeline.audit.rows import CAUSAL_RANK
from antiphon.pipeline.intervals import NEVER, Ints, Mask, Spans, difference, intersection


def count(case: Case) -> RowCounts:
    segments = case.segments(case.rows.level >= CAUSAL_RANK)
    late = _late(case, segments)
    circular = _circular_end(case, segments) - segments.start
    messages = segments.end - segments.start
    violations = np.where(late, messages, circular)
    in_doubt = case.order.off_record()[segments.run] | _perhaps_late(case, segments)
    unknown = np.where(in_doubt, messages - violations, 0)
    return RowCounts(*(case.per_row(segments, counts) for counts in (violations, unknown, messages)))


def first_violation(case: Case, row: int) -> FirstViolation:
    """The first violating message of the row, and of each key the highest number that it should have waited for."""
    chosen = np.zeros(len(case.place), bool)
    chosen[row] = True
    segments = case.segments(chosen)
    circular = _circular_end(case, segments) > segments.start
    segment = int(np.argmax(_late(case, segments) | circular))
    number, index = int(segments.start[segment]), int(case.rows.index[row])
    if circular[segment]:
        return FirstViolation(number, [(int(case.place[row]), number)])
    lacking: dict[int, int] = {}
    for place, wanted, needed in _demands(case, segments, range(len(case.order.keys))):
        if not needed[segment]:
            continue
        missing = case.cover(place, wanted).highest_missing(index, int(needed[segment]))
        if missing is not None:
            lacking[place] = max(missing, lacking.get(place, 0))
    return FirstViolation(number, list(lacking.items()))


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The messages in their own past, and of each other message that came too early the first that it lacked."""
    segments = case.segments(chosen & (case.rows.level >= CAUSAL_RANK))
    circular = _circular_end(case, segments)
    yield from spans_by_key(case.place[segments.row], segments.start, circular)
    rest = circular < segments.end
    place, number = _first_lacking(case, Segments(*(column[rest] for column in segments)))
    yield from spans_by_key(place[number > 0], number[number > 0], number[number > 0] + 1)


def _first_lacking(case: Case, segments: Segments) -> tuple[Ints, Ints]:
    """The first key, by name, of which each segment lacked something, and the lowest number of it; 0 for nothing."""
    order, at, key = case.order, case.rows.index[segments.row], case.place[segments.row]
    first, lowest = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    known = order.past.counts[segments.run]
    for place in range(len(order.keys)):
        numbers = np.full(len(at), NEVER)
        if place not in order.lost:
            early = _too_early(case, segments, key, place, known[:, order.past.sources.of_key[place]])
            lacking, behind = case.missing_behind(place, segments.row[early])
            numbers[early] = lacking[behind]
        else:
            for _, wanted, needed in _demands(case, segments, [place]):
                coverage = case.cover(place, wanted)
                for segment in np.flatnonzero(coverage.position(needed) > at).tolist():
                    missing = coverage.lowest_missing(int(at[segment]), int(needed[segment]))
                    numbers[segment] = min(int(numbers[segment]), NEVER if missing is None else missing)
        found = (numbers != NEVER) & (lowest == 0)
        first[found], lowest[found] = place, numbers[found]
    return first, lowest


def _late(case: Case, segments: Segments) -> Mask:
    """Which segments were delivered before something in their past."""
    order = case.order
    at, key = case.rows.index[segments.row], case.place[segments.row]
    late = np.zeros(len(at), bool)
    known = order.past.counts[segments.run]
    for place in range(len(order.keys)):
        if place not in order.lost:
            late |= _too_early(case, segments, key, place, known[:, order.past.sources.of_key[place]])
    for place, wanted, needed in _demands(case, segments, order.lost):
        if needed.any():
            late |= case.cover(place, wanted).position(needed) > at
    return late


def _perhaps_late(case: Case, segments: Segments) -> Mask:
    """Which segments were delivered before something in their past that the process may have been owed."""
    order, at = case.order, case.rows.index[segments.row]
    late = np.zeros(len(at), bool)
    for place in range(len(order.keys)):
        perhaps = order.perhaps_owed(case.process, place)
        if perhaps.size():
            coverage = case.cover(place, perhaps)
            for _, _, needed in _demands(case, segments, [place]):
                late |= coverage.position(needed) > at
        left_open = order.open_to(case.process, place)
        if left_open.size():
            for _, wanted, needed in _demands(case, segments, [place]):
                late |= case.deliveries(place, intersection(wanted, left_open)).position(needed) > at
    return late


def _too_early(case: Case, segments: Segments, key: Ints, place: int, known: Counts) -> Mask:
    """Which segments came before something of a key in their past; `known`: how much of its source is in it."""
    own: Mask = key == place
    if not own.any() and (not len(known) or case.missing(place)[0] == NEVER):
        return own
    missing, behind = case.missing_behind(place, segments.row)
    limit = np.where(missing == NEVER, NEVER, case.order.past.sources.counts(place, missing))
    early: Mask = known >= limit[behind]
    # Of its own key, everything below the row: the numbers within the row come in order.
    early[own] = (missing[behind] < case.rows.start[segments.row])[own]
    if case.apart != ENDLESS:
        early &= case.held_to(place, segments.row)
    if case.order.keys[place][0] in case.left:
        early &= ~case.left_by(place, case.rows.index[segments.row])
    return early


def _demands(case: Case, segments: Segments, places: Iterable[int]) -> Iterator[tuple[int, Spans, Ints]]:
    """For some keys: which numbers count, and up to which one each segment needs them, or 0."""
    order, run = case.order, segments.run
    at = case.rows.index[segments.row]
    for place in places:
        own = case.place[segments.row] == place
        held = ~case.left_by(place, at) & case.held_to(place, segments.row)
        # Of its own key, everything below the row: the numbers within the row come in order.
        below = np.where(held, np.where(own, case.rows.start[segments.row] - 1, order.past.numbers(run, place)), 0)
        lost, owed = order.lost.get(place), order.owed(case.process, place)
        if lost is None:
            yield place, owed, below
            continue
        yield place, owed, np.where(own, below, 0)
        yield place, difference(owed, lost.spans), np.where(own, 0, below)
        yield place, intersection(owed, lost.spans), np.where(held, lost.sent_before[run], 0)
        for spans, teller, index in lost.told:
            needed = np.where(held & (order.told[teller, run] > index), int(spans.ends[-1]) - 1, 0)
            yield place, intersection(owed, spans), needed


def _circular_end(case: Case, segments: Segments) -> Ints:
    """The end of those numbers of a segment that are in their own past."""
    sources, run = case.order.past.sources, segments.run
    key, off_record = case.order.key[run], case.order.index[run] == NO_ROW
    known = case.order.past.counts[run, np.where(off_record, sources.off_record[key], sources.of_key[key])]
    end: Ints = np.clip(case.order.start[run] + known - sources.begin[run], segments.start, segments.end)
    return end
