"""Lost messages: what a crashed process sent in its last view, and nobody who completed that view delivered.

A process that delivers a message below causal gets to know that message, but not its past. So of what is lost, causal
demands only the strong past, in which such a message passes nothing on. Of a key, that need not be all up to a number:
a lost message is in the strong past of a send run

* if somebody on the way sent it, or delivered it or a later one of its key at causal or above; this a number per key
  tells, as in the full past; or
* if somebody on the way had delivered it below causal before sending on; for this the driver asks to see the rows that
  did so. There are few.

Where nothing is lost, or nothing was delivered below causal, the full past is the strong one and nothing is done.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from antiphon.pipeline.audit.logs import CRASHED, ENDLESS, LogFacts
from antiphon.pipeline.audit.order import NO_ROW, LostMessages, Order
from antiphon.pipeline.audit.past import Past, direct_past, raise_to_full
from antiphon.pipeline.audit.row_queries import QueriedRows, RowQuery
from antiphon.pipeline.audit.rows import CAUSAL_RANK
from antiphon.pipeline.audit.view_intervals import GroupIntervals
from antiphon.pipeline.intervals import EMPTY, Ints, Spans, difference, intersection, span, union

Lost = Mapping[int, Spans]
"""Key, as a place in the order's keys → numbers."""


def find(order: Order, logs: Mapping[str, LogFacts], view_intervals: Mapping[str, GroupIntervals]) -> Lost:
    """What is lost, where it makes a difference."""
    if not any(len(piece["strong_reach"]) for log in logs.values() for piece in log.pieces):
        return {}
    crashed = {process for process, log in logs.items() if log.ending == CRASHED}
    keys = [(place, *key) for place, key in enumerate(order.keys) if key[1] in crashed]
    if not keys:
        return {}
    lost: dict[int, Spans] = {}
    for place, group, sender in keys:
        of_group = view_intervals.get(group, {})
        last = of_group.get(sender, [])[-1:]
        runs = np.flatnonzero((order.key == place) & np.isin(order.view, [interval.view for interval in last]))
        spans = union((order.start[runs], order.end[runs]))
        for process, own in of_group.items():
            if any(interval.completed and interval.view == last[0].view for interval in own if last):
                spans = difference(spans, logs[process].delivered.get((group, sender), EMPTY))
        if spans.size():
            lost[place] = spans
    return lost


def queries(order: Order, logs: Mapping[str, LogFacts], lost: Lost) -> Iterator[tuple[str, RowQuery]]:
    """What each process that delivered something lost delivered below causal of the same sender in the same group."""
    for process, log in logs.items():
        for place, spans in lost.items():
            group, sender = key = order.keys[place]
            if intersection(log.delivered.get(key, EMPTY), spans).size():
                for level in range(CAUSAL_RANK):
                    yield process, RowQuery(group, 0, log.rows, sender, level)


def note(order: Order, logs: Mapping[str, LogFacts], lost: Lost, results: Iterable[tuple[str, QueriedRows]]) -> None:
    """Write down in the order in whose strong past the lost messages are."""
    if not lost:
        return
    strong = direct_past(logs, order.keys, order.past.sources, "strong_reach")
    raise_to_full(strong, order.time_ns)
    told: dict[int, list[tuple[Spans, int, int]]] = defaultdict(list)
    tellers = list(results)
    for teller, (_, seen) in enumerate(tellers):
        for key, start, end, index in zip(seen.key, seen.start, seen.end, seen.index, strict=True):
            place = order.places[seen.keys[key]]
            spans = intersection(span(int(start), int(end)), lost.get(place, EMPTY))
            if spans.size():
                told[place].append((spans, teller, int(index)))
    order.told = np.array([_last_sent(order, strong, process) for process, _ in tellers], np.int64)
    for place, spans in lost.items():
        order.lost[place] = LostMessages(spans, strong.numbers(slice(None), place), told[place])


def _last_sent(order: Order, strong: Past, process: str) -> Ints:
    """For each send run: the last row by which a process sent it, or something in its strong past, or NO_ROW."""
    index = np.where(order.index == NO_ROW, ENDLESS, order.index)
    result = np.full(len(index), NO_ROW)
    sources = strong.sources
    places = [place for place, (_, sender) in enumerate(order.keys) if sender == process]
    for source in sorted({*sources.of_key[places].tolist(), *sources.off_record[places].tolist()} - {-1}):
        own = sources.runs[source]
        result[own] = np.maximum(result[own], index[own])
        rows = np.flatnonzero(strong.counts[:, source])
        result[rows] = np.maximum(result[rows], index[sources.run_of(source, strong.counts[rows, source])])
    return result
