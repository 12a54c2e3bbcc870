"""view_agreement and primary as DataFrame operations, against the reference auditor, many runs in one query."""

from collections import defaultdict
from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import Row
from antiphon.pipeline import reference, view_counts
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.result import Finding
from antiphon.pipeline.view_frames import count_views
from tests.pipeline.corruption import (
    CORRUPTIONS,
    change_members,
    change_view,
    cut_log,
    exclude,
    forget_notes,
    lose_log,
    move_view,
    skip_view,
)
from tests.pipeline.inprocess import BY_FRAMES, logs_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.sampling import seeds

pytestmark = pytest.mark.spark

OF_VIEWS = (change_members, change_view, exclude, skip_view, move_view, forget_notes, cut_log, lose_log)
HELD = Promises({}, frozenset(BY_FRAMES))


def counted(spark: SparkSession, rows: list[Row], piece_rows: int = 9) -> dict[str, dict[str, tuple[int, ...]]]:
    """By run and guarantee: violations, unknown, checked, root causes; without what open logs leave unknown."""
    logs = logs_of(rows, piece_rows)
    sums: dict[str, dict[str, tuple[int, ...]]] = defaultdict(lambda: dict.fromkeys(BY_FRAMES, (0, 0, 0, 0)))
    on_spark = count_views(spark, logs, HELD)
    assert view_counts.count_views(logs, HELD) == on_spark, "in one process the same, to the first violation"
    for run, _, guarantee, found in on_spark:
        own = (found.violations, found.unknown, found.checked, found.roots)
        sums[run][guarantee] = tuple(map(sum, zip(sums[run][guarantee], own, strict=True)))
        assert (found.first_violation is not None) == (found.violations > 0)
    return {run: sums[run] for run in logs}


def expected(rows: list[Row]) -> dict[str, tuple[int, ...]]:
    """The same of one run, by the reference auditor."""
    open_logs = sum(log.open for log in next(iter(logs_of(rows, 9).values())).values())
    return {
        found.guarantee: (found.violations, found.unknown - open_logs, found.checked, found.roots)
        for found in reference.audit(rows, BY_FRAMES).findings
    }


@pytest.mark.random
def test_both_count_the_same_on_many_histories(spark: SparkSession) -> None:
    rows: list[Row] = []
    wanted: dict[str, dict[str, tuple[int, ...]]] = {}
    for seed in seeds(70, 220):
        spoiled = make_spoiled_rows(Random(seed), 5, OF_VIEWS if seed % 3 else CORRUPTIONS)
        own = [replace(row, run=f"seed {seed}") for row in spoiled if row.run == "run 0"]
        try:
            wanted[f"seed {seed}"] = expected(own)
        except UnusableHistoryError:
            continue
        rows += own
    assert counted(spark, rows) == wanted
    for guarantee in BY_FRAMES:
        found = [counts[guarantee] for counts in wanted.values()]
        assert sum(violations > 0 for violations, *_ in found) > len(wanted) // 12
        assert any(roots < violations for violations, _, _, roots in found)
    assert any(counts["primary"][1] for counts in wanted.values())


CASES = {
    "p has p, q in view 2 of g, but q has other members or another ranking": (
        "view_agreement",
        {"p": "v2:pq quiet", "q": "v2:pqr quiet", "r": "v2:pqr quiet"},
    ),
    "p goes from view 3 of g to view 2, which is no later one": ("view_agreement", {"p": "v3:p v2:p quiet"}),
    "p is not among q, the members of its own view 2 of g": ("view_agreement", {"p": "v2:q quiet", "q": "v2:q quiet"}),
    "view 2 of g exists twice: with p, q, and with r, t": (
        "primary",
        {"p": "v2:pq quiet", "q": "v2:pq quiet", "r": "v2:rt quiet", "t": "v2:rt quiet"},
    ),
    "view 2 of g holds only 1 of the 3 members of view 1": ("primary", {"p": "v2:p quiet", "q": "quiet", "r": "quiet"}),
    "view 3 of g follows no view: nobody was in view 2": ("primary", {"p": "v3:p quiet"}),
}


def test_the_examples_are_those_of_the_reference(spark: SparkSession) -> None:
    rows: list[Row] = []
    wanted: dict[tuple[str, str], Finding] = {}
    for text, (guarantee, lines) in CASES.items():
        own = make_rows(run=text, promises=guarantee, **lines)
        rows += own
        (wanted[text, guarantee],) = reference.audit(own).findings
    found = {(each.run, each.guarantee): each.counts for each in count_views(spark, logs_of(rows, 3), HELD)}
    for (run, guarantee), finding in wanted.items():
        first_violation = found[run, guarantee].first_violation
        assert first_violation is not None
        assert finding.example is not None
        assert (first_violation.text, first_violation.events) == (finding.example.text, finding.example.events)
        assert first_violation.text == run


def test_nothing_is_asked_of_spark_where_nothing_of_the_kind_is_promised(spark: SparkSession) -> None:
    logs = logs_of(make_rows(p="v2:p quiet"), 9)
    assert count_views(spark, logs, Promises({}, frozenset({"causal"}))) == []
