"""Sets of message numbers as intervals, and when each number was first delivered. All vectorised, free of Spark.

`Spans` are disjoint half-open intervals in rising order; what touches is joined.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NEVER: Final = np.iinfo(np.int64).max
"""The position of a delivery that did not happen."""
ALREADY: Final = -1
"""The position of what need not be waited for: before every row."""


class Spans(NamedTuple):
    """A set of numbers."""

    starts: Ints
    ends: Ints

    def size(self) -> int:
        if len(self.starts) < 2:
            return int(self.ends[0] - self.starts[0]) if len(self.starts) else 0
        return int((self.ends - self.starts).sum())

    def holds(self, numbers: Ints) -> Mask:
        """Which of the numbers are in the set."""
        if not len(self.starts):
            return np.zeros(len(numbers), bool)
        place = self.starts.searchsorted(numbers, "right") - 1
        return (place >= 0) & (numbers < self.ends[place])


EMPTY: Final = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def span(start: int, end: int) -> Spans:
    return Spans(np.array([start], np.int64), np.array([end], np.int64)) if end > start else EMPTY


def union(*sets: tuple[Ints, Ints]) -> Spans:
    """The union of intervals in any order."""
    parts = [part for part in sets if len(part[0])]
    if not parts:
        return EMPTY
    if len(parts) == 1:
        if isinstance(parts[0], Spans):
            return parts[0]
        starts, ends = parts[0]
    else:
        lowest = parts[0][0][0]
        if all(len(part[0]) == 1 and part[0][0] == lowest for part in parts):  # single ones that begin alike
            return Spans(parts[0][0], np.array([max(part[1][0] for part in parts)]))
        starts = np.concatenate([part[0] for part in parts])
        ends = np.concatenate([part[1] for part in parts])
    if len(starts) < 2:
        return Spans(starts, ends)
    if (starts[1:] == ends[:-1]).all():  # each goes on where the one before ends
        return Spans(starts[:1], ends[-1:])
    order = starts.argsort(kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Spans(starts[first], reach[last])


def clip(spans: Spans, low: int, high: int) -> Spans:
    """The numbers in [low, high)."""
    first, end = int(spans.ends.searchsorted(low, "right")), int(spans.starts.searchsorted(high, "left"))
    if first >= end or low >= high:
        return EMPTY
    return Spans(np.maximum(spans.starts[first:end], low), np.minimum(spans.ends[first:end], high))


def intersection(one: Spans, other: Spans) -> Spans:
    if _are_apart(one, other):
        return EMPTY
    bounds = _bounds(one, other)
    return _chosen(bounds, one.holds(bounds) & other.holds(bounds))


def difference(one: Spans, other: Spans) -> Spans:
    if _are_apart(one, other):
        return one
    if len(other.starts) == 1 and other.starts[0] <= one.starts[0]:  # it takes away a beginning, or all
        return clip(one, int(other.ends[0]), int(one.ends[-1]))
    bounds = _bounds(one, other)
    return _chosen(bounds, one.holds(bounds) & ~other.holds(bounds))


def covered_twice(starts: Ints, ends: Ints) -> Spans:
    """The numbers that are in more than one interval."""
    bounds = _distinct([starts, ends])
    depth = np.zeros(len(bounds), np.int64)
    np.add.at(depth, bounds.searchsorted(starts), 1)
    np.add.at(depth, bounds.searchsorted(ends), -1)
    return _chosen(bounds, np.cumsum(depth) > 1)


def _are_apart(one: Spans, other: Spans) -> bool:
    """Whether all of one set lies before all of the other, or one is empty."""
    if not len(one.starts) or not len(other.starts):
        return True
    return bool(one.ends[-1] <= other.starts[0] or other.ends[-1] <= one.starts[0])


def _bounds(*sets: Spans) -> Ints:
    return _distinct([part for spans in sets for part in spans])


def _distinct(parts: Sequence[Ints]) -> Ints:
    """All numbers once, in order. The parts are mostly in order by themselves, which this sorting makes use of."""
    together = np.sort(np.concatenate(parts), kind="stable")
    fresh = np.ones(len(together), bool)
    np.not_equal(together[1:], together[:-1], out=fresh[1:])
    return together[fresh]


def _chosen(bounds: Ints, chosen: Mask) -> Spans:
    """The pieces between neighbouring bounds that are chosen by the bound they begin with."""
    chosen = chosen[:-1]
    return union((bounds[:-1][chosen], bounds[1:][chosen]))


class DeliveryCoverage:
    """When the numbers of one sender and group were first delivered, as a step function.

    Built from runs [start, end) delivered at rising positions; `wanted` are the numbers that count, `already` those
    that were delivered before the first position.
    """

    def __init__(self, starts: Ints, ends: Ints, positions: Ints, wanted: Spans, already: Spans) -> None:
        self._bounds = _distinct([starts, ends, *wanted, *already])
        pieces = self._bounds[:-1]
        first = first_positions(self._bounds, starts, ends, positions)
        self._first = np.where(wanted.holds(pieces) & ~already.holds(pieces), first, ALREADY)
        self._reached = np.maximum.accumulate(self._first)

    def position(self, numbers: Ints) -> Ints:
        """For each number, the position by which every wanted number up to it had been delivered."""
        if not len(self._first):
            return np.full(len(numbers), ALREADY)
        place = self._bounds.searchsorted(numbers, "right") - 1
        reached = self._reached[np.clip(place, 0, len(self._reached) - 1)]
        return np.where(place >= 0, reached, ALREADY)

    def missing_after(self, positions: Ints) -> Ints:
        """For each position, the lowest wanted number that had not been delivered there, or NEVER."""
        place = self._reached.searchsorted(positions, "right")
        return np.append(self._bounds[: len(self._reached)], NEVER)[place]

    def lowest_missing(self, position: int, number: int) -> int | None:
        """The lowest wanted number up to `number` that had not been delivered at `position`."""
        late = np.flatnonzero((self._first > position) & (self._bounds[:-1] <= number))
        return int(self._bounds[late[0]]) if len(late) else None

    def highest_missing(self, position: int, number: int) -> int | None:
        """The highest such number."""
        late = np.flatnonzero((self._first > position) & (self._bounds[:-1] <= number))
        return min(number, int(self._bounds[late[-1] + 1]) - 1) if len(late) else None

    def first_deliveries(self) -> tuple[Ints, Ints]:
        """Positions, and how many wanted numbers were first delivered there; a position may come several times."""
        seen = (self._first != ALREADY) & (self._first != NEVER)
        return self._first[seen], np.diff(self._bounds)[seen]

    def delivered_before(self, position: int) -> Spans:
        """The numbers that had been delivered before a position, or were not wanted at all."""
        return _chosen(self._bounds, np.append(self._first < position, False))


def first_positions(bounds: Ints, starts: Ints, ends: Ints, positions: Ints) -> Ints:
    """For each piece between neighbouring bounds, the least position of an interval that covers it, or NEVER.

    Each interval is written down as two overlapping stretches of 2^k pieces; then each stretch is handed down to
    its two halves, longest first. So even n intervals that cover each other n times over cost n log n.
    """
    low = bounds.searchsorted(starts)
    length = bounds.searchsorted(ends) - low
    pieces = max(len(bounds) - 1, 0)
    scale = np.frexp(length.astype(np.float64))[1] - 1
    result = np.full(pieces, NEVER)
    for exponent in range(int(scale.max(initial=0)), -1, -1):
        half = 1 << exponent
        if exponent < int(scale.max(initial=0)):
            longer = result
            result = longer.copy()
            np.minimum(result[half:], longer[:-half], out=result[half:])
        of_scale = scale == exponent
        np.minimum.at(result, low[of_scale], positions[of_scale])
        np.minimum.at(result, low[of_scale] + length[of_scale] - half, positions[of_scale])
    return result
