"""Who went on with whom in groups whose views part and merge, and what a process is no longer owed for it.

The rules are those of `antiphon.pipeline.reference_components`. Where a process goes from view v to view v', what was
sent in v is written off to it but for what a companion in this step delivered in v or sent: the causal and fifo checks
take it for delivered with the row of v', and settled holds the process to it no longer.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from antiphon.history.start import StartFacts
from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.order import NO_ROW, Order, WrittenOff
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewInterval
from antiphon.pipeline.intervals import EMPTY, Spans, difference, union


class Passage(NamedTuple):
    """One process that made a step."""

    process: str
    interval: ViewInterval
    following: ViewInterval


Steps = Mapping[tuple[int, int], list[Passage]]
"""From which view to which → who made the step; the processes in the order of their logs."""


def parted_groups(starts: Iterable[tuple[str, StartFacts]]) -> frozenset[str]:
    """The groups whose views part and merge, by their start rows."""
    return frozenset(group for group, facts in starts if facts.parts)


def steps_of(view_intervals: GroupIntervals) -> Steps:
    """Who went from which view to which."""
    steps: dict[tuple[int, int], list[Passage]] = defaultdict(list)
    for process, own in view_intervals.items():
        for interval, following in pairwise(own):
            steps[interval.view, following.view].append(Passage(process, interval, following))
    return steps


def note_write_offs(order: Order, logs: Mapping[str, LogFacts], view_intervals: Mapping[str, GroupIntervals]) -> None:
    """Write down in the order what is written off to whom, in the groups that part; and of views that were torn on an
    operator's word, what is left open to whom."""
    for group in sorted(order.parted & view_intervals.keys()):
        order.written_off.update(_write_offs(order, group, _sent_in(order, group), logs, view_intervals[group]))
    for group, recoveries in order.recoveries.items():
        sent_in = {view: sent for view, sent in _sent_in(order, group).items() if view in recoveries.torn}
        order.left_open.update(_write_offs(order, group, sent_in, logs, view_intervals[group]))


def _write_offs(
    order: Order,
    group: str,
    sent_in: Mapping[int, Mapping[int, Spans]],
    logs: Mapping[str, LogFacts],
    view_intervals: GroupIntervals,
) -> dict[tuple[str, int], WrittenOff]:
    """By process and key: what of that which was sent in some views none of its companions brought along."""
    found: dict[tuple[str, int], list[tuple[Spans, int]]] = defaultdict(list)
    for (view, _), passages in steps_of(view_intervals).items():
        companions = [(passage.process, passage.interval) for passage in passages]
        lost = _without(sent_in.get(view, {}), order, companions)
        for passage in passages:
            for place, spans in lost.items():
                found[passage.process, place].append((spans, passage.following.index))
    for process, place, spans in _at_the_end(order, group, sent_in, logs, view_intervals):
        found[process, place].append((spans, ENDLESS))
    result = {}
    for name, parts in found.items():
        index = np.concatenate([np.full(len(spans.starts), at) for spans, at in parts])
        starts, ends = (np.concatenate(sides) for sides in zip(*(spans for spans, _ in parts), strict=True))
        result[name] = WrittenOff(starts, ends, index)
    return result


def _sent_in(order: Order, group: str) -> dict[int, dict[int, Spans]]:
    """By view and key: what was sent there."""
    result: dict[int, dict[int, Spans]] = defaultdict(dict)
    for place, (of, _) in enumerate(order.keys):
        if of != group:
            continue
        runs = np.arange(order.first_run[place], order.first_run[place + 1])
        runs = runs[order.index[runs] != NO_ROW]
        for view in np.unique(order.view[runs]).tolist():
            own = runs[order.view[runs] == view]
            result[view][place] = union((order.start[own], order.end[own]))
    return result


def _at_the_end(
    order: Order,
    group: str,
    sent_in: Mapping[int, Mapping[int, Spans]],
    logs: Mapping[str, LogFacts],
    view_intervals: GroupIntervals,
) -> Iterable[tuple[str, int, Spans]]:
    """Process, key and numbers of what was sent in its last view, and no survivor that ended there has, or sent."""
    last = {process: own[-1] for process, own in view_intervals.items()}
    for view in sorted({interval.view for interval in last.values()}):
        here = {process: interval for process, interval in last.items() if interval.view == view}
        companions = [(process, interval) for process, interval in here.items() if logs[process].is_survivor(group)]
        for place, spans in _without(sent_in.get(view, {}), order, companions).items():
            for process in here:
                yield process, place, spans


def _without(
    sent: Mapping[int, Spans], order: Order, companions: Sequence[tuple[str, ViewInterval]]
) -> dict[int, Spans]:
    """What was sent, by key, but for what these delivered in their intervals, and what they sent."""
    processes = {process for process, _ in companions}
    result = {}
    for place, spans in sent.items():
        sender = order.keys[place][1]
        if sender not in processes:
            brought = union(*(interval.delivered.get(sender, EMPTY) for _, interval in companions))
            lost = difference(spans, brought)
            if lost.size():
                result[place] = lost
    return result
