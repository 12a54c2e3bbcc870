"""content: level, size and digest of a delivery are those of the send.

The level is compared message by message, and so are digests where both sides have recorded them. The sizes of rows are
sums, so they are compared where a deliver row begins and ends where send rows do, and count for all its messages if
nothing else tells which of them differs. What is off record is unknown.
"""

from collections.abc import Iterator

import numpy as np

from antiphon.history.schema import DIGEST_DIGITS
from antiphon.pipeline.audit.case import Case, FirstViolation, RowCounts, spans_by_key
from antiphon.pipeline.audit.contents import DIGEST_TYPE, SentContents
from antiphon.pipeline.intervals import Ints, Mask, Spans


def count(case: Case) -> RowCounts:
    rows = case.rows
    violations = np.zeros(len(rows.key), np.int64)
    for place in np.unique(case.place).tolist():
        of_key = case.rows_of(place)
        sent = case.order.contents[place]
        own = of_key[rows.start[of_key] <= sent.sent]
        violations[own] = _differing(case, own, sent)
    on_record = np.maximum(np.minimum(rows.end, case.sent + 1) - rows.start, 0)
    off_record = np.where(case.open, rows.end - rows.start - on_record, 0)
    return RowCounts(violations, off_record, on_record + off_record)


def _differing(case: Case, own: Ints, sent: SentContents) -> Ints:
    """How many messages of some rows of one key differ from what was sent."""
    rows = case.rows
    start, end = rows.start[own], np.minimum(rows.end[own], sent.sent + 1)
    bad = np.zeros(len(own), np.int64)
    levels = rows.level[own]
    for level in np.unique(levels).tolist():
        chosen = levels == level
        below_end, below_start = np.split(sent.at_level(level, np.concatenate((end[chosen], start[chosen]))), 2)
        bad[chosen] = end[chosen] - start[chosen] - (below_end - below_start)
    if len(sent.digests):
        for at, row in enumerate(own.tolist()):
            if rows.digest[row] is not None:
                other = _other_digests(sent, rows.digest[row], int(start[at]), int(rows.level[row]))
                bad[at] += int(other.sum())
    size = np.where(end == rows.end[own], sent.size_of(start, end), -1)
    other_size = (size >= 0) & (size != rows.size[own]) & (bad == 0)
    return np.where(other_size, end - start, bad)


def first_violation(case: Case, row: int) -> FirstViolation:
    """The first message of the row whose level or digest differs, or else the first of all."""
    return FirstViolation(int(_bad_numbers(case, row)[0]), [])


def roots(case: Case, chosen: Mask) -> Iterator[tuple[int, Spans]]:
    """The messages that differ."""
    rows = np.flatnonzero(chosen)
    bad = [_bad_numbers(case, row) for row in rows.tolist()]
    numbers = np.concatenate(bad) if bad else np.empty(0, np.int64)
    yield from spans_by_key(np.repeat(case.place[rows], [len(own) for own in bad]), numbers, numbers + 1)


def _bad_numbers(case: Case, row: int) -> Ints:
    """The messages of a violating row whose level or digest differs, or, if only the size does, all of them."""
    sent, rows = case.order.contents[case.place[row]], case.rows
    start, end = int(rows.start[row]), min(int(rows.end[row]), int(case.sent[row]) + 1)
    numbers = np.arange(start, end)
    bad: Mask = sent.level_of(numbers) != rows.level[row]
    if rows.digest[row] is not None:
        bad = bad | _other_digests(sent, rows.digest[row], start, int(rows.level[row]))
    return numbers[bad] if bad.any() else numbers


def _other_digests(sent: SentContents, digest: str, start: int, level: int) -> Mask:
    """Which messages of a row, from `start` on, were sent at its level with another digest."""
    count = min(len(digest) // DIGEST_DIGITS, sent.sent + 1 - start)
    if not len(sent.digests):
        return np.zeros(count, bool)
    numbers: Ints = np.arange(start, start + count)
    delivered = np.frombuffer(bytes.fromhex(digest), DIGEST_TYPE)[:count]
    differ = sent.digested[numbers - 1] & (sent.digests[numbers - 1] != delivered)
    result: Mask = differ & (sent.level_of(numbers) == level)
    return result
