"""What the driver puts together between the passes: runs, and which rows it must ask the workers for.

`read_rows` reads rows that the summaries do not hold; nothing here knows of Spark.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from antiphon.history.start import parse_start
from antiphon.pipeline.audit import label_queues, lost, total
from antiphon.pipeline.audit.components import note_write_offs, parted_groups
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order, close, make_order
from antiphon.pipeline.audit.parting import parting_of
from antiphon.pipeline.audit.recoveries import recoveries_of
from antiphon.pipeline.audit.row_queries import LogName, QueryResults, ReadRows, RowQuery
from antiphon.pipeline.audit.total import OrderCycles, Placed, Positions
from antiphon.pipeline.audit.view_intervals import GroupIntervals, view_intervals_by_group
from antiphon.pipeline.domains import domains_of
from antiphon.pipeline.guarantees import CAUSAL, TOTAL
from antiphon.pipeline.promises import Promises

Placement = tuple[str, str, str, int, Placed]
"""Run, group, process, first row of a piece, and which positions it goes through."""


@dataclass
class RunFacts:
    """Everything that the driver knows of a run."""

    logs: Mapping[str, LogFacts]
    order: Order
    view_intervals: Mapping[str, GroupIntervals]
    """By group: who was in which views, and what it delivered there."""
    positions: dict[str, dict[int, Positions]] = field(default_factory=dict)
    """By group and key: an order of the agreed and safe messages that the logs are compared with."""


def prepare(logs: Mapping[str, Mapping[str, LogFacts]], promises: Promises, read_rows: ReadRows) -> dict[str, RunFacts]:
    """All runs, ready for the second pass."""
    runs = {name: _make_run(name, of_run) for name, of_run in logs.items()}
    missing = {
        name: lost.find(run.order, run.logs, run.view_intervals)
        for name, run in runs.items()
        if promises.in_run(CAUSAL, name)
    }
    models = {
        (name, group): total.models(view_intervals, run.logs, run.order.partings.get(group))
        for name, run in runs.items()
        if promises.in_run(TOTAL, name)
        for group, view_intervals in run.view_intervals.items()
        if promises.holds(TOTAL, name, group)
    }
    queries: dict[LogName, list[RowQuery]] = defaultdict(list)
    for (name, group), of_group in models.items():
        for process, query in total.model_queries(group, of_group):
            queries[name, process].append(query)
    results = read_rows(queries) if queries else {}
    for (name, group), of_group in models.items():
        found = total.positions(runs[name].order, of_group, results.get((name, group), {}))
        if found is not None:
            runs[name].positions[group] = found
    _note_lost(runs, missing, read_rows)
    return runs


def _make_run(name: str, logs: Mapping[str, LogFacts]) -> RunFacts:
    starts = [(row["group"], row["label"]) for log in logs.values() for piece in log.pieces for row in piece["starts"]]
    facts = [(group, parse_start(label)) for group, label in starts]
    order = make_order(name, logs, domains_of(facts), parted_groups(facts))
    close(order)
    run = RunFacts(logs, order, view_intervals_by_group(logs))
    for group, of_group in run.view_intervals.items():
        found = None if group in order.parted else recoveries_of(group, of_group, logs)
        if found is not None:
            order.recoveries[group] = found
    note_write_offs(order, logs, run.view_intervals)
    for group in sorted(order.parted & run.view_intervals.keys()):
        order.partings[group] = parting_of(run.view_intervals[group], logs)
    return run


def _note_lost(runs: Mapping[str, RunFacts], missing: Mapping[str, lost.Lost], read_rows: ReadRows) -> None:
    queries: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, of_run in missing.items():
        for process, query in lost.queries(runs[name].order, runs[name].logs, of_run):
            queries[name, process].append(query)
    results = read_rows(queries) if queries else {}
    for name, of_run in missing.items():
        seen = [each for (run, _), by_process in results.items() if run == name for each in by_process.items()]
        lost.note(runs[name].order, runs[name].logs, of_run, seen)


def find_order_cycles(
    runs: Mapping[str, RunFacts], placements: Iterable[Placement], promises: Promises, read_rows: ReadRows
) -> dict[str, dict[str, OrderCycles]]:
    """By run and group: where positions do not rise along all logs, what is in no order."""
    pieces: dict[tuple[str, str], list[tuple[str, int, Placed]]] = defaultdict(list)
    for of_run, group, process, index, placed in placements:
        pieces[of_run, group].append((process, index, placed))
    doubtful = [place for place, own in pieces.items() if not total.rises(own)]
    parted = [(name, group) for name, run in runs.items() for group in run.order.partings]
    queued = [
        (name, group)
        for name, run in runs.items()
        if promises.in_run(TOTAL, name)
        for group in sorted(label_queues.groups_with(run.logs.values()) & run.view_intervals.keys())
        if promises.holds(TOTAL, name, group)
    ]
    queries: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, group in doubtful:
        for process, query in total.all_queries(group, runs[name].logs):
            queries[name, process].append(query)
    for name, group in parted:
        for process, query in total.component_queries(group, runs[name].order.partings[group]):
            queries[name, process].append(query)
    results: QueryResults = read_rows(queries) if queries else {}
    of_queues: dict[LogName, list[RowQuery]] = defaultdict(list)
    for name, group in queued:
        for process, query in label_queues.queries(group, runs[name].logs):
            of_queues[name, process].append(query)
    abcasts: QueryResults = read_rows(of_queues) if of_queues else {}
    result: dict[str, dict[str, OrderCycles]] = defaultdict(dict)
    for name, group in doubtful:
        run, seen = runs[name], results[name, group]
        if group in run.order.partings:
            seen = total.regular_rows(seen, run.order.partings[group])
        result[name][group] = total.find_cycles(run.order, group, seen)
    for name, group in parted:
        seen = results.get((name, group), {})
        found = total.component_cycles(runs[name].order, group, seen, runs[name].view_intervals[group])
        result[name][group] = result[name].get(group, OrderCycles()).and_also(found)
    for name, group in queued:
        found = label_queues.find_cycles(runs[name].order, group, runs[name].logs, abcasts.get((name, group), {}))
        result[name][group] = result[name].get(group, OrderCycles()).and_also(found)
    return result
