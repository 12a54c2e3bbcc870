"""An audit: two passes over the history, and queries for a few rows, without a shuffle of its rows. Where they run is a
`antiphon.pipeline.workplace`: on Spark by `antiphon.pipeline.auditor`, in this process by `antiphon.pipeline.quick`.

1. Each piece of each log is summarised (`antiphon.pipeline.first_pass`). From the summaries the driver puts together
   the logs, the causal order of the messages, and what each process had delivered before each piece. What the
   summaries do not tell, it asks for row by row (`antiphon.pipeline.audit.row_queries`): the order of agreed
   and safe messages of one process per view, and who had delivered what is lost.
2. Each piece is judged with that knowledge (`antiphon.pipeline.audit.case` and one file per guarantee). Only counts,
   the first violation of each broken guarantee and rounded latencies leave a piece; the driver adds them up.

What must hold in the end (settled), or of whole views, is decided from the summaries alone; view rows of all logs are
compared by the workplace, on Spark as DataFrames (`antiphon.pipeline.view_frames`). Only where the second pass finds
agreed or safe messages out of order, their deliveries are compared all together (total). The rules, word for word, are
at the top of `antiphon.pipeline.reference`; both auditors give the same verdicts and counts on every history.

Memory: a task holds its row group; the driver holds one row per send run and one column per sender and group, one row
per run of agreed or safe messages, and of a group whose messages are out of order all deliveries of these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from antiphon.history.reader import HistoryFiles
from antiphon.history.start import parse_start
from antiphon.pipeline.audit import label_order, settled, total_global, views
from antiphon.pipeline.audit.judge import JUDGED, PieceKnowledge, judge
from antiphon.pipeline.audit.logs import ENDLESS, LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.overrides import overrides
from antiphon.pipeline.audit.pieces import Task, read_pieces
from antiphon.pipeline.audit.preparation import RunFacts, find_order_cycles, prepare
from antiphon.pipeline.audit.reduce import findings, latencies, placements
from antiphon.pipeline.audit.row_queries import (
    QUERIED_ROWS,
    QueryResults,
    ReadRows,
    RowQueries,
    results_of,
    select_rows,
)
from antiphon.pipeline.audit.rows import MESSAGE_COLUMNS
from antiphon.pipeline.audit.total import OrderCycles, Positions
from antiphon.pipeline.audit.view_intervals import ViewCounts
from antiphon.pipeline.example_builder import ExampleBuilder
from antiphon.pipeline.explain import (
    early_text,
    forced_text,
    open_log_text,
    override_text,
    reader_apart_text,
    undescribed_text,
    untold_text,
)
from antiphon.pipeline.first_pass import read_logs
from antiphon.pipeline.guarantees import CHECKED, LABEL_ORDER, LEFT_OPEN, OF_OWED, OVER_GROUPS, PRIMARY, SETTLED
from antiphon.pipeline.increment import TASK, Increment
from antiphon.pipeline.promises import Promises, gather
from antiphon.pipeline.result import Audit, MemberObservation
from antiphon.pipeline.verdicts import Tally, conclude
from antiphon.pipeline.view_rows import GroupCounts, Logs
from antiphon.pipeline.workplace import Workplace

Progress = Callable[[str], None]
Orders = Mapping[str, tuple[Order, Mapping[str, Mapping[int, Positions]]]]
"""run → its order, and the positions of its agreed and safe messages."""
PieceName = tuple[int, str, str]
"""Task, run and process."""
Knowledge = tuple[Orders, dict[PieceName, PieceKnowledge]]
"""What the second pass needs: of the runs, and of each piece."""


def run_audit(
    workplace: Workplace,
    history: HistoryFiles,
    tasks: list[Task],
    promise: Sequence[str] | None = None,
    progress: Progress | None = None,
    increment: Increment | None = None,
) -> Audit:
    """Audit a history that was cut into tasks; `promise` names guarantees in place of those that were promised.

    `progress` is told, in words, what begins. Raises UnusableHistoryError if the input is no history, and
    UnknownGuaranteeError for a guarantee that cannot be checked.
    """
    tell = progress or _say_nothing
    tell(f"reading {history.rows:,} rows")
    history, tasks, summaries, logs = read_logs(workplace, history, tasks, increment)
    starts = [(summary["run"], start) for summary in summaries for start in summary["starts"]]
    promises = gather([(run, start["group"], parse_start(start["label"])) for run, start in starts], promise)
    tell(f"checking {sum(summary['events'] for summary in summaries):,} events")
    read_rows = _row_reader(workplace, tasks, logs, increment)
    runs = prepare(logs, promises, read_rows)
    with workplace.sharing(_knowledge(runs)) as open_knowledge:
        judged = _second_pass(workplace, tasks, runs, open_knowledge, promises, increment)
    cycles = find_order_cycles(runs, placements(judged), promises, read_rows)
    tell("adding up")
    compared = [*workplace.count_views(logs, promises), *_over_groups(runs, promises, read_rows)]
    tallies = _tallies(judged, runs, promises, cycles, compared, history)
    return conclude(
        promises,
        tallies,
        events=sum(summary["events"] for summary in summaries),
        rows=sum(summary["rows"] for summary in summaries),
        runs=len(runs),
        observations=_observations(judged, runs),
    )


def _over_groups(runs: Mapping[str, RunFacts], promises: Promises, read_rows: ReadRows) -> Iterator[GroupCounts]:
    for run, guarantee, found, group in total_global.count(runs, promises, read_rows):
        yield GroupCounts(run, group, guarantee, found)
    for run, found, group in label_order.count(runs, promises, read_rows):
        yield GroupCounts(run, group, LABEL_ORDER, found)


def _knowledge(runs: Mapping[str, RunFacts]) -> Knowledge:
    orders = {name: (run.order, run.positions) for name, run in runs.items()}
    knowledge = {
        (piece["task"], name, process): known
        for name, run in runs.items()
        for process, log in run.logs.items()
        for piece, known in PieceKnowledge.of_log(log, run.order)
    }
    for run in runs.values():
        run.order.settle(run.logs)
    return orders, knowledge


def _second_pass(
    workplace: Workplace,
    tasks: list[Task],
    runs: Mapping[str, RunFacts],
    open_knowledge: Callable[[], Knowledge],
    promises: Promises,
    increment: Increment | None,
) -> pa.Table:
    def make(chosen: list[int]) -> pa.Table:

        def work(place: int) -> Iterator[pa.RecordBatch]:
            orders, knowledge = open_knowledge()
            for piece in read_pieces(tasks[place], MESSAGE_COLUMNS):
                known = knowledge.get((place, piece.run, piece.process))
                if known is not None:  # else it lies behind a gap
                    yield _of_task(judge(piece, *orders[piece.run], known, promises), place)

        return workplace.over_tasks(chosen, work, JUDGED.append(TASK))

    return make(list(range(len(tasks)))) if increment is None else increment.judgements(runs, promises, make)


def _of_task(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    return batch.append_column(TASK, pa.array([place] * len(batch), TASK.type))


def _row_reader(workplace: Workplace, tasks: list[Task], logs: Logs, increment: Increment | None) -> ReadRows:
    """How single rows are seen: only tasks that may hold some are read."""

    def read_rows(queries: RowQueries) -> QueryResults:
        asked = dict(queries)

        def work(place: int) -> Iterator[pa.RecordBatch]:
            for piece in read_pieces(tasks[place], MESSAGE_COLUMNS):
                if (piece.run, piece.process) in asked:
                    yield _of_task(select_rows(piece, asked[piece.run, piece.process]), place)

        def make(chosen: list[int]) -> pa.Table:
            return workplace.over_tasks(chosen, work, QUERIED_ROWS.append(TASK))

        if increment is not None:
            return results_of(increment.results(queries, logs, make))
        chosen = sorted(
            {
                piece["task"]
                for (run, process), own in queries.items()
                for piece in logs[run][process].pieces
                if any(
                    query.first_index < piece["known_end"] and query.end_index > piece["first_index"] for query in own
                )
            }
        )
        return results_of(make(chosen))

    return read_rows


def _tallies(
    judged: pa.Table,
    runs: Mapping[str, RunFacts],
    promises: Promises,
    cycles: Mapping[str, Mapping[str, OrderCycles]],
    compared: Sequence[GroupCounts],
    history: HistoryFiles,
) -> dict[str, Tally]:
    tallies = {guarantee: Tally() for guarantee in CHECKED}
    builders = {name: ExampleBuilder(history, name, run.logs, run.order) for name, run in runs.items()}
    for guarantee, found in findings(judged).items():
        tally = tallies[guarantee]
        tally.violations, tally.unknown, tally.checked = found.violations, found.unknown, found.checked
        tally.roots = found.roots
        if found.first_violation is not None:
            tally.example = builders[found.first_violation["run"]].of_delivery(guarantee, found.first_violation)
    for run_name, group, guarantee, of_group in compared:
        _add_group(tallies[guarantee], group, of_group, builders[run_name])
    for name, run in runs.items():
        _add_settled(tallies[SETTLED], run, promises, builders[name])
        _add_views(tallies, run, promises, cycles.get(name, {}), builders[name])
        told_run = name if len(runs) > 1 else None
        _add_overrides(tallies[PRIMARY], run, promises, told_run)
        for guarantee in OVER_GROUPS:
            if promises.in_run(guarantee, name):
                tallies[guarantee].readers_apart += _readers_apart(run, told_run)
        _add_open_logs(tallies, run, promises, told_run)
    return tallies


def _add_settled(tally: Tally, run: RunFacts, promises: Promises, builder: ExampleBuilder) -> None:
    for group, found in settled.count(run.order, run.logs).items():
        if promises.holds(SETTLED, run.order.run, group):
            tally.violations += found.violations
            tally.unknown += found.unknown
            tally.checked += found.checked
            tally.roots += found.missed.roots()
            if found.first_violation is not None and tally.example is None:
                tally.example = builder.of_settled(*found.first_violation)


def _add_views(
    tallies: Mapping[str, Tally],
    run: RunFacts,
    promises: Promises,
    cycles: Mapping[str, OrderCycles],
    builder: ExampleBuilder,
) -> None:
    for guarantee, found, group in views.count(run.order, run.logs, run.view_intervals, promises, cycles):
        _add_group(tallies[guarantee], group, found, builder)


def _add_group(tally: Tally, group: str, found: ViewCounts, builder: ExampleBuilder) -> None:
    tally.violations += found.violations
    tally.unknown += found.unknown
    tally.checked += found.checked
    tally.roots += found.roots
    if found.first_violation is not None and tally.example is None:
        tally.example = builder.of_view(group, found.first_violation)


def _add_overrides(tally: Tally, run: RunFacts, promises: Promises, told_run: str | None) -> None:
    pieces = [piece for log in run.logs.values() for piece in log.pieces]
    for group in sorted({note["group"] for piece in pieces for note in piece["recovers"]}):
        if promises.holds(PRIMARY, run.order.run, group):
            for process, view in overrides(group, run.view_intervals.get(group, {}), run.logs):
                tally.overrides.append(override_text(process, group, view, told_run))


def _readers_apart(run: RunFacts, told_run: str | None) -> list[str]:
    logs = sorted(run.logs.values(), key=lambda log: log.process)
    return [reader_apart_text(log.process, log.apart, told_run) for log in logs if log.apart != ENDLESS]


def _add_open_logs(tallies: Mapping[str, Tally], run: RunFacts, promises: Promises, told_run: str | None) -> None:
    for guarantee, tally in tallies.items():
        if not promises.in_run(guarantee, run.order.run):
            continue
        if guarantee == LABEL_ORDER:
            for group in sorted(run.view_intervals):
                if promises.holds(LABEL_ORDER, run.order.run, group):
                    tally.open_logs += label_order.unknown_comparisons(run.order, group)
        for log in run.logs.values():
            if log.open:
                tally.unknown += 1
                tally.open_logs.append(open_log_text(log.process, log.rows, told_run, log.behind, log.cause))
            elif guarantee == SETTLED and log.early:
                tally.open_logs.append(early_text(log.process, log.ending, told_run))
            elif guarantee == PRIMARY and (untold := log.untold):
                tally.open_logs.append(untold_text(log.process, untold, told_run))
        if guarantee in LEFT_OPEN:
            for group, found in sorted(run.order.recoveries.items()):
                if promises.holds(guarantee, run.order.run, group):
                    for (view, following), told in sorted(found.told.items()):
                        tally.open_logs.append(forced_text(sorted(told), group, view, following, told_run))
        if guarantee in OF_OWED:
            for group, sender, view in run.order.undescribed():
                tally.open_logs.append(undescribed_text(sender, group, view, told_run))


def _observations(judged: pa.Table, runs: Mapping[str, RunFacts]) -> list[MemberObservation]:
    by_member = latencies(judged)
    observations = []
    for name, run in runs.items():
        for process, log in run.logs.items():
            for group, facts in _group_facts(log).items():
                seen = by_member.get((name, process, group))
                observations.append(
                    MemberObservation(
                        run=name,
                        process=process,
                        group=group,
                        latency_ns_p50=seen and seen.p50,
                        latency_ns_p99=seen and seen.p99,
                        latency_ns_max=seen and seen.greatest,
                        ending=log.ending,
                        **facts,
                    )
                )
    return observations


def _group_facts(log: LogFacts) -> dict[str, dict[str, Any]]:
    """Counts and times of a log, by group, over all its pieces."""
    by_group: dict[str, list[dict[str, int]]] = defaultdict(list)
    for piece in log.pieces:
        for facts in piece["groups"]:
            by_group[facts["group"]].append(facts)
    return {
        group: {name: sum(facts[name] for facts in parts) for name in ("sent", "delivered", "delivered_bytes")}
        | {"first_ns": min(facts["first_ns"] for facts in parts), "last_ns": max(facts["last_ns"] for facts in parts)}
        for group, parts in by_group.items()
    }


def _say_nothing(_: str) -> None:
    pass
