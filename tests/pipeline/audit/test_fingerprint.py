"""Fingerprints: over growing histories, equal fingerprints go with equal judgements, and most stay what they were."""

import json
from collections.abc import Iterator
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline.audit.fingerprint import Fingerprints
from antiphon.pipeline.audit.judge import PieceKnowledge, judge
from antiphon.pipeline.audit.logs import LogFacts, gather_logs
from antiphon.pipeline.audit.order import never_sent
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.preparation import prepare
from antiphon.pipeline.audit.row_queries import QUERIED_ROWS, QueryResults, RowQueries, results_of, select_rows
from antiphon.pipeline.audit.summary import summaries_of, summarise
from antiphon.pipeline.promises import gather
from tests.pipeline.corruption import CORRUPTIONS, OF_LOSS, OF_ORDER, Corrupt
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import pieces_of
from tests.pipeline.test_reference_equality import make_rows
from tests.sampling import fewer

Judgement = tuple[tuple[str, str, int, int], str, str]
"""A piece (run, process, first row, number of rows), its fingerprint, and what was judged."""


def judgements(rows: list[Row], piece_rows: int) -> Iterator[Judgement]:
    """Every piece of a history, judged."""
    pieces = pieces_of(rows, piece_rows)
    runs = prepare(logs_of(pieces), promises := gather((), PROMISES), lambda queries: look_at(pieces, queries))
    for run in runs.values():
        fingerprints = Fingerprints(run.order, run.positions, promises)
        for log in run.logs.values():
            for summary, known in PieceKnowledge.of_log(log, run.order):
                piece = pieces[summary["task"]]
                judged = judge(piece, run.order, run.positions, known, promises).to_pylist()
                name = (piece.run, piece.process, summary["first_index"], len(piece.table))
                yield name, fingerprints.of(summary, known), json.dumps(judged)


def logs_of(pieces: list[Piece]) -> dict[str, dict[str, LogFacts]]:
    """What the first pass finds; made again where something was delivered that was never sent."""
    limits: dict[str, dict[tuple[str, str], int]] = {}
    for _ in range(2):
        batches = [summarise(piece, place, limits.get(piece.run, {})) for place, piece in enumerate(pieces)]
        logs = gather_logs(summaries_of(pa.Table.from_batches(batches)), {})
        limits = {run: never_sent(of_run) for run, of_run in logs.items()}
        if not any(limits.values()):
            break
    return logs


def look_at(pieces: list[Piece], queries: RowQueries) -> QueryResults:
    batches = [select_rows(piece, queries[piece.run, piece.process]) for piece in pieces if piece[:2] in queries]
    return results_of(pa.Table.from_batches(batches, QUERIED_ROWS))


def grow(random: Random, rows: list[Row], steps: int) -> Iterator[list[Row]]:
    """The history as it was after each of some steps, in which each log came further, and in the end whole."""
    whole: dict[tuple[str, str], int] = {}
    for row in rows:
        whole[row.run, row.process] = max(whole.get((row.run, row.process), 0), row.index + 1)
    reached = dict.fromkeys(whole, 0)
    for _ in range(steps):
        reached = {log: random.randint(low, whole[log]) for log, low in reached.items()}
        if seen := [row for row in rows if row.index < reached[row.run, row.process]]:
            yield seen
    yield rows


def judged_while_growing(random: Random, ways: tuple[Corrupt, ...], piece_rows: int) -> list[list[Judgement]]:
    found = []
    for rows in grow(random, make_rows(random, 3, ways), steps=4):
        try:
            found.append(list(judgements(rows, piece_rows)))
        except UnusableHistoryError:
            continue
    return found


@fewer(8)  # each is a whole history that grows
@given(st.integers(0, 10**9), st.sampled_from([2, 5, 20]), st.sampled_from([CORRUPTIONS, OF_ORDER, OF_LOSS]))
def test_equal_fingerprints_go_with_equal_judgements(seed: int, piece_rows: int, ways: tuple[Corrupt, ...]) -> None:
    known: dict[tuple[tuple[str, str, int, int], str], str] = {}
    for step in judged_while_growing(Random(seed), ways, piece_rows):
        for piece, fingerprint, judged in step:
            assert known.setdefault((piece, fingerprint), judged) == judged


def test_most_fingerprints_stay_while_a_history_grows() -> None:
    """Else nothing would ever be known from before, and the test above would compare nothing with nothing."""
    stayed = changed = moved = 0
    for seed in range(4):
        before: dict[tuple[str, str, int, int], tuple[str, str]] = {}
        for step in judged_while_growing(Random(seed), CORRUPTIONS, piece_rows=3):
            for piece, fingerprint, judged in step:
                if piece in before:
                    stayed += before[piece][0] == fingerprint
                    changed += before[piece][0] != fingerprint
                    moved += before[piece][1] != judged
                before[piece] = (fingerprint, judged)
    assert stayed > 3 * changed
    assert 0 < moved <= changed
