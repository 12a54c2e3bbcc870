"""total: the union of all members' delivery orders of a group's agreed and safe messages has no cycle.

Where all is well it is proved without a graph. Of each view one process is the *model*: the one that delivered most
there. Its deliveries, view after view, give each message a position. If the positions rise along every log, they are an
order that all logs keep, and there is no cycle. Each piece is checked by itself; the driver then only compares where
one piece ends with where the next one begins.

Where this proves nothing, because positions fall, or a message has none, the driver asks to see all agreed and safe
deliveries of the group, cuts them up so that every log delivers each block in one go or not at all, and looks for
strongly connected sets of blocks. Only broken histories, and odd ones, cost that.

In groups whose views part and merge, only what was delivered before the transitional row of a view takes part so, and
of the rest what somebody else delivered as safe before its own (`antiphon.pipeline.reference_components`). What came
behind the row is in order among those that went on together: it is little, and the driver asks to see it all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from antiphon.pipeline.audit.case import Case
from antiphon.pipeline.audit.components import steps_of
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.parting import Parting, TotalRows
from antiphon.pipeline.audit.row_queries import QueriedRows, RowQuery
from antiphon.pipeline.audit.rows import IN_ORDER_RANKS, SAFE_RANK
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewInterval, ViewViolation
from antiphon.pipeline.audit.view_synchrony import Sendings
from antiphon.pipeline.cycle import cycle_through, strongly_connected_sets
from antiphon.pipeline.explain import MessageName, total_text
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, intersection, span, union


class Positions(NamedTuple):
    """The messages of one key, by number: those in [start, end) are one behind the other from a position on."""

    start: Ints
    end: Ints
    position: Ints


class Placed(NamedTuple):
    """Which positions a piece of a log goes through."""

    first: int
    end: int


UNPLACED: Final = Placed(0, -1)
"""Of a piece along which positions do not rise, or that delivers what has none."""


class OrderCycles(NamedTuple):
    """How many sets of messages of a group are in no order, and what shows it."""

    strong_sets: int = 0
    first_violation: ViewViolation | None = None
    checked: int = 0
    """Messages of level abcast, and…"""
    unknown: int = 0
    """…deliveries of such, which are judged apart (`antiphon.pipeline.audit.label_queues`)."""

    def and_also(self, other: "OrderCycles") -> "OrderCycles":
        first = self.first_violation if self.first_violation is not None else other.first_violation
        checked, unknown = self.checked + other.checked, self.unknown + other.unknown
        return OrderCycles(self.strong_sets + other.strong_sets, first, checked, unknown)


class Model(NamedTuple):
    """Whose deliveries give the order of a view, and where in its log; up to `completed_end` those that are agreed."""

    process: str
    first_index: int
    end_index: int
    completed_end: int


def count(
    group: str,
    view_intervals: GroupIntervals,
    logs: Mapping[str, LogFacts],
    sendings: Sendings,
    cycles: OrderCycles,
    parting: Parting | None = None,
) -> ViewCounts:
    """All counts of a group. The view intervals tell what takes part and what is unknown."""
    taking_part: dict[str, list[Spans]] = defaultdict(list)
    unknown = cycles.unknown
    for process, own in view_intervals.items():
        for interval in own:
            for sender, spans in _taking_part(interval, parting):
                taking_part[sender].append(sendings.existing((group, sender), spans))
            if not interval.completed and logs[process].is_early(group):
                unknown += sum(sendings.existing((group, key), spans).size() for key, spans in interval.agreed.items())
    checked = cycles.checked + sum(union(*spans).size() for spans in taking_part.values())
    if parting is not None:
        checked += _checked_in_components(group, view_intervals, sendings)
    return ViewCounts(cycles.strong_sets, unknown, checked, cycles.first_violation, cycles.strong_sets)


def _checked_in_components(group: str, view_intervals: GroupIntervals, sendings: Sendings) -> int:
    """How many messages were delivered behind transitional rows, by step."""
    checked = 0
    for passages in steps_of(view_intervals).values():
        parts: dict[str, list[Spans]] = defaultdict(list)
        for passage in passages:
            late = passage.interval.late
            for sender, spans in (*late.agreed.items(), *late.safe.items()):
                parts[sender].append(sendings.existing((group, sender), spans))
        checked += sum(union(*spans).size() for spans in parts.values())
    return checked


def _taking_part(interval: ViewInterval, parting: Parting | None) -> Iterator[tuple[str, Spans]]:
    part = interval if parting is None else interval.regular
    yield from part.safe.items()
    if interval.completed:
        yield from part.agreed.items()
    if parting is not None:
        for sender, spans in interval.late.safe.items():
            yield sender, intersection(spans, parting.safe.get(interval.view, {}).get(sender, EMPTY))


def models(view_intervals: GroupIntervals, logs: Mapping[str, LogFacts], parting: Parting | None = None) -> list[Model]:
    """One for each view in which anything takes part, by view id."""
    best: dict[int, tuple[int, Model]] = {}
    for process, own in view_intervals.items():
        ends = [*(interval.index for interval in own[1:]), logs[process].rows]
        for interval, end in zip(own, ends, strict=True):
            size = sum(spans.size() for _, spans in _taking_part(interval, parting))
            if parting is not None and interval.transit is not None:
                end = interval.transit
            if size > best.get(interval.view, (0,))[0]:
                model = Model(process, interval.index, end, end if interval.completed else interval.index)
                best[interval.view] = (size, model)
    return [model for _, (_, model) in sorted(best.items())]


def model_queries(group: str, models: Iterable[Model]) -> Iterator[tuple[str, RowQuery]]:
    """What takes part of the models' deliveries. Who is the model of many views in a row is asked only once."""
    parts: dict[tuple[str, int], list[Spans]] = defaultdict(list)
    for model in models:
        parts[model.process, SAFE_RANK].append(span(model.first_index, model.end_index))
        for level in IN_ORDER_RANKS:
            parts[model.process, level].append(span(model.first_index, model.completed_end))
    for (process, level), spans in parts.items():
        for first, end in zip(*(side.tolist() for side in union(*spans)), strict=True):
            yield process, RowQuery(group, first, end, level=level)


def all_queries(
    group: str, logs: Mapping[str, LogFacts], levels: tuple[int, ...] = IN_ORDER_RANKS
) -> Iterator[tuple[str, RowQuery]]:
    """What takes part of anybody's deliveries."""
    for process, log in logs.items():
        first_view = min(
            (view["index"] for piece in log.pieces for view in piece["views"] if view["group"] == group),
            default=log.rows,
        )
        completed_end = min(log.rows, log.completed_ends().get(group, 0))
        yield process, RowQuery(group, first_view, log.rows, level=SAFE_RANK)
        for level in levels:
            yield process, RowQuery(group, first_view, completed_end, level=level)


def positions(order: Order, models: Iterable[Model], seen: Mapping[str, QueriedRows]) -> dict[int, Positions] | None:
    """By key, as a place in the order's keys; None if the models themselves have something twice."""
    parts = [
        existing(order, seen[model.process].between(model.first_index, model.end_index))
        for model in models
        if model.process in seen
    ]
    if not parts:
        return {}
    key, start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    position = np.cumsum(end - start) - (end - start)
    result: dict[int, Positions] = {}
    for place in np.unique(key).tolist():
        rows = np.flatnonzero(key == place)
        rows = rows[np.argsort(start[rows])]
        if (end[rows][:-1] > start[rows][1:]).any():
            return None
        result[place] = Positions(start[rows], end[rows], position[rows])
    return result


def existing(order: Order, seen: QueriedRows) -> tuple[Ints, Ints, Ints]:
    """Key, start and end of rows, in order, without what was never sent."""
    key, end, sent = _sent_part(order, seen)
    return key[sent], seen.start[sent], end[sent]


def _sent_part(order: Order, seen: QueriedRows) -> tuple[Ints, Ints, Mask]:
    """Key of each row, the end of what of it was sent, and whether anything was."""
    key = np.array([order.places[name] for name in seen.keys], np.int64)[seen.key]
    end = np.where(order.open_keys[key], seen.end, np.minimum(seen.end, order.sent[key] + 1))
    return key, end, end > seen.start


def distinct(key: Ints, start: Ints, end: Ints) -> int:
    """How many messages there are, each counted once."""
    found = 0
    for place in np.unique(key).tolist():
        own = key == place
        along = np.argsort(start[own])
        starts, ends = start[own][along], end[own][along]
        reached = np.maximum.accumulate(np.concatenate(([0], ends[:-1])))
        found += int(np.maximum(ends - np.maximum(starts, reached), 0).sum())
    return found


def place(case: Case, group: str, of_key: Mapping[int, Positions]) -> Placed | None:
    """Whether positions rise along the deliveries of a piece that take part; None if there are no such."""
    mask = _takes_part(case, group)
    every = TotalRows(case.place, case.rows.start, case.end, case.rows.index)
    rows = every.chosen(mask)
    parting = case.order.partings.get(group)
    if parting is not None:
        late = parting.is_late(case.process, rows.row)
        is_safe = case.rows.level[mask] == SAFE_RANK
        decided = parting.decided(case.process, case.order.keys, rows.chosen(late & is_safe))
        rows = rows.chosen(~late).and_also(decided)
    if not len(rows.key):
        return None
    lengths = int((rows.end - rows.start).sum())
    parts: list[tuple[Ints, Ints, Ints]] = []
    for key in np.unique(rows.key).tolist():
        if key not in of_key:
            return UNPLACED
        parts.append(_place_rows(rows, np.flatnonzero(rows.key == key), of_key[key]))
    row, first, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    along = np.lexsort((np.concatenate([np.arange(len(part[0])) for part in parts]), row))
    first, end = first[along], end[along]
    if int((end - first).sum()) != lengths or (first[1:] < end[:-1]).any():
        return UNPLACED
    return Placed(int(first[0]), int(end[-1]))


def _takes_part(case: Case, group: str) -> Mask:
    rows = case.rows
    mask = rows.of_group(group) & (case.end > rows.start)
    completed = rows.index < case.completed_ends.get(group, 0)
    mask &= (rows.level == SAFE_RANK) | (np.isin(rows.level, IN_ORDER_RANKS) & completed)
    for _, own, _, which in case.presence:
        mask[own] &= which >= 0
    result: Mask = mask
    return result


def _place_rows(every: TotalRows, rows: Ints, known: Positions) -> tuple[Ints, Ints, Ints]:
    """Rows of one key, cut up where the model's rows begin and end: row, and positions [first, end) of each part."""
    start, end = every.start[rows], every.end[rows]
    low = np.maximum(np.searchsorted(known.start, start, "right") - 1, 0)
    count = np.searchsorted(known.start, end, "left") - low
    row, part = np.repeat(rows, count), np.repeat(low, count)
    part += np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    begin = np.maximum(np.repeat(start, count), known.start[part])
    size = np.maximum(np.minimum(np.repeat(end, count), known.end[part]) - begin, 0)
    first = known.position[part] + begin - known.start[part]
    return row[size > 0], first[size > 0], (first + size)[size > 0]


def rises(pieces: Iterable[tuple[str, int, Placed]]) -> bool:
    """Whether positions rise along all logs; a piece is told by its process, its first row, and its positions."""
    ordered = sorted(pieces)
    if any(placed.end < placed.first for _, _, placed in ordered):
        return False
    return all(
        one[0] != other[0] or one[2].end <= other[2].first  # the next piece of the same log
        for one, other in pairwise(ordered)
    )


def component_queries(group: str, parting: Parting) -> Iterator[tuple[str, RowQuery]]:
    """What was delivered behind transitional rows."""
    for process, late in parting.late.items():
        for first, end in zip(*(side.tolist() for side in late), strict=True):
            for level in (*IN_ORDER_RANKS, SAFE_RANK):
                yield process, RowQuery(group, first, end, level=level)


def component_cycles(
    order: Order, group: str, seen: Mapping[str, QueriedRows], view_intervals: GroupIntervals
) -> OrderCycles:
    """What is in no order among those that went on together, behind the transitional rows of a group."""
    found = OrderCycles()
    for _, passages in sorted(steps_of(view_intervals).items()):
        late: dict[str, QueriedRows] = {}
        for passage in passages:
            transit, process = passage.interval.transit, passage.process
            if transit is not None and process in seen:
                own = seen[process].between(transit, passage.following.index)
                late[process] = late[process].and_then(own) if process in late else own
        found = found.and_also(find_cycles(order, group, late))
    return found


def regular_rows(seen: Mapping[str, QueriedRows], parting: Parting) -> dict[str, QueriedRows]:
    """Of all deliveries of a group that parts, those that take part in its common order."""
    result = {}
    for process, own in seen.items():
        late = parting.is_late(process, own.index)
        rows = TotalRows(own.key, own.start, own.end, own.index)
        decided = parting.decided(process, own.keys, rows.chosen(late & (own.level == SAFE_RANK)))
        kept = rows.chosen(~late).and_also(decided)
        result[process] = QueriedRows(own.keys, *kept, np.zeros(len(kept.key), np.int64))
    return result


def find_cycles(order: Order, group: str, seen: Mapping[str, QueriedRows]) -> OrderCycles:
    """What is in no order, from all deliveries of a group that take part."""
    rows = {process: existing(order, own) for process, own in seen.items()}
    bounds, sequences = blocks_of(rows)
    strong_sets = strongly_connected_sets(sequences.values())
    if not strong_sets:
        return OrderCycles()
    if group in order.recoveries:
        forced = order.recoveries[group].ranges
        apart = {process: _set_apart(order, own, forced.get(process, ())) for process, own in seen.items()}
        bounds, sequences = blocks_of(apart)
        together, strong_sets = len(strong_sets), strongly_connected_sets(sequences.values())
        if not strong_sets:
            return OrderCycles(unknown=together)
        return _told(order, group, bounds, sequences, strong_sets, max(0, together - len(strong_sets)))
    return _told(order, group, bounds, sequences, strong_sets, 0)


def _set_apart(order: Order, own: QueriedRows, forced: Sequence[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """Key, start and end of rows: what was delivered below safe in a view that was left by a forced step has keys of
    its own."""
    key, end, sent = _sent_part(order, own)
    step = np.where(own.level != SAFE_RANK, step_at(own.index, forced), 0)
    return (key + len(order.keys) * step)[sent], own.start[sent], end[sent]


def step_at(index: Ints, forced: Sequence[tuple[int, int, int]]) -> Ints:
    """The number of the forced step by which the view of each row was left, or 0."""
    result = np.zeros(len(index), np.int64)
    for first, end, number in forced:
        result[(first <= index) & (index < end)] = number
    return result


def _told(
    order: Order,
    group: str,
    bounds: Mapping[int, Ints],
    sequences: Mapping[str, list[int]],
    strong_sets: list[set[int]],
    unknown: int,
) -> OrderCycles:
    """What is in no order, with an example. The places of keys may be told apart by multiples of their number."""
    names = [
        MessageName(group, order.keys[key % len(order.keys)][1], int(cut))
        for key, cuts in bounds.items()
        for cut in cuts
    ]
    strong_set = min(strong_sets, key=min)
    told = {process: [names[block] for block in own if block in strong_set] for process, own in sequences.items()}
    cycle = cycle_through(names[min(strong_set)], told)
    deliveries = tuple((step.process, message) for step in cycle for message in (step.before, step.after))
    return OrderCycles(len(strong_sets), ViewViolation(total_text(cycle), (), deliveries), unknown=unknown)


def blocks_of(rows: Mapping[str, tuple[Ints, Ints, Ints]]) -> tuple[dict[int, Ints], dict[str, list[int]]]:
    """Cut up the numbers of each key so that every log delivers each block in one go or not at all: where the blocks of
    a key begin, and which blocks each log delivers, in order. `rows`: key, start and end of each row of a log."""
    bounds: dict[int, Ints] = {}
    for key in sorted({int(key) for keys, _, _ in rows.values() for key in np.unique(keys)}):
        cuts = [part[keys == key] for keys, *parts in rows.values() for part in parts]
        bounds[key] = np.unique(np.concatenate(cuts))
    offsets = dict(zip(bounds, np.cumsum([0, *(len(cuts) for cuts in bounds.values())]).tolist(), strict=False))
    return bounds, {process: _blocks(own, bounds, offsets) for process, own in rows.items()}


def _blocks(rows: tuple[Ints, Ints, Ints], bounds: Mapping[int, Ints], offsets: Mapping[int, int]) -> list[int]:
    """The blocks that a log delivers, in order, each where it is first delivered."""
    key, start, end = rows
    low, high = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
    for place, cuts in bounds.items():
        own = key == place
        low[own] = offsets[place] + np.searchsorted(cuts, start[own])
        high[own] = offsets[place] + np.searchsorted(cuts, end[own])
    count = high - low
    blocks = np.repeat(low, count) + np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return list(dict.fromkeys(blocks.tolist()))
