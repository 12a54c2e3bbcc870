"""total, for messages of level abcast: of each label of a group, all members deliver them in one common order.

Which label a message has, its send row says, so what is off record is unknown. No process need deliver all messages of
a label, so no log can be the order that others are compared with (total.py): the driver asks for all deliveries at
level abcast, cut up by label, and looks for strongly connected sets in each. Only groups with such messages cost that:
memory on the driver in proportion to their rows of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.row_queries import QueriedRows, RowQuery
from antiphon.pipeline.audit.rows import ABCAST_RANK
from antiphon.pipeline.audit.total import OrderCycles, blocks_of, distinct, step_at
from antiphon.pipeline.audit.view_intervals import ViewViolation
from antiphon.pipeline.cycle import cycle_through, strongly_connected_sets
from antiphon.pipeline.explain import MessageName, total_text
from antiphon.pipeline.intervals import Ints, Mask


class LabelledRows(NamedTuple):
    """Parts of rows, each the numbers [start, end) of a key, as a place in the order's keys, with one label."""

    key: Ints
    start: Ints
    end: Ints
    row: Ints
    """The index of the row."""
    label: Ints
    """A place in the order's labels; -1 for none, and for what is off record."""

    def chosen(self, mask: Mask) -> "LabelledRows":
        return LabelledRows(*(column[mask] for column in self))

    def messages(self) -> int:
        """How many there are, each counted once."""
        return distinct(self.key, self.start, self.end)


def cut_by_send_run(order: Order, seen: QueriedRows) -> tuple[LabelledRows, LabelledRows]:
    """Rows of a log as parts of send runs, in order, and what of them is off record. What was never sent is in
    neither."""
    key = np.array([order.places[name] for name in seen.keys], np.int64)[seen.key]
    sent = order.sent[key]
    beyond = LabelledRows(key, np.maximum(seen.start, sent + 1), seen.end, seen.index, np.full(len(key), -1))
    beyond = beyond.chosen(order.open_keys[key] & (seen.end > sent + 1))
    parts: list[LabelledRows] = []
    for place in np.unique(key).tolist():
        rows = np.flatnonzero((key == place) & (seen.start <= sent))
        start, end = seen.start[rows], np.minimum(seen.end[rows], sent[rows] + 1)
        first, last = order.run_of(place, start), order.run_of(place, end - 1)
        count = last - first + 1
        run = np.repeat(first, count) + np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        low, high = (
            np.maximum(np.repeat(start, count), order.start[run]),
            np.minimum(np.repeat(end, count), order.end[run]),
        )
        index = np.repeat(seen.index[rows], count)
        parts.append(LabelledRows(np.full(len(run), place), low, high, index, order.label[run]))
    if not parts:
        return LabelledRows(*(np.empty(0, np.int64),) * 5), beyond
    found = LabelledRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    along = np.lexsort((found.start, found.row))
    return LabelledRows(*(column[along] for column in found)), beyond


def groups_with(logs: Iterable[LogFacts]) -> set[str]:
    """The groups in which anybody delivered a message of level abcast."""
    return {group for log in logs for piece in log.pieces for group in piece["abcasts"]}


def queries(group: str, logs: Mapping[str, LogFacts], level: int = ABCAST_RANK) -> Iterator[tuple[str, RowQuery]]:
    """All deliveries at this level in views of the group."""
    for process, log in logs.items():
        views = [view["index"] for piece in log.pieces for view in piece["views"] if view["group"] == group]
        if views:
            yield process, RowQuery(group, min(views), log.rows, level=level)


def find_cycles(order: Order, group: str, logs: Mapping[str, LogFacts], seen: Mapping[str, QueriedRows]) -> OrderCycles:
    """What is in no order among the messages of one label, for all labels of a group."""
    unknown = 0
    by_label: dict[str, dict[str, LabelledRows]] = defaultdict(dict)
    for process, own in seen.items():
        log = logs[process]
        own = _of_level(own)
        completed = log.completed_ends().get(group, 0)
        rows, beyond = cut_by_send_run(order, own.between(0, completed))
        unknown += beyond.messages()
        if log.is_early(group):
            unknown += sum(part.messages() for part in cut_by_send_run(order, own.between(completed, log.rows)))
        for label in np.unique(rows.label).tolist():
            text = order.labels[label].text if label >= 0 else ""
            part = rows.chosen(rows.label == label)
            already = by_label[text].get(process)
            by_label[text][process] = part if already is None else _merged(already, part)
    found = OrderCycles(unknown=unknown)
    for _, of_label in sorted(by_label.items()):
        found = found.and_also(_cycles(order, group, of_label))
    return found


def _of_level(rows: QueriedRows) -> QueriedRows:
    own = rows.level == ABCAST_RANK
    return QueriedRows(rows.keys, rows.key[own], rows.start[own], rows.end[own], rows.index[own], rows.level[own])


def _merged(one: LabelledRows, other: LabelledRows) -> LabelledRows:
    both = LabelledRows(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
    along = np.lexsort((both.start, both.row))
    return LabelledRows(*(column[along] for column in both))


def _cycles(order: Order, group: str, rows: Mapping[str, LabelledRows]) -> OrderCycles:
    every = LabelledRows(*(np.concatenate(columns) for columns in zip(*rows.values(), strict=True)))
    bounds, sequences = blocks_of({process: (own.key, own.start, own.end) for process, own in rows.items()})
    strong_sets = strongly_connected_sets(sequences.values())
    unknown = 0
    if strong_sets and group in order.recoveries:
        forced, count = order.recoveries[group].ranges, len(order.keys)
        keys = {process: own.key + count * step_at(own.row, forced.get(process, ())) for process, own in rows.items()}
        bounds, sequences = blocks_of({process: (keys[process], own.start, own.end) for process, own in rows.items()})
        together, strong_sets = len(strong_sets), strongly_connected_sets(sequences.values())
        unknown = max(0, together - len(strong_sets))
    if not strong_sets:
        return OrderCycles(checked=every.messages(), unknown=unknown)
    names = [
        MessageName(group, order.keys[key % len(order.keys)][1], int(cut))
        for key, cuts in bounds.items()
        for cut in cuts
    ]
    firsts = [min(names[block] for block in one) for one in strong_sets]
    chosen = strong_sets[firsts.index(min(firsts))]
    told = {process: [names[block] for block in own if block in chosen] for process, own in sequences.items()}
    cycle = cycle_through(min(firsts), told)
    deliveries = tuple((step.process, message) for step in cycle for message in (step.before, step.after))
    violation = ViewViolation(total_text(cycle), (), deliveries)
    return OrderCycles(len(strong_sets), violation, every.messages(), unknown)
