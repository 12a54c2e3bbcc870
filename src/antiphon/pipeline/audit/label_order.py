"""label_order: labelled messages respect `precedes` (isis-1987, 3.3); the rule is in
`antiphon.pipeline.reference_labels`.

Comparisons are functions of the application, known to the driver, so the driver judges. It asks for all deliveries of
labelled messages, as runs of rows, and cuts their numbers up so that all messages of a block were sent together, and
every log delivers each block in one go or not at all. Sets of blocks are integers with one bit for each. Only groups
that promise this and have labelled messages cost that: memory on the driver in proportion to the rows of labelled
messages, and one bit for each pair of blocks.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from antiphon.kernel.labels import SEPARATOR, is_known, precedes
from antiphon.pipeline.audit import label_queues
from antiphon.pipeline.audit.label_queues import LabelledRows, cut_by_send_run
from antiphon.pipeline.audit.order import NO_ROW, Order
from antiphon.pipeline.audit.preparation import RunFacts
from antiphon.pipeline.audit.row_queries import LogName, QueriedRows, QueryResults, ReadRows, RowQuery
from antiphon.pipeline.audit.rows import RELIABLE_RANK
from antiphon.pipeline.audit.view_intervals import ViewCounts, ViewViolation
from antiphon.pipeline.explain import MessageName, comparison_text, label_text
from antiphon.pipeline.guarantees import LABEL_ORDER
from antiphon.pipeline.intervals import Ints, Mask
from antiphon.pipeline.promises import Promises


class _Block(NamedTuple):
    """Messages that were sent together and are delivered together."""

    message: MessageName
    """The first."""
    size: int
    label: str
    place: int
    """The key, among the order's."""


class _Event(NamedTuple):
    """A row of a log about a block."""

    row: int
    is_send: bool
    block: int


def count(
    runs: Mapping[str, RunFacts], promises: Promises, read_rows: ReadRows
) -> Iterator[tuple[str, ViewCounts, str]]:
    """Run, what was found, and the group."""
    chosen = [
        (name, group)
        for name, run in runs.items()
        if promises.in_run(LABEL_ORDER, name)
        for group in sorted(run.view_intervals)
        if promises.holds(LABEL_ORDER, name, group) and _labelled_runs(run.order, group).any()
    ]
    queries: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, group in chosen:
        for process, query in label_queues.queries(group, runs[name].logs, RELIABLE_RANK):
            queries[name, process].append(query)
    results: QueryResults = read_rows(queries) if queries else {}
    for name, group in chosen:
        yield name, _LabelledGroup(runs[name], group, results.get((name, group), {})).counts(), group


def unknown_comparisons(order: Order, group: str) -> list[str]:
    """What to say of comparisons of a group's labels that are not known to the driver."""
    labels = {order.labels[place].text for place in np.unique(order.label[_labelled_runs(order, group)]).tolist()}
    names = {label.partition(SEPARATOR)[0] for label in labels if not is_known(label)}
    return [comparison_text(name) for name in sorted(names)]


def _labelled_runs(order: Order, group: str) -> Mask:
    """Which send runs of a group have labels that are compared."""
    of_group = np.array([name == group for name, _ in order.keys], bool)
    compared = np.array([*(not label.is_queue for label in order.labels), False], bool)
    result: Mask = of_group[order.key] & compared[order.label] & (order.index != NO_ROW)
    return result


class _LabelledGroup:
    """The labelled messages of one group of a run."""

    def __init__(self, run: RunFacts, group: str, seen: Mapping[str, QueriedRows]) -> None:
        self._order = run.order
        self._logs = run.logs
        self._group = group
        runs = np.flatnonzero(_labelled_runs(run.order, group))
        order = run.order
        self._sends = LabelledRows(
            order.key[runs], order.start[runs], order.end[runs], order.index[runs], order.label[runs]
        )
        compared = np.array([*(not label.is_queue for label in order.labels), False], bool)
        self._deliveries: dict[str, LabelledRows] = {}
        for process, own in seen.items():
            reliable = own.level == RELIABLE_RANK
            columns = (own.key, own.start, own.end, own.index, own.level)
            rows, _ = cut_by_send_run(order, QueriedRows(own.keys, *(column[reliable] for column in columns)))
            self._deliveries[process] = rows.chosen(compared[rows.label])
        self._cuts = self._find_cuts()
        self._offsets = dict(
            zip(self._cuts, np.cumsum([0, *(len(cuts) for cuts in self._cuts.values())]).tolist(), strict=False)
        )
        self._blocks = self._find_blocks()

    def _find_cuts(self) -> dict[int, Ints]:
        """By key, where blocks begin; the last cut of a key is where the last block ends."""
        every = [self._sends, *self._deliveries.values()]
        result: dict[int, Ints] = {}
        for place in np.unique(self._sends.key).tolist():
            result[place] = np.unique(
                np.concatenate([bound[rows.key == place] for rows in every for bound in (rows.start, rows.end)])
            )
        return result

    def _find_blocks(self) -> list[_Block]:
        """One for each cut; what lies between two labelled messages makes blocks that nobody sends."""
        blocks: list[_Block] = []
        for place, cuts in self._cuts.items():
            sender = self._order.keys[place][1]
            labels = self._order.label[self._order.run_of(place, cuts)]
            ends = [*cuts[1:].tolist(), int(cuts[-1])]
            for cut, end, label in zip(cuts.tolist(), ends, labels.tolist(), strict=True):
                text = self._order.labels[label].text if label >= 0 else ""
                blocks.append(_Block(MessageName(self._group, sender, cut), end - cut, text, place))
        return blocks

    def _events(self, rows: LabelledRows, is_send: bool) -> Iterator[_Event]:
        for key, start, end, index in zip(rows.key, rows.start, rows.end, rows.row, strict=True):
            low, high = np.searchsorted(self._cuts[int(key)], [start, end]).tolist()
            for block in range(self._offsets[int(key)] + low, self._offsets[int(key)] + high):
                yield _Event(int(index), is_send, block)

    def _log(self, process: str) -> list[_Event]:
        """What a process sent and delivered, in order."""
        place = self._order.places.get((self._group, process))
        own = self._sends.chosen(self._sends.key == (-1 if place is None else place))
        events = list(self._events(own, True))
        if process in self._deliveries:
            events += self._events(self._deliveries[process], False)
        return sorted(events, key=lambda event: event.row)

    def _lesser(self) -> dict[str, int]:
        """By label, the blocks with labels that precede it."""
        of_label: dict[str, int] = defaultdict(int)
        for place, block in enumerate(self._blocks):
            if block.label:
                of_label[block.label] |= 1 << place
        return {
            label: sum(blocks for other, blocks in of_label.items() if precedes(other.encode(), label.encode()))
            for label in of_label
        }

    def _preceding(self, logs: Mapping[str, list[_Event]]) -> dict[int, int]:
        """By block, all blocks that precede it."""
        lesser = self._lesser()
        preceding: dict[int, int] = {}
        for events in logs.values():
            known = 0
            for event in events:
                if event.is_send:
                    preceding[event.block] = known & lesser[self._blocks[event.block].label]
                known |= 1 << event.block
        changed = True
        while changed:
            changed = False
            for block, own in preceding.items():
                closed = own
                for before in _bits(own):
                    closed |= preceding.get(before, 0)
                if closed != own:
                    preceding[block] = closed
                    changed = True
        return preceding

    def counts(self) -> ViewCounts:
        logs = {process: self._log(process) for process in sorted(self._logs)}
        preceding = self._preceding(logs)
        violations = unknown = checked = 0
        roots: set[int] = set()
        first: ViewViolation | None = None
        for process, events in logs.items():
            owed, perhaps = self._owed(process, False), self._owed(process, True)
            left_open = self._left_open(process)
            done = 0
            for event in events:
                block = self._blocks[event.block]
                if event.is_send or done >> event.block & 1:
                    continue
                checked += block.size
                lacking = preceding.get(event.block, 0) & ~done
                is_open = 0
                for row, blocks in left_open.items():
                    is_open |= blocks if row < event.row else 0
                missing = lacking & owed & ~is_open
                done |= 1 << event.block
                if missing:
                    violations += block.size
                    wanted = min(_bits(missing), key=lambda each: self._blocks[each].message)
                    roots.add(wanted)
                    first = first or self._violation(process, block, self._blocks[wanted], events, wanted)
                elif not is_known(block.label) or lacking & (perhaps | owed & is_open):
                    unknown += block.size
        return ViewCounts(violations, unknown, checked, first, len(roots))

    def _owed(self, process: str, perhaps: bool) -> int:
        """The blocks that a process is owed, or may have been owed beside."""
        result = 0
        for place, cuts in self._cuts.items():
            spans = self._order.perhaps_owed(process, place) if perhaps else self._order.owed(process, place)
            if len(spans.starts):
                for block in np.flatnonzero(spans.holds(cuts)).tolist():
                    result |= 1 << (self._offsets[place] + block)
        return result

    def _left_open(self, process: str) -> dict[int, int]:
        """By row: the blocks of which nobody can say from there on whether the process is owed them."""
        result: dict[int, int] = defaultdict(int)
        for place, cuts in self._cuts.items():
            off = self._order.left_open.get((process, place))
            for start, end, row in zip(*(column.tolist() for column in off), strict=True) if off is not None else ():
                for block in np.flatnonzero((start <= cuts) & (cuts < end)).tolist():
                    result[row] |= 1 << (self._offsets[place] + block)
        return result

    def _violation(self, process: str, block: _Block, wanted: _Block, events: list[_Event], at: int) -> ViewViolation:
        later = any(event.block == at and not event.is_send for event in events)
        text = label_text(process, block.message, wanted.message, later, wanted.label, block.label)
        run = int(self._order.run_of(wanted.place, np.array([wanted.message.number]))[0])
        deliveries = ((process, block.message), *(((process, wanted.message),) if later else ()))
        return ViewViolation(text, ((wanted.message.sender, int(self._order.index[run])),), deliveries)


def _bits(bits: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
