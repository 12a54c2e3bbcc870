"""The second pass: one piece of a log before its judges.

A check looks at all deliver rows of the piece at once and gives three numbers for each: how many of the single messages
in it violate the guarantee, are unknown, and were looked at. What the process had delivered before the piece comes in
as `already`, so each piece is judged by itself.

Where order is kept, most questions are answered by one number per row: the lowest one of a key that the process was
still owed behind it (`missing`). It takes little to find where a key was delivered without gaps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from antiphon.pipeline.audit.logs import ENDLESS
from antiphon.pipeline.audit.order import NO_ROW, Order, WrittenOff
from antiphon.pipeline.audit.rows import Key, MessageRows
from antiphon.pipeline.audit.view_intervals import Presence
from antiphon.pipeline.intervals import EMPTY, NEVER, DeliveryCoverage, Ints, Mask, Spans, clip, difference, span, union

BEFORE_ALL: Final = -1
"""An index before that of every row."""
_NOTHING: Final = WrittenOff(*(np.empty(0, np.int64),) * 3)


class RowCounts(NamedTuple):
    """Single messages, per deliver row."""

    violations: Ints
    unknown: Ints
    checked: Ints


class FirstViolation(NamedTuple):
    """Which message of a row shows a violation, and which earlier ones of other keys it lacks."""

    number: int
    lacking: list[tuple[int, int]]
    """(key, number), the key as a place in the order's keys."""


class Already(NamedTuple):
    """What a process had delivered of a key: all it was owed below a number, and what else."""

    below: int = 1
    others: Spans = EMPTY

    @property
    def top(self) -> int:
        """A number that nothing from it on had been delivered."""
        return max(self.below, int(self.others.ends[-1]) if len(self.others.ends) else 0)

    def and_then(self, spans: Spans, owed: Spans) -> "Already":
        """When some more has been delivered."""
        others = union(self.others, spans)
        top = max(self.below, int(others.ends[-1]))
        waited_for = clip(owed, self.below, top)
        missing = difference(waited_for, others)
        below = int(missing.starts[0]) if len(missing.starts) else top
        return Already(below, difference(others, clip(waited_for, self.below, below)))

    def spans(self, owed: Spans) -> Spans:
        return union(clip(owed, 1, self.below), self.others)


class Segments(NamedTuple):
    """Deliver rows cut up where one send run ends and the next begins."""

    row: Ints
    run: Ints
    start: Ints
    end: Ints


@dataclass
class Case:
    """The deliveries of one piece, and what is needed to judge them."""

    order: Order
    process: str
    rows: MessageRows
    already: Mapping[Key, Already]
    """What the process had delivered before, by key."""
    presences: Mapping[str, Sequence[Presence]]
    """The views that the process was in, by group: the one before the piece, if any, and those that begin in it."""
    completed_ends: Mapping[str, int]
    """By group, the row from which on it is not on record that the process completed its view."""
    left: Mapping[str, int]
    """The rows from which on the process is owed nothing more, by the groups that it left."""
    apart: int = ENDLESS
    """The row from which on order between groups is not promised to the process."""
    place: Ints = field(init=False)
    """The key of each row, as a place in the order's keys."""
    sent: Ints = field(init=False)
    """Per row: how many messages of its key are on record."""
    open: Mask = field(init=False)
    """Per row: whether its sender's log is open."""
    end: Ints = field(init=False)
    """Per row: the end of what was, or may have been, sent; not above `rows.start` if nothing of it was."""
    _missing: dict[int, Ints] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        of_key = np.array([self.order.places[key] for key in self.rows.keys], np.int64)
        self.place = of_key[self.rows.key]
        self.sent = self.order.sent[self.place]
        self.open = self.order.open_keys[self.place]
        self.end = np.where(self.open, self.rows.end, np.minimum(self.rows.end, self.sent + 1))

    @cached_property
    def _rows_by_key(self) -> tuple[Ints, Ints]:
        """The rows sorted by key, and where each key of the order begins among them."""
        sorting = np.argsort(self.place, kind="stable")
        return sorting, np.searchsorted(self.place[sorting], np.arange(len(self.order.keys) + 1))

    def rows_of(self, place: int) -> Ints:
        """The rows of a key, in order."""
        sorting, bounds = self._rows_by_key
        return sorting[bounds[place] : bounds[place + 1]]

    def known(self, place: int) -> Already:
        """What the process had delivered of a key before the piece."""
        return self.already.get(self.order.keys[place], Already())

    def missing(self, place: int) -> Ints:
        """The lowest number of a key that the process is still owed: before the piece, and behind each row of the key.

        NEVER where it is owed nothing more.
        """
        if place not in self._missing:
            self._missing[place] = self._find_missing(place)
        return self._missing[place]

    def missing_behind(self, place: int, rows: Ints) -> tuple[Ints, Ints]:
        """The same behind rows of any key: numbers, and for each row which one it is."""
        if not len(self._written_off(place).starts):
            return self.missing(place), np.cumsum(self.place == place)[rows]
        if not len(self.order.owed(self.process, place).starts):
            return np.full(1, NEVER), np.zeros(len(rows), np.int64)
        return self._missing_after(place, self.rows.index[rows]), np.arange(len(rows))

    def _find_missing(self, place: int) -> Ints:
        rows, owed, known = self.rows_of(place), self.order.owed(self.process, place), self.known(place)
        if not len(owed.starts):
            return np.full(len(rows) + 1, NEVER)
        start, end = self.rows.start[rows], self.rows.end[rows]
        in_order = np.concatenate(([known.below], end))
        if not len(known.others.starts) and (in_order[:-1] == start).all() and not len(self._written_off(place).starts):
            top = max(known.top, int(end.max(initial=1)))
            if _is_one(clip(owed, known.below, top), known.below, top):
                rest = clip(owed, top, ENDLESS)
                in_order[-1] = int(rest.starts[0]) if len(rest.starts) else NEVER
                return in_order
        return self._missing_after(place, np.concatenate(([BEFORE_ALL], self.rows.index[rows])))

    def _missing_after(self, place: int, at: Ints) -> Ints:
        """The lowest number of a key that the process is still owed behind certain rows, by their index."""
        rows, owed = self.rows_of(place), self.order.owed(self.process, place)
        known, off = self.known(place), self._written_off(place)
        start, end = self.rows.start[rows], self.rows.end[rows]
        top = max(known.top, int(end.max(initial=1)), int(off.ends.max(initial=1)))
        rest = clip(owed, top, ENDLESS)
        waited_for = clip(owed, known.below, top)
        coverage = DeliveryCoverage(*_with(off, start, end, self.rows.index[rows]), waited_for, known.others)
        found = coverage.missing_after(at)
        return np.where(found == NEVER, int(rest.starts[0]) if len(rest.starts) else NEVER, found)

    def cover(self, place: int, wanted: Spans) -> DeliveryCoverage:
        """When the process had delivered certain numbers of a key, or was not owed them any more."""
        return self._cover(place, wanted, self._written_off(place))

    def deliveries(self, place: int, wanted: Spans | None = None) -> DeliveryCoverage:
        """When the process had delivered certain numbers of a key, or each of them."""
        return self._cover(place, span(1, ENDLESS) if wanted is None else wanted, _NOTHING)

    def _cover(self, place: int, wanted: Spans, off: WrittenOff) -> DeliveryCoverage:
        rows = self.rows_of(place)
        already = self.known(place).spans(self.order.owed(self.process, place))
        delivered = (self.rows.start[rows], self.rows.end[rows], self.rows.index[rows])
        return DeliveryCoverage(*_with(off, *delivered), wanted, already)

    def _written_off(self, place: int) -> WrittenOff:
        """What the process is not owed any more from some row on, or perhaps not, as far as it still lacked it before
        the piece."""
        off = self.order.written_off.get((self.process, place)) or self.order.left_open.get((self.process, place))
        if off is None:
            return _NOTHING
        chosen = (off.row != ENDLESS) & (off.ends > self.known(place).below)
        return WrittenOff(off.starts[chosen], off.ends[chosen], off.row[chosen])

    def left_by(self, place: int, at: Ints) -> Mask:
        """At which rows the process had left the group of a key."""
        result: Mask = at > self.left.get(self.order.keys[place][0], ENDLESS)
        return result

    def held_to(self, place: int, rows: Ints) -> Mask:
        """Which rows are in order with the messages of a key: those of its group, and those of other groups of its
        domain while that is promised."""
        groups = np.array([group == self.order.keys[place][0] for group, _ in self.rows.keys], bool)
        domain = self.order.past.sources.domain
        together = (domain[self.place[rows]] == domain[place]) & (self.rows.index[rows] < self.apart)
        result: Mask = groups[self.rows.key[rows]] | together
        return result

    def off_record(self, place: int) -> DeliveryCoverage:
        """When the process had delivered all that may have been sent off record."""
        return self.cover(place, span(int(self.order.sent[place]) + 1, ENDLESS))

    def segments(self, chosen: Mask) -> Segments:
        """The chosen rows, as far as they were sent, by send run."""
        if chosen.all():
            return self.all_segments
        own = chosen[self.all_segments.row]
        return Segments(*(column[own] for column in self.all_segments))

    @cached_property
    def all_segments(self) -> Segments:
        """All rows, as far as they were sent, by send run."""
        parts: list[Segments] = []
        for place in np.unique(self.place).tolist():
            row = self.rows_of(place)
            row = row[self.end[row] > self.rows.start[row]]
            start, end = self.rows.start[row], self.end[row]
            first, last = self.order.run_of(place, start), self.order.run_of(place, end - 1)
            count = last - first + 1
            row, start, end = np.repeat(row, count), np.repeat(start, count), np.repeat(end, count)
            run = np.repeat(first, count) + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
            start, end = np.maximum(start, self.order.start[run]), np.minimum(end, self.order.end[run])
            parts.append(Segments(row, run, start, end))
        if not parts:
            return Segments(*(np.empty(0, np.int64),) * 4)
        return Segments(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def per_row(self, segments: Segments, counts: Ints) -> Ints:
        """The sum of counts over the segments of each row."""
        sums = np.zeros(len(self.rows.key), np.int64)
        np.add.at(sums, segments.row, counts)
        return sums

    def latencies(self) -> tuple[Ints, Ints, Ints]:
        """Row, nanoseconds from send to delivery (never below 0), and number of messages, by send run."""
        segments = self.all_segments
        known = np.flatnonzero(self.order.index[segments.run] != NO_ROW)
        row, run = segments.row[known], segments.run[known]
        latency_ns = np.maximum(self.rows.time_ns[row] - self.order.time_ns[run], 0)
        return row, latency_ns, segments.end[known] - segments.start[known]

    @cached_property
    def presence(self) -> list[tuple[int, Ints, Sequence[Presence], Ints]]:
        """For each key: its place among the rows' keys, its rows, and the presences with, per row, which one it is in.

        A row in no view has -1.
        """
        result = []
        for place, (group, _) in enumerate(self.rows.keys):
            rows = self.rows.of_key(place)
            presences = self.presences.get(group, ())
            begins = np.array([presence.begin for presence in presences], np.int64)
            result.append((place, rows, presences, begins.searchsorted(self.rows.index[rows]) - 1))
        return result


def spans_by_key(places: Ints, starts: Ints, ends: Ints) -> Iterator[tuple[int, Spans]]:
    """The union of intervals of numbers, key by key; empty intervals count for nothing."""
    for place in np.unique(places[ends > starts]).tolist():
        own = (places == place) & (ends > starts)
        yield place, union((starts[own], ends[own]))


def _with(off: WrittenOff, start: Ints, end: Ints, index: Ints) -> tuple[Ints, Ints, Ints]:
    """What was delivered, and what is written off, alike."""
    if not len(off.starts):
        return start, end, index
    columns = zip((start, end, index), off, strict=True)
    start, end, index = (np.concatenate(pair) for pair in columns)
    return start, end, index


def _is_one(spans: Spans, start: int, end: int) -> bool:
    """Whether a set is a single interval."""
    return len(spans.starts) == 1 and int(spans.starts[0]) == start and int(spans.ends[0]) == end
