"""The two passes of the Spark auditor in one process, without Spark: the same functions, called one after the other."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from antiphon.history.schema import SCHEMA, Row
from antiphon.history.start import parse_start
from antiphon.pipeline.audit import label_order, settled, total_global, views
from antiphon.pipeline.audit.judge import PieceKnowledge, judge
from antiphon.pipeline.audit.logs import gather_logs
from antiphon.pipeline.audit.order import never_sent
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.preparation import Placement, find_order_cycles, prepare
from antiphon.pipeline.audit.reduce import root_counts
from antiphon.pipeline.audit.row_queries import QUERIED_ROWS, QueryResults, RowQueries, results_of, select_rows
from antiphon.pipeline.audit.summary import Summary, summaries_of, summarise
from antiphon.pipeline.audit.total import Placed
from antiphon.pipeline.first_pass import Limits, goes_beyond
from antiphon.pipeline.guarantees import CHECKED, LABEL_ORDER, PRIMARY, SETTLED, VIEW_AGREEMENT
from antiphon.pipeline.promises import gather
from antiphon.pipeline.result import Audit
from antiphon.pipeline.view_rows import Logs

BY_FRAMES = (VIEW_AGREEMENT, PRIMARY)
"""Judged on Spark alone (`antiphon.pipeline.view_frames`): test_view_frames.py compares them."""
Counts = dict[str, tuple[int, int, int, int]]
"""Guarantee → violations, unknown, checked, root causes."""


def table_of(rows: Iterable[Row]) -> pa.Table:
    columns = [[getattr(row, name) for row in rows] for name in SCHEMA.names]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def pieces_of(rows: Sequence[Row], piece_rows: int) -> list[Piece]:
    """Each log cut into pieces of so many rows."""
    logs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        logs.setdefault((row.run, f"{row.process}/{row.incarnation}"), []).append(row)
    pieces = []
    for (run, process), own in logs.items():
        own.sort(key=lambda row: row.index)
        for first in range(0, len(own), piece_rows):
            pieces.append(Piece(run, process, table_of(own[first : first + piece_rows])))
    return pieces


def logs_of(rows: Sequence[Row], piece_rows: int) -> Logs:
    """What is known of each log after the first pass."""
    pieces = pieces_of(rows, piece_rows)
    return gather_logs(
        summaries_of(pa.Table.from_batches([summarise(each, at, {}) for at, each in enumerate(pieces)])), {}
    )


def count(rows: Sequence[Row], *, piece_rows: int, promise: Sequence[str] | None = None) -> Counts:
    """What the Spark auditor would count."""
    return count_pieces(pieces_of(rows, piece_rows), promise)


def count_pieces(pieces: Sequence[Piece], promise: Sequence[str] | None = None) -> Counts:
    """The same, of a history that has been cut up."""

    def summaries(places: Iterable[int], limits: Limits) -> list[Summary]:
        batches = [summarise(pieces[place], place, limits.get(pieces[place].run, {})) for place in places]
        return summaries_of(pa.Table.from_batches(batches))

    found = summaries(range(len(pieces)), {})
    logs: Logs = gather_logs(found, {})
    limits = {run: beyond for run, of_run in logs.items() if (beyond := never_sent(of_run))}
    again = [summary["task"] for summary in found if goes_beyond(summary, limits)]
    if again:
        others = [summary for summary in found if summary["task"] not in again]
        logs = gather_logs([*others, *summaries(again, limits)], {})
    starts = [(summary["run"], start) for summary in found for start in summary["starts"]]
    promises = gather([(run, start["group"], parse_start(start["label"])) for run, start in starts], promise)
    sums = {guarantee: [0, 0, 0, 0] for guarantee in CHECKED}
    broken: list[dict[str, Any]] = []

    def read_rows(queries: RowQueries) -> QueryResults:
        batches = [
            select_rows(piece, queries[piece.run, piece.process])
            for piece in pieces
            if (piece.run, piece.process) in queries
        ]
        return results_of(pa.Table.from_batches(batches, QUERIED_ROWS))

    def add(guarantee: str, counts: Iterable[int]) -> None:
        sums[guarantee] = [one + other for one, other in zip(sums[guarantee], counts, strict=True)]

    runs = prepare(logs, promises, read_rows)
    placements: list[Placement] = []
    for name, run in runs.items():
        for log in run.logs.values():
            for summary, known in PieceKnowledge.of_log(log, run.order):
                for row in judge(pieces[summary["task"]], run.order, run.positions, known, promises).to_pylist():
                    if row["position_first"] is not None:
                        placed = Placed(row["position_first"], row["position_end"])
                        placements.append((name, row["group"], log.process, row["index"], placed))
                    if row["guarantee"] is not None:
                        add(row["guarantee"], (row["violations"], row["unknown"], row["checked"], 0))
                        broken.append(row)
            for guarantee in CHECKED:
                if log.open and promises.in_run(guarantee, name):
                    add(guarantee, (0, 1, 0, 0))
        for group, found_in in settled.count(run.order, run.logs).items():
            if promises.holds(SETTLED, name, group):
                add(SETTLED, (found_in.violations, found_in.unknown, found_in.checked, found_in.missed.roots()))
    cycles = find_order_cycles(runs, placements, promises, read_rows)
    for name, run in runs.items():
        for guarantee, of_views, _ in views.count(
            run.order, run.logs, run.view_intervals, promises, cycles.get(name, {})
        ):
            add(guarantee, (of_views.violations, of_views.unknown, of_views.checked, of_views.roots))
    for _, guarantee, over_groups, _ in total_global.count(runs, promises, read_rows):
        add(guarantee, (over_groups.violations, over_groups.unknown, over_groups.checked, over_groups.roots))
    for _, of_labels, _ in label_order.count(runs, promises, read_rows):
        add(LABEL_ORDER, (of_labels.violations, of_labels.unknown, of_labels.checked, of_labels.roots))
    for guarantee, roots in root_counts(broken).items():
        add(guarantee, (0, 0, 0, roots))
    judged = [guarantee for guarantee in promises.all() if guarantee not in BY_FRAMES]
    return {guarantee: (*sums[guarantee],) for guarantee in judged}  # type: ignore[misc]


def counts_of(audit: Audit) -> Counts:
    """What an audit counts, but for BY_FRAMES."""
    return {
        f.guarantee: (f.violations, f.unknown, f.checked, f.roots)
        for f in audit.findings
        if f.guarantee not in BY_FRAMES
    }
