"""total_global and total_pairwise: the order of agreed and safe messages over all groups of a run.

total_global: the union of all processes' delivery orders, over all groups that promise it, has no cycle.
total_pairwise: any two messages that two processes both deliver come in one order at both.

Unlike in one group (total.py) no process delivers everything, so no single log can be the order that the others are
compared with. The driver asks for all agreed and safe deliveries of the groups, as runs of rows, cuts them up so that
every log delivers each block in one go or not at all, and looks for strongly connected sets of blocks. Two messages in
opposite orders are in one such set, so pairs are looked for in these alone. Only runs that promise one of the two cost
that: memory on the driver in proportion to their rows of agreed and safe messages.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.preparation import RunFacts
from antiphon.pipeline.audit.row_queries import LogName, QueryResults, ReadRows, RowQuery
from antiphon.pipeline.audit.rows import AGREED_RANK
from antiphon.pipeline.audit.total import all_queries, blocks_of, distinct, existing
from antiphon.pipeline.audit.view_intervals import ViewCounts, ViewViolation
from antiphon.pipeline.cycle import APART, cycle_through, inversions, process_of, strongly_connected_sets
from antiphon.pipeline.explain import MessageName, pairwise_text, total_text
from antiphon.pipeline.guarantees import TOTAL_GLOBAL, TOTAL_PAIRWISE
from antiphon.pipeline.intervals import Ints
from antiphon.pipeline.promises import Promises

_Rows = tuple[Ints, Ints, Ints]
"""Key, as a place in the order's keys, start and end."""


def count(
    runs: Mapping[str, RunFacts], promises: Promises, read_rows: ReadRows
) -> Iterator[tuple[str, str, ViewCounts, str]]:
    """Run, guarantee, what was found, and the group to tell with it."""
    for guarantee in (TOTAL_GLOBAL, TOTAL_PAIRWISE):
        chosen = {
            name: [group for group in run.view_intervals if promises.holds(guarantee, name, group)]
            for name, run in runs.items()
            if promises.in_run(guarantee, name)
        }
        certain: dict[LogName, list[RowQuery]] = defaultdict(list)
        doubtful: dict[LogName, list[RowQuery]] = defaultdict(list)
        for name, groups in chosen.items():
            for group in groups:
                for process, query in all_queries(group, runs[name].logs, (AGREED_RANK,)):
                    certain[name, process].append(query)
                for process, query in _doubtful_queries(group, runs[name].logs):
                    doubtful[name, process].append(query)
        results: QueryResults = read_rows(certain) if certain else {}
        doubts: QueryResults = read_rows(doubtful) if doubtful else {}
        for name, groups in chosen.items():
            if groups:
                rows = _taking_part(runs[name], groups, name, results)
                unknown = _count_doubtful(runs[name].order, groups, name, doubts)
                yield name, guarantee, *_judge(guarantee, runs[name].order, rows, unknown, groups[0])


def _doubtful_queries(group: str, logs: Mapping[str, LogFacts]) -> Iterator[tuple[str, RowQuery]]:
    """What was agreed in a view that a log which ends early did not complete."""
    for process, log in logs.items():
        if log.is_early(group):
            views = [view["index"] for piece in log.pieces for view in piece["views"] if view["group"] == group]
            first = max(min(views, default=log.rows), log.completed_ends().get(group, 0))
            yield process, RowQuery(group, first, log.rows, level=AGREED_RANK)


def _taking_part(run: RunFacts, groups: Sequence[str], name: str, results: QueryResults) -> dict[str, _Rows]:
    """The deliveries of all groups, in the order of each log, up to where it reads each group apart; and, of one that
    does, those of each group."""
    order = run.order
    parts: dict[str, list[tuple[Ints, Ints, Ints, Ints]]] = defaultdict(list)
    for group in groups:
        for process, seen in results.get((name, group), {}).items():
            key, start, end = existing(order, seen)
            every = np.array([order.places[one] for one in seen.keys], np.int64)[seen.key]
            sent = order.open_keys[every] | (seen.start <= order.sent[every])
            parts[process].append((key, start, end, seen.index[sent]))
    found: dict[str, _Rows] = {}
    for process, own in parts.items():
        apart = run.logs[process].apart
        key, start, end, index = (np.concatenate(columns) for columns in zip(*own, strict=True))
        along = np.argsort(index, kind="stable")
        along = along[index[along] < apart]
        found[process] = (key[along], start[along], end[along])
        if apart != ENDLESS:
            for place, (key, start, end, _) in enumerate(own):
                found[f"{process}{APART}{place}"] = (key, start, end)
    return found


def _count_doubtful(order: Order, groups: Sequence[str], name: str, results: QueryResults) -> int:
    return sum(distinct(*existing(order, seen)) for group in groups for seen in results.get((name, group), {}).values())


def _judge(guarantee: str, order: Order, rows: Mapping[str, _Rows], unknown: int, group: str) -> tuple[ViewCounts, str]:
    if not rows:
        return ViewCounts(0, unknown, 0, None, 0), group
    key, start, end = (np.concatenate(columns) for columns in zip(*rows.values(), strict=True))
    checked = distinct(key, start, end)
    bounds, sequences = blocks_of(rows)
    names = [MessageName(*order.keys[place], int(cut)) for place, cuts in bounds.items() for cut in cuts]
    strong_sets = strongly_connected_sets(sequences.values())
    if guarantee == TOTAL_PAIRWISE:
        sizes = [int(size) for cuts in bounds.values() for size in np.append(np.diff(cuts), 0)]
        return _count_pairs(sequences, strong_sets, names, sizes, ViewCounts(0, unknown, checked, None, 0), group)
    if not strong_sets:
        return ViewCounts(0, unknown, checked, None, 0), group
    firsts = [min(names[block] for block in one) for one in strong_sets]
    chosen = strong_sets[firsts.index(min(firsts))]
    told = {process: [names[block] for block in own if block in chosen] for process, own in sequences.items()}
    cycle = cycle_through(min(firsts), told)
    cycle = [step._replace(process=process_of(step.process)) for step in cycle]
    deliveries = tuple((step.process, message) for step in cycle for message in (step.before, step.after))
    violation = ViewViolation(total_text(cycle), (), deliveries)
    return ViewCounts(len(strong_sets), unknown, checked, violation, len(strong_sets)), min(firsts).group


def _count_pairs(
    sequences: Mapping[str, list[int]],
    strong_sets: Sequence[set[int]],
    names: Sequence[MessageName],
    sizes: Sequence[int],
    counts: ViewCounts,
    group: str,
) -> tuple[ViewCounts, str]:
    """Every message of one block makes a pair with every message of another."""
    pairs = inversions(sequences, strong_sets)
    if not pairs:
        return counts, group
    violations = sum(sizes[pair.first] * sizes[pair.second] for pair in pairs)
    roots = len({pair.strong_set for pair in pairs})
    first, second, one, other = min((names[pair.first], names[pair.second], pair.one, pair.other) for pair in pairs)
    one, other = process_of(one), process_of(other)
    deliveries = ((one, first), (one, second), (other, second), (other, first))
    violation = ViewViolation(pairwise_text(one, other, first, second), (), deliveries)
    return ViewCounts(violations, counts.unknown, counts.checked, violation, roots), first.group
