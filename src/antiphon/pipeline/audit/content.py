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
    on_record = np.maximum(np.minimum(rows.end, case.sent + 1) - rows.start, 0)
    off_record = np.where(case.open, rows.end - rows.start - on_record, 0)
    bad = _at_other_levels(case)
    for row in _digested(case).tolist():
        sent = case.order.contents[case.place[row]]
        other = _other_digests(sent, rows.digest[row], int(rows.start[row]), int(rows.level[row]))
        bad[row] += int(other.sum())
    whole = np.flatnonzero((rows.start <= case.sent) & (rows.end <= case.sent + 1))
    size = case.order.content_index.size_of(case.place[whole], rows.start[whole], rows.end[whole])
    other_size = whole[(size >= 0) & (size != rows.size[whole]) & (bad[whole] == 0)]
    bad[other_size] = on_record[other_size]
    return RowCounts(bad, off_record, on_record + off_record)


def _at_other_levels(case: Case) -> Ints:
    """How many messages of each row were sent at another level than that at which they were delivered."""
    segments = case.all_segments
    known = np.flatnonzero(segments.start <= case.sent[segments.row])  # else it is off record
    sent_at = case.order.content_index.level_of(case.place[segments.row[known]], segments.start[known])
    counts = np.zeros(len(segments.row), np.int64)
    counts[known] = np.where(sent_at != case.rows.level[segments.row[known]], (segments.end - segments.start)[known], 0)
    return case.per_row(segments, counts)


def _digested(case: Case) -> Ints:
    """The rows with digests of messages that were sent with digests."""
    has = np.array([len(sent.digests) > 0 for sent in case.order.contents], bool)
    own = np.flatnonzero(has[case.place] & (case.rows.start <= case.sent))
    return own[[case.rows.digest[row] is not None for row in own.tolist()]]


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
