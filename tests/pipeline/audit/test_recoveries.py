"""A group that an operator had go on without a majority: what that leaves open is unknown, and the rest is judged.

Each case says what is counted: violations and unknown of one guarantee, by both auditors, and what is counted without
the operator's word. Views with high ids are those that followed it.
"""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import RECOVERS, Row
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.campaign.judge import judge
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from tests.pipeline.corruption import drop_delivery, drop_safe, recover, swap_neighbours
from tests.pipeline.histories import PROMISES, make_history, rows_of
from tests.pipeline.inprocess import count, counts_of
from tests.pipeline.script import make_logs, make_rows
from tests.pipeline.test_auditor import without_examples, write_history

Lines = dict[str, str]
Counted = tuple[int, int]

LEAVES_OPEN: list[tuple[str, str, Lines, Counted, Counted]] = [
    (
        "safe: the others went on and delivered what the one who was told to go on never got",
        "safe",
        {"a": "recover@g v9:a quiet", "b": "d:c1~safe v2:bc quiet", "c": "s1~safe d:c1~safe v2:bc quiet"},
        (0, 1),
        (1, 0),
    ),
    (
        "safe: the others died before they were told of their next view",
        "safe",
        {"a": "recover@g v9:a quiet", "b": "d:c1~safe crash", "c": "s1~safe d:c1~safe crash"},
        (0, 1),
        (1, 0),
    ),
    (
        "safe: what came along with the word, and the others never got",
        "safe",
        {"a": "s1~safe recover@g d:a1~safe v9:a quiet", "b": "v2:bc quiet", "c": "v2:bc quiet"},
        (0, 2),
        (2, 0),
    ),
    (
        "safe: what had been delivered before the word everybody holds",
        "safe",
        {"a": "s1~safe d:a1~safe recover@g v9:a quiet", "b": "v2:bc quiet", "c": "d:a1~safe v2:bc quiet"},
        (1, 0),
        (1, 0),
    ),
    (
        "safe: two went on together, and one has what the other lacks",
        "safe",
        {
            "a": "recover@g v9:ab quiet",
            "b": "d:c1~safe v9:ab quiet",
            "c": "s1~safe d:c1~safe crash",
            "d": "crash",
            "e": "crash",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "safe: the others are not companions of each other's enemies",
        "safe",
        {"a": "recover@g v9:a quiet", "b": "d:c1~safe v2:bcd quiet", "c": "s1~safe d:c1~safe v2:bcd quiet",
         "d": "v2:bcd quiet"},
        (1, 1),
        (2, 0),
    ),
    (
        "safe: a later view is judged as ever",
        "safe",
        {"a": "recover@g v9:ab s1~safe d:a1~safe quiet", "b": "v9:ab quiet", "c": "crash", "d": "crash", "e": "crash"},
        (1, 0),
        (1, 0),
    ),
    (
        "safe: a word that had a majority excuses nothing",
        "safe",
        {"a": "recover@g v9:ab quiet", "b": "v9:ab quiet", "c": "s1~safe d:c1~safe crash"},
        (2, 0),
        (2, 0),
    ),
    (
        "causal: what a message below causal told of is with those who are left behind",
        "causal",
        {"b": "s1 d:b1 s2~reliable d:b2~reliable v2:b quiet", "c": "d:b2~reliable recover@g v9:c s1 d:c1 quiet"},
        (0, 1),
        (1, 0),
    ),
    (
        "causal: the same before the next view",
        "causal",
        {"b": "s1 d:b1 s2~reliable d:b2~reliable v2:b quiet", "c": "d:b2~reliable recover@g s1 d:c1 v9:c quiet"},
        (1, 0),
        (1, 0),
    ),
    (
        "causal: of two that went on together one had it",
        "causal",
        {
            "a": "s1 d:a1 s2~reliable d:a2~reliable crash",
            "b": "d:a2~reliable recover@g v9:bc s1 d:b1 quiet",
            "c": "d:a1 d:a2~reliable v9:bc d:b1 quiet",
            "d": "crash",
            "e": "crash",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "causal: a companion sent it",
        "causal",
        {
            "b": "s1 d:b1 s2~reliable d:b2~reliable recover@g v9:bc quiet",
            "c": "d:b2~reliable v9:bc s1 d:c1 quiet",
            "d": "crash",
            "e": "crash",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "causal: what was sent in the next view is owed",
        "causal",
        {
            "a": "crash",
            "b": "recover@g v9:bc s1 d:b1 s2 d:b2 quiet",
            "c": "v9:bc d:b2 quiet",
            "d": "crash",
            "e": "crash",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "fifo: a message of before, read after the next view",
        "fifo",
        {"b": "s1-2~fifo d:b1-2~fifo v2:b quiet", "c": "recover@g v9:c d:b2~fifo quiet"},
        (0, 1),
        (1, 0),
    ),
    (
        "settled: two groups of one name go on to the end",
        "settled",
        {"a": "recover@g v9:a quiet", "b": "d:c1 v2:bc quiet", "c": "s1 d:c1 v2:bc quiet"},
        (0, 1),
        (1, 0),
    ),
    (
        "settled: nobody is left who has it",
        "settled",
        {"a": "recover@g v9:a quiet", "b": "d:c1 crash", "c": "s1 d:c1 crash"},
        (0, 0),
        (0, 0),
    ),
    (
        "settled: of those who stay in the torn view one lacks it",
        "settled",
        {"a": "recover@g v9:a quiet", "b": "s1 d:b1 quiet", "c": "quiet"},
        (1, 1),
        (2, 0),
    ),
    (
        "total: who was told to go on had another order",
        "total",
        {
            "a": "s1~agreed d:a1~agreed d:b1~agreed recover@g v9:a quiet",
            "b": "s1~agreed d:b1~agreed d:a1~agreed v2:bc quiet",
            "c": "d:b1~agreed d:a1~agreed v2:bc quiet",
        },
        (0, 1),
        (1, 0),
    ),
    (
        "total: those who went on together differ",
        "total",
        {
            "a": "s1~agreed d:a1~agreed d:b1~agreed recover@g v9:ab quiet",
            "b": "s1~agreed d:b1~agreed d:a1~agreed v9:ab quiet",
            "c": "crash",
            "d": "crash",
            "e": "crash",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "total: safe messages are in one order everywhere",
        "total",
        {
            "a": "s1~safe d:a1~safe d:b1~safe recover@g v9:a quiet",
            "b": "s1~safe d:b1~safe d:a1~safe v2:bc quiet",
            "c": "d:b1~safe d:a1~safe v2:bc quiet",
        },
        (1, 0),
        (1, 0),
    ),
    (
        "total: messages in one order of one label",
        "total",
        {
            "a": "s1~abcast d:a1~abcast d:b1~abcast recover@g v9:a quiet",
            "b": "s1~abcast d:b1~abcast d:a1~abcast v2:bc quiet",
            "c": "d:b1~abcast d:a1~abcast v2:bc quiet",
        },
        (0, 1),
        (1, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("guarantee", "lines", "expected", "without"),
    [case[1:] for case in LEAVES_OPEN],
    ids=[case[0] for case in LEAVES_OPEN],
)
def test_what_a_word_leaves_open(
    guarantee: str, lines: Lines, expected: Counted, without: Counted, tmp_path: Path
) -> None:
    rows = make_rows(promises=guarantee, **lines)
    (found,) = reference.audit(rows).findings
    assert (found.violations, found.unknown) == expected
    assert found.verdict == (BROKEN if expected[0] else UNKNOWN if expected[1] else KEPT)
    if expected[1]:
        assert "on an operator's word" in (found.reason or "")
    (strict,) = reference.audit(rows, heed_recoveries=False).findings
    assert (strict.violations, strict.unknown) == without
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows)[guarantee][:2] == expected
    quick = quick_audit(write_history(tmp_path, rows))
    assert without_examples(quick).findings == without_examples(reference.audit(rows)).findings


def test_the_reason_names_who_went_on_from_where_to_where(tmp_path: Path) -> None:
    rows = make_rows(promises="safe", **LEAVES_OPEN[0][2])
    words = (
        "1 check is undecided: on an operator's word a went on from view 1 to view 9 of g without a majority, so that "
        "what the other members delivered in view 1 may be lost"
    )
    for found in (reference.audit(rows), quick_audit(write_history(tmp_path, rows))):
        assert [finding.reason for finding in found.findings] == [words]


def spoiled(seed: int) -> list[Row]:
    """A random history with a recovery in it, and deliveries that are missing or in another order."""
    random = Random(seed)
    levels = random.choice(
        (("reliable", "fifo", "causal"), ("agreed", "safe"), ("reliable", "causal", "agreed", "safe"))
    )
    processes, steps, merge = random.randint(3, 5), random.randint(10, 40), random.random() < 0.5
    rows = rows_of(make_history(random, processes=processes, steps=steps, levels=levels, merge=merge, views=6))
    for _ in range(random.randint(1, 2)):
        rows = recover(random, rows)
    for _ in range(random.randint(2, 8)):
        rows = random.choice((drop_delivery, drop_safe, swap_neighbours))(random, rows)
    return rows


def test_both_count_the_same_on_random_histories() -> None:
    leaves_open = 0
    for seed in range(25):
        rows = spoiled(seed)
        found = reference.audit(rows, PROMISES)
        assert count(rows, piece_rows=(2, 5, 1000)[seed % 3], promise=PROMISES) == counts_of(found), seed
        strict = reference.audit(rows, PROMISES, heed_recoveries=False)
        fewer = [(f, s) for f, s in zip(found.findings, strict.findings, strict=True) if f.violations < s.violations]
        leaves_open += len(fewer)
        assert all(f.violations <= s.violations for f, s in zip(found.findings, strict.findings, strict=True))
        assert not fewer or any(row.label == RECOVERS for row in rows)
    assert leaves_open > 5, "else nothing is compared with nothing"


def judged(**lines: str) -> list[tuple[str, str, bool]]:
    """What a simulated run with these logs would be blamed for."""
    run = SimpleNamespace(
        logs=make_logs(promises="safe causal", **lines), groups=["g"], excused=[], restless=[], mistake="", failures=0,
        resilience=0, time_ns=0, coverage={},
    )  # fmt: skip
    return [(problem.guarantee, problem.verdict, problem.by_word) for problem in judge(cast(Any, run)).problems]


def test_a_run_is_not_blamed_for_what_the_word_alone_leaves_open() -> None:
    lines = LEAVES_OPEN[0][2]
    assert judged(**lines) == [("safe", UNKNOWN, True)]
    assert judged(**(lines | {"d": "crash", "e": ""})) == [("causal", UNKNOWN, False), ("safe", UNKNOWN, False)]


def test_a_run_is_blamed_for_a_violation_beside_a_recovery() -> None:
    lines = LEAVES_OPEN[0][2] | {
        "b": "d:c1~safe v2:bc s1 d:b1 s2 d:b2 quiet",
        "c": "s1~safe d:c1~safe v2:bc d:b2 quiet",
    }
    assert judged(**lines) == [("causal", BROKEN, False), ("safe", UNKNOWN, True)]


@pytest.mark.spark
def test_spark_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All cases as one history, one run each."""
    rows: list[Row] = []
    for place, (_, guarantee, lines, _, _) in enumerate(LEAVES_OPEN):
        rows += make_rows(run=f"r{place}", promises=guarantee, **lines)
    path = write_history(tmp_path, rows, row_group_size=2)
    assert without_examples(audit(path, spark)).findings == without_examples(reference.audit(path)).findings
