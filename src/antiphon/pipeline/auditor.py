"""The audit on Spark: two passes over the history, and a second look at a few rows, without a shuffle of its rows.

1. Each piece of each log is summarised (`antiphon.pipeline.audit.summary`). From the summaries the driver puts together
   the logs, the causal order of the messages, and what each process had delivered before each piece. What the
   summaries do not tell, it asks to see row by row (`antiphon.pipeline.audit.look`): one process's order of agreed and
   safe messages per view, and who had delivered what is lost.
2. Each piece is judged with that knowledge (`antiphon.pipeline.audit.case` and one file per guarantee). Only counts, a
   witness per broken guarantee and rounded latencies leave a piece; Spark SQL adds them up.

If something was delivered that was never sent, the first pass is made again, so that it is left out of every past.
What must hold in the end (settled), or of whole views, is decided from the summaries alone. Only where the second pass
finds agreed or safe messages out of order, their deliveries are looked at all together (total). The rules, word for
word, are at the top of `antiphon.pipeline.reference`; both auditors give the same verdicts and counts on every history.

Memory: a task holds its row group; the driver holds one row per send run and one column per sender and group, one row
per run of agreed or safe messages, and of a group whose messages are out of order all deliveries of these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from antiphon.history.errors import DamagedRowGroupError, UnusableHistoryError
from antiphon.history.reader import Damage, History
from antiphon.history.start import parse_start
from antiphon.pipeline.audit import settled, views
from antiphon.pipeline.audit.judge import JUDGED, PieceKnowledge, judge
from antiphon.pipeline.audit.logs import ENDLESS, LogFacts, gather_logs
from antiphon.pipeline.audit.look import LOOK, Look, Sights, Wishes, look, sights_of
from antiphon.pipeline.audit.order import Order, never_sent
from antiphon.pipeline.audit.pieces import Task, plan, read_pieces
from antiphon.pipeline.audit.preparation import Placement, Run, find_tangles, prepare
from antiphon.pipeline.audit.rows import MESSAGE_COLUMNS, Key
from antiphon.pipeline.audit.summary import SUMMARY, Summary, summaries_of, summarise
from antiphon.pipeline.audit.total import Placed, Positions, Tangle
from antiphon.pipeline.explain import early_text, open_log_text
from antiphon.pipeline.increment import TASK, Increment, Reuse, opened
from antiphon.pipeline.passes import over_numbers
from antiphon.pipeline.promises import CHECKED, SETTLED, Promises, gather
from antiphon.pipeline.result import Audit, MemberObservation
from antiphon.pipeline.shipping import shipped
from antiphon.pipeline.verdicts import Tally, conclude
from antiphon.pipeline.witness import Storyteller

Progress = Callable[[str], None]
Limits = Mapping[str, Mapping[Key, int]]
Logs = Mapping[str, Mapping[str, LogFacts]]
"""run → process → log."""

Orders = Mapping[str, tuple[Order, Mapping[str, Mapping[int, Positions]]]]
"""run → its order, and the positions of its agreed and safe messages."""
PieceName = tuple[int, str, str]
"""Task, run and process."""
Knowledge = tuple[Orders, dict[PieceName, PieceKnowledge]]
"""What the second pass needs: of the runs, and of each piece."""


def audit(
    path: Path | str, spark: SparkSession, promise: Sequence[str] | None = None, progress: Progress | None = None
) -> Audit:
    """Audit the history at `path`; `promise` names guarantees in place of those that were promised.

    `progress` is told, in words, what begins. Raises UnusableHistoryError if the input is no history, and
    UnknownGuaranteeError for a guarantee that cannot be checked.
    """
    gather((), promise)  # a wrong name is refused before anything is read
    history = History.open(Path(path).resolve())  # workers may run elsewhere
    return _audit(history, plan(history), spark, promise, progress or _say_nothing, None)


def audit_increment(
    path: Path | str, spark: SparkSession, promise: Sequence[str] | None = None, progress: Progress | None = None
) -> tuple[Audit, Reuse]:
    """The same result as that of `audit`, built on what the last such audit kept beside the history."""
    gather((), promise)
    history = History.open(Path(path).resolve())  # workers may run elsewhere
    tasks = plan(history)
    with opened(history, tasks) as increment:
        return _audit(history, tasks, spark, promise, progress or _say_nothing, increment), increment.reuse


def _audit(
    history: History,
    tasks: list[Task],
    spark: SparkSession,
    promise: Sequence[str] | None,
    tell: Progress,
    increment: Increment | None,
) -> Audit:
    tell(f"reading {history.rows:,} rows")
    history, summaries = _first_pass(spark, history, tasks, increment)
    lost = {damage.unit for damage in history.damages}
    tasks = [tuple(unit for unit in task if unit not in lost) for task in tasks]
    logs, summaries = _logs(spark, history, tasks, summaries)
    starts = [(summary["run"], start) for summary in summaries for start in summary["starts"]]
    promises = gather([(run, start["group"], parse_start(start["label"])) for run, start in starts], promise)
    tell(f"checking {sum(summary['events'] for summary in summaries):,} events")
    look = _looker(spark, tasks, logs, increment)
    runs = prepare(logs, promises, look)
    with shipped(spark, _knowledge(runs)) as open_knowledge:
        judged = _second_pass(spark, tasks, runs, open_knowledge, promises, increment).persist()
        tangles = find_tangles(runs, _placements(judged), look)
        tell("adding up")
        tallies = _tallies(judged, runs, promises, tangles, history)
        observations = _observations(judged, runs)
        judged.unpersist()
    return conclude(
        promises,
        tallies,
        events=sum(summary["events"] for summary in summaries),
        rows=sum(summary["rows"] for summary in summaries),
        runs=len(runs),
        observations=observations,
    )


def _first_pass(
    spark: SparkSession, history: History, tasks: list[Task], increment: Increment | None
) -> tuple[History, list[Summary]]:
    """The summaries of all that can be read, and the history without the row groups that cannot."""

    def make(chosen: list[int]) -> pa.Table:
        return _summarise(spark, tasks, chosen, {})

    table = make(list(range(len(tasks)))) if increment is None else increment.summaries(make)
    summaries = summaries_of(table)
    damages = [
        Damage(tasks[summary["task"]][summary["damaged"]], summary["problem"])
        for summary in summaries
        if summary["damaged"] is not None
    ]
    damages.sort(key=lambda damage: history.units.index(damage.unit))
    rest = history.without(damages) if damages else history
    return rest, [summary for summary in summaries if summary["damaged"] is None]


def _logs(
    spark: SparkSession, history: History, tasks: list[Task], summaries: list[Summary]
) -> tuple[Logs, list[Summary]]:
    """The logs; where something was delivered that was never sent, with summaries that leave it out."""
    unfinished = history.unfinished()
    logs = gather_logs(summaries, unfinished)
    limits = {run: beyond for run, of_run in logs.items() if (beyond := never_sent(of_run))}
    if limits:
        chosen = sorted({summary["task"] for summary in summaries if _goes_beyond(summary, limits)})
        others = [summary for summary in summaries if summary["task"] not in chosen]
        summaries = others + summaries_of(_summarise(spark, tasks, chosen, limits))
        logs = gather_logs(summaries, unfinished)
    return logs, summaries


def _goes_beyond(summary: Summary, limits: Limits) -> bool:
    """Whether a piece delivers what was never sent: only there do the limits make a difference."""
    own = limits.get(summary["run"], {})
    return any(
        int(entry["ends"][-1]) - 1 > own.get((entry["group"], entry["sender"]), ENDLESS)
        for entry in summary["delivered"]
    )


def _summarise(spark: SparkSession, tasks: list[Task], chosen: list[int], limits: Limits) -> pa.Table:
    """Rows of SUMMARY for some tasks."""

    def work(place: int) -> Iterator[pa.RecordBatch]:
        return _summaries(tasks[place], place, limits)

    table = _over_tasks(spark, chosen, work, SUMMARY).toArrow()
    unusable = table.filter(pc.and_(pc.is_valid(table["problem"]), pc.is_null(table["damaged"])))["problem"]
    if len(unusable):
        raise UnusableHistoryError(None, min(unusable.to_pylist()))
    return table


def _summaries(task: Task, place: int, limits: Limits) -> Iterator[pa.RecordBatch]:
    """The summaries of one task. What is damaged or makes the history unusable travels as a row, since exceptions
    travel badly."""
    sound = task
    while True:
        try:
            for piece in read_pieces(sound):  # all is read before the first piece
                yield summarise(piece, place, limits.get(piece.run, {}))
        except DamagedRowGroupError as error:
            damaged = next(unit for unit in sound if unit.file == str(error.path) and unit.row_group == error.row_group)
            sound = tuple(unit for unit in sound if unit != damaged)
            row = {"task": place, "damaged": task.index(damaged), "problem": error.problem}
            yield pa.RecordBatch.from_pylist([row], SUMMARY)
        except UnusableHistoryError as error:
            names = sorted({Path(unit.file).name for unit in sound})
            where = f" (in {', '.join(names)})" if error.path is None and len(names) > 1 else ""
            yield pa.RecordBatch.from_pylist([{"problem": f"{error}{where}"}], SUMMARY)
            return
        else:
            return


def _knowledge(runs: Mapping[str, Run]) -> Knowledge:
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
    spark: SparkSession,
    tasks: list[Task],
    runs: Mapping[str, Run],
    open_knowledge: Callable[[], Knowledge],
    promises: Promises,
    increment: Increment | None,
) -> DataFrame:
    def make(chosen: list[int]) -> DataFrame:

        def work(place: int) -> Iterator[pa.RecordBatch]:
            orders, knowledge = open_knowledge()
            for piece in read_pieces(tasks[place], MESSAGE_COLUMNS):
                known = knowledge.get((place, piece.run, piece.process))
                if known is not None:  # else it lies behind a gap
                    yield _of_task(judge(piece, *orders[piece.run], known, promises), place)

        return _over_tasks(spark, chosen, work, JUDGED.append(TASK))

    if increment is None:
        return make(list(range(len(tasks))))
    return spark.createDataFrame(increment.judgements(runs, promises, lambda chosen: make(chosen).toArrow()))


def _of_task(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    return batch.append_column(TASK, pa.array([place] * len(batch), TASK.type))


def _over_tasks(
    spark: SparkSession, chosen: Sequence[int], work: Callable[[int], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Run `work` over some tasks, by their places."""

    def work_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(chosen[number])

    return over_numbers(spark, len(chosen), work_on, schema)


def _looker(spark: SparkSession, tasks: list[Task], logs: Logs, increment: Increment | None) -> Look:
    """How single rows are seen: only tasks that may hold some are read."""

    def look_for(wishes: Wishes) -> Sights:
        asked = dict(wishes)

        def work(place: int) -> Iterator[pa.RecordBatch]:
            for piece in read_pieces(tasks[place], MESSAGE_COLUMNS):
                if (piece.run, piece.process) in asked:
                    yield _of_task(look(piece, asked[piece.run, piece.process]), place)

        def make(chosen: list[int]) -> pa.Table:
            return _over_tasks(spark, chosen, work, LOOK.append(TASK)).toArrow()

        if increment is not None:
            return sights_of(increment.sights(wishes, logs, make))
        chosen = sorted(
            {
                piece["task"]
                for (run, process), own in wishes.items()
                for piece in logs[run][process].pieces
                if any(wish.first_index < piece["known_end"] and wish.end_index > piece["first_index"] for wish in own)
            }
        )
        return sights_of(make(chosen))

    return look_for


PLACEMENTS = """
    SELECT run, group, process, index, position_first, position_end FROM {judged} WHERE position_first IS NOT NULL
"""

FINDINGS = """
    SELECT guarantee, sum(violations) AS violations, sum(unknown) AS unknown, sum(checked) AS checked,
           min_by(struct(run, process, group, sender, index, view, number, lacking), struct(run, process, index))
               FILTER (WHERE violations > 0) AS witness
    FROM {judged} WHERE guarantee IS NOT NULL GROUP BY guarantee
"""

LATENCIES = """
    SELECT run, process, group, max(latency_ns_max) AS latency_ns_max,
           min(latency_ns) FILTER (WHERE 100 * so_far >= 50 * total) AS latency_ns_p50,
           min(latency_ns) FILTER (WHERE 100 * so_far >= 99 * total) AS latency_ns_p99
    FROM (SELECT *, sum(count) OVER (PARTITION BY run, process, group ORDER BY latency_ns) AS so_far,
                 sum(count) OVER (PARTITION BY run, process, group) AS total
          FROM {judged} WHERE latency_ns IS NOT NULL)
    GROUP BY run, process, group
"""


def _placements(judged: DataFrame) -> list[Placement]:
    rows = judged.sparkSession.sql(PLACEMENTS, judged=judged).toArrow().to_pylist()
    return [
        (row["run"], row["group"], row["process"], row["index"], Placed(row["position_first"], row["position_end"]))
        for row in rows
    ]


def _tallies(
    judged: DataFrame,
    runs: Mapping[str, Run],
    promises: Promises,
    tangles: Mapping[str, Mapping[str, Tangle]],
    history: History,
) -> dict[str, Tally]:
    tallies = {guarantee: Tally() for guarantee in CHECKED}
    storytellers = {name: Storyteller(history, name, run.logs, run.order) for name, run in runs.items()}
    for row in judged.sparkSession.sql(FINDINGS, judged=judged).toArrow().to_pylist():
        tally = tallies[row["guarantee"]]
        tally.violations, tally.unknown, tally.checked = row["violations"], row["unknown"], row["checked"]
        if row["witness"] is not None:
            tally.example = storytellers[row["witness"]["run"]].tell(row["guarantee"], row["witness"])
    for name, run in runs.items():
        _add_settled(tallies[SETTLED], run, promises, storytellers[name])
        _add_views(tallies, run, promises, tangles.get(name, {}), storytellers[name])
        _add_open_logs(tallies, run, promises, told_run=name if len(runs) > 1 else None)
    return tallies


def _add_settled(tally: Tally, run: Run, promises: Promises, storyteller: Storyteller) -> None:
    for key, found in settled.count(run.order, run.logs).items():
        if promises.holds(SETTLED, run.order.run, key[0]):
            tally.violations += found.violations
            tally.unknown += found.unknown
            tally.checked += found.checked
            if found.witness is not None and tally.example is None:
                tally.example = storyteller.tell_settled(key, *found.witness)


def _add_views(
    tallies: Mapping[str, Tally],
    run: Run,
    promises: Promises,
    tangles: Mapping[str, Tangle],
    storyteller: Storyteller,
) -> None:
    for guarantee, found, group in views.count(run.order, run.logs, run.stays, promises, tangles):
        tally = tallies[guarantee]
        tally.violations += found.violations
        tally.unknown += found.unknown
        tally.checked += found.checked
        if found.witness is not None and tally.example is None:
            tally.example = storyteller.tell_view(group, found.witness)


def _add_open_logs(tallies: Mapping[str, Tally], run: Run, promises: Promises, told_run: str | None) -> None:
    for guarantee, tally in tallies.items():
        if not promises.in_run(guarantee, run.order.run):
            continue
        for log in run.logs.values():
            if log.open:
                tally.unknown += 1
                tally.open_logs.append(open_log_text(log.process, log.rows, told_run, log.behind, log.cause))
            elif guarantee == SETTLED and log.early:
                tally.open_logs.append(early_text(log.process, log.ending, told_run))


def _observations(judged: DataFrame, runs: Mapping[str, Run]) -> list[MemberObservation]:
    found = judged.sparkSession.sql(LATENCIES, judged=judged).toArrow().to_pylist()
    latencies = {(row["run"], row["process"], row["group"]): row for row in found}
    observations = []
    for name, run in runs.items():
        for process, log in run.logs.items():
            for group, facts in _group_facts(log).items():
                seen = latencies.get((name, process, group), {})
                observations.append(
                    MemberObservation(
                        run=name,
                        process=process,
                        group=group,
                        latency_ns_p50=seen.get("latency_ns_p50"),
                        latency_ns_p99=seen.get("latency_ns_p99"),
                        latency_ns_max=seen.get("latency_ns_max"),
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
