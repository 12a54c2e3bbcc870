"""An audit: two passes over the history, and queries for a few rows, without a shuffle of its rows. Where they run is a
`antiphon.pipeline.workplace`: on Spark by `antiphon.pipeline.auditor`, in this process by `antiphon.pipeline.quick`.

1. Each piece of each log is summarised (`antiphon.pipeline.first_pass`). From the summaries the driver puts together
   the logs, the causal order of the messages, and what each process had delivered before each piece. What the
   summaries do not tell, it asks for row by row (`antiphon.pipeline.audit.row_queries`): the order of agreed
   and safe messages of one process per view, and who had delivered what is lost.
2. Each piece is judged with that knowledge (`antiphon.pipeline.audit.case` and one file per guarantee). Only counts,
   the first violation of each broken guarantee and rounded latencies leave a piece; the driver adds them up.

What must hold in the end (settled), or of whole views, is decided from the summaries alone; view rows of all logs are
compared by the workplace: where they are (`antiphon.pipeline.view_counts`), or of an incremental audit as DataFrames
(`antiphon.pipeline.view_frames`). Only where the second pass finds agreed or safe messages out of order, their
deliveries are compared all together (total). The rules, word for word, are at the top of `antiphon.pipeline.reference`;
both auditors give the same verdicts and counts on every history.

Memory: a task holds its row group; the driver holds one row per send run and one column per sender and group, one row
per run of agreed or safe messages, and of a group whose messages are out of order all deliveries of these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from antiphon.history.start import parse_start
from antiphon.pipeline.audit import label_order, total_global, views
from antiphon.pipeline.audit.judge import JUDGED, PieceKnowledge, judge
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.pieces import Task, read_pieces
from antiphon.pipeline.audit.preparation import RunFacts, find_order_cycles, prepare
from antiphon.pipeline.audit.reduce import latencies, placements
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
from antiphon.pipeline.books import Books
from antiphon.pipeline.example_builder import ExampleBuilder
from antiphon.pipeline.first_pass import read_logs
from antiphon.pipeline.guarantees import LABEL_ORDER
from antiphon.pipeline.held import RecordedHistory
from antiphon.pipeline.increment import TASK, Increment
from antiphon.pipeline.promises import Promises, gather
from antiphon.pipeline.result import Audit, MemberObservation, Violation
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


class JudgedRuns(NamedTuple):
    """What was found in some runs, before it is put together with what was found in others."""

    promises: Promises
    tallies: dict[str, Tally]
    """By guarantee."""
    events: int
    rows: int
    runs: int
    observations: list[MemberObservation]
    violations: list[Violation]
    """Every one, if that was asked for."""


def run_audit(
    workplace: Workplace,
    history: RecordedHistory,
    promise: Sequence[str] | None = None,
    progress: Progress | None = None,
    increment: Increment | None = None,
) -> Audit:
    """Audit a history; `promise` names guarantees in place of those that were promised.

    `progress` is told, in words, what begins. Raises UnusableHistoryError if the input is no history, and
    UnknownGuaranteeError for a guarantee that cannot be checked.
    """
    found = judge_runs(workplace, history, promise, progress, increment)
    return conclude(
        found.promises,
        found.tallies,
        events=found.events,
        rows=found.rows,
        runs=found.runs,
        observations=found.observations,
    )


def judge_runs(
    workplace: Workplace,
    history: RecordedHistory,
    promise: Sequence[str] | None = None,
    progress: Progress | None = None,
    increment: Increment | None = None,
    *,
    tell_runs: bool | None = None,
    listing: bool = False,
) -> JudgedRuns:
    """The same without a conclusion. `tell_runs`: whether reasons name the run; if it is not given, where there are
    several. `listing`: whether every violation is listed."""
    tell = progress or _say_nothing
    tell(f"reading {history.rows:,} rows")
    history, summaries, logs = read_logs(workplace, history, increment)
    starts = [(summary["run"], start) for summary in summaries for start in summary["starts"]]
    promises = gather([(run, start["group"], parse_start(start["label"])) for run, start in starts], promise)
    tell(f"checking {sum(summary['events'] for summary in summaries):,} events")
    read_rows = _row_reader(workplace, logs, increment)
    runs = prepare(logs, promises, read_rows)
    with workplace.sharing(_knowledge(runs)) as open_knowledge:
        judged = _second_pass(workplace, runs, open_knowledge, promises, increment, listing)
    cycles = find_order_cycles(runs, placements(judged), promises, read_rows)
    tell("adding up")
    compared = [*workplace.count_views(logs, promises), *_over_groups(runs, promises, read_rows)]
    books = Books(promises, listing, tell_runs if tell_runs is not None else len(runs) > 1)
    _count(books, judged, runs, cycles, compared, history)
    return JudgedRuns(
        promises,
        books.tallies,
        events=sum(summary["events"] for summary in summaries),
        rows=sum(summary["rows"] for summary in summaries),
        runs=len(runs),
        observations=_observations(judged, runs),
        violations=books.violations,
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
    runs: Mapping[str, RunFacts],
    open_knowledge: Callable[[], Knowledge],
    promises: Promises,
    increment: Increment | None,
    listing: bool,
) -> pa.Table:
    def make(chosen: list[int] | None) -> pa.Table:

        def work(place: int, task: Task) -> Iterator[pa.RecordBatch]:
            orders, knowledge = open_knowledge()
            for piece in read_pieces(task, MESSAGE_COLUMNS):
                known = knowledge.get((place, piece.run, piece.process))
                if known is not None:  # else it lies behind a gap
                    yield _of_task(judge(piece, *orders[piece.run], known, promises, listing), place)

        return workplace.over_tasks(chosen, work, JUDGED.append(TASK))

    return make(None) if increment is None else increment.judgements(runs, promises, make)


def _of_task(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    return batch.append_column(TASK, pa.array([place] * len(batch), TASK.type))


def _row_reader(workplace: Workplace, logs: Logs, increment: Increment | None) -> ReadRows:
    """How single rows are seen: only tasks that may hold some are read."""

    def read_rows(queries: RowQueries) -> QueryResults:
        asked = dict(queries)

        def work(place: int, task: Task) -> Iterator[pa.RecordBatch]:
            for piece in read_pieces(task, MESSAGE_COLUMNS):
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


def _count(
    books: Books,
    judged: pa.Table,
    runs: Mapping[str, RunFacts],
    cycles: Mapping[str, Mapping[str, OrderCycles]],
    compared: Sequence[GroupCounts],
    history: RecordedHistory,
) -> None:
    """Enter all that was found."""
    builders = {name: ExampleBuilder(history.first_delivery, name, run.logs, run.order) for name, run in runs.items()}
    books.add_deliveries(judged, builders)
    for run_name, group, guarantee, of_group in compared:
        books.add_group(run_name, guarantee, group, of_group, builders[run_name])
    for name, run in runs.items():
        books.add_run(run, builders[name])
        of_views = views.count(run.order, run.logs, run.view_intervals, books.promises, cycles.get(name, {}))
        for guarantee, found, group in of_views:
            books.add_group(name, guarantee, group, found, builders[name])


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
