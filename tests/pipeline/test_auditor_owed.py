"""What is owed where processes leave one group of several, where messages go to one member, and where some are lost.

By both auditors. Each case says what is counted: violations and unknown, by guarantee, where they are not 0.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

Lines = dict[str, str]
Expected = dict[str, tuple[int, int]]

ALL = " ".join(promise for promise in PROMISES if promise != "primary")
"""Who takes part in which view is of no concern here."""

LEAVING: list[tuple[str, Lines, Expected]] = [
    (
        "who left the group is owed nothing more there, but all in the other group",
        {"p": "s1 d:p1 v2:p s1@h d:p1@h quiet", "q": "out@g quiet"},
        {"settled": (1, 0)},
    ),
    (
        "causal in the other group does not wait for what was undelivered when the process left",
        {"p": "s1 d:p1 v2:p s1@h d:p1@h quiet", "q": "out@g d:p1@h quiet"},
        {},
    ),
    (
        "but does for what was undelivered before it left",
        {"p": "s1 d:p1 s1@h d:p1@h v2:p quiet", "q": "d:p1@h out@g quiet"},
        {"causal": (1, 0)},
    ),
    (
        "and so does fifo",
        {"p": "s1-2 d:p1-2 v2:p quiet", "q": "d:p2 out@g quiet"},
        {"fifo": (1, 0), "causal": (1, 0)},
    ),
    (
        "what it delivers there afterwards waits for nothing",
        {"p": "s1-2 d:p1-2 v2:p quiet", "q": "out@g d:p2 quiet"},
        {},
    ),
    (
        "who is back in the group has not left it",
        {"p": "s1 d:p1 v2:pq quiet", "q": "out@g v2:pq quiet"},
        {"view_synchrony": (1, 0), "settled": (1, 0)},
    ),
    (
        "what only one who left had is owed to nobody, like that of one who is gone",
        {"p": "s1 d:p1 out@g quiet", "q": "v2:qr quiet", "r": "v2:qr quiet"},
        {},
    ),
    (
        "what a survivor of the group has is owed to the others",
        {"p": "s1 d:p1 out@g quiet", "q": "d:p1 quiet", "r": "quiet"},
        {"settled": (1, 0)},
    ),
    (
        "a log that stops early leaves nothing open in the group that it left",
        {"p": "s1 d:p1 quiet", "q": "out@g stop"},
        {},
    ),
    ("the note alone says nothing without a group", {"p": "s1 d:p1 quiet", "q": "leaves quiet"}, {"settled": (1, 0)}),
]

TO_ONE: list[tuple[str, Lines, Expected]] = [
    (
        "delivered by one to whom it was not sent",
        {"p": "s1-2>q quiet", "q": "d:p1-2 quiet", "r": "d:p1-2 quiet"},
        {"creation": (2, 0)},
    ),
    (
        "delivered in a later view than it was sent in",
        {"p": "s1>q v2:pqr quiet", "q": "v2:pqr d:p1 quiet", "r": "v2:pqr quiet"},
        {},
    ),
    (
        "fifo: it stands in the order of its sender",
        {"p": "s1>q s2 d:p2 quiet", "q": "d:p2 d:p1 quiet", "r": "d:p2 quiet"},
        {"fifo": (1, 0), "causal": (1, 0)},
    ),
    (
        "causal: what follows from it waits for it, at its destination alone",
        {"p": "s1>q d:q1 quiet", "q": "d:p1 s1 d:q1 quiet", "r": "d:q1 quiet"},
        {},
    ),
    (
        "causal: over three processes and two groups",
        {"p": "s1>q s1@h d:p1@h d:r1 quiet", "q": "d:r1 d:p1 d:p1@h quiet", "r": "d:p1@h s1 d:r1 quiet"},
        {"causal": (1, 0)},
    ),
    ("settled: the destination lacks it", {"p": "s1>q quiet", "q": "quiet", "r": "quiet"}, {"settled": (1, 0)}),
    ("settled: but not if it left the group", {"p": "s1>q quiet", "q": "out@g quiet", "r": "quiet"}, {}),
]

SEVERAL_GROUPS: list[tuple[str, Lines, Expected]] = [
    (
        "m in g, m' in h, and a process in both delivers m' first",
        {"p": "s1 d:p1 s1@h d:p1@h quiet", "q": "d:p1@h d:p1 quiet"},
        {"causal": (1, 0)},
    ),
    (
        "the chain passes through h and comes back to g",
        {
            "p": "s1 d:p1 d:q1@h d:r1 quiet",
            "q": "d:p1 s1@h d:q1@h d:r1 quiet",
            "r": "d:p1 d:q1@h s1 d:r1 quiet",
            "s": "d:r1 d:p1 d:q1@h quiet",
        },
        {"causal": (1, 0)},
    ),
    (
        "one who is in h alone is not owed m",
        {"p": "s1 d:p1 v2:p s1@h d:p1@h quiet", "q": "out@g v2:pq@h d:p1@h%1 quiet", "r": "left"},
        {"view_sending": (1, 0)},
    ),
]

LOST: list[tuple[str, Lines, Expected]] = [
    (
        "an orphan: p sent p1 after q1, both crashed, and r delivers p1 without q1",
        {"q": "s1 d:q1 crash", "p": "d:q1 s1 crash", "r": "d:p1 v2:r quiet"},
        {"causal": (1, 0)},
    ),
    (
        "the same through a fifo message, which need not have waited for its past",
        {"q": "s1 d:q1 crash", "p": "d:q1 s1~fifo crash", "r": "d:p1~fifo s1 d:r1 v2:r quiet"},
        {},
    ),
    (
        "but the fifo message itself is owed",
        {"p": "s1~fifo crash", "q": "d:p1~fifo s1 d:q1 crash", "r": "d:q1 v2:r quiet"},
        {"causal": (1, 0)},
    ),
    (
        "also by a further step",
        {"p": "s1~fifo crash", "q": "d:p1~fifo s1 d:q1 crash", "r": "d:q1 s1 d:r1 v2:r quiet"},
        {"causal": (2, 0)},
    ),
    (
        "and what the sender of the fifo message told of by another way",
        {"q": "s1 d:q1 crash", "p": "d:q1 s1~fifo s2 crash", "r": "d:p1~fifo d:p2 s1 d:r1 v2:r quiet"},
        {"causal": (2, 0)},
    ),
    (
        "what is not lost is owed through fifo messages too",
        {
            "q": "s1 d:q1 crash",
            "p": "d:q1 s1~fifo crash",
            "r": "d:p1~fifo s1 d:q1 d:r1 v2:rs quiet",
            "s": "d:p1~fifo d:r1 d:q1 v2:rs quiet",
        },
        {"causal": (1, 0)},
    ),
    (
        "what its sender sent in a view that it completed is not lost",
        {
            "q": "s1 d:q1 v2:pqr crash",
            "p": "d:q1 s1~fifo v2:pqr crash",
            "r": "d:p1~fifo s1 d:r1 v2:pqr v3:r quiet",
        },
        {"causal": (1, 0), "view_synchrony": (5, 0)},
    ),
    (
        "nor what it sent in an earlier view than its last, even if nobody who completed that view has it",
        {"q": "s1 v2:pqr crash", "p": "d:q1 s1~fifo crash", "r": "d:p1~fifo s1 d:r1 v2:pqr quiet"},
        {"causal": (1, 0), "view_synchrony": (2, 0)},
    ),
    (
        "own messages in a row, the first of which is lost",
        {"p": "s1~reliable s2 crash", "q": "d:p2 v2:q quiet"},
        {"fifo": (1, 0), "causal": (1, 0)},
    ),
    (
        "a lost burst, of which a fifo message tells one half, and a causal one the other",
        {
            "p": "s1-4 crash",
            "q": "d:p1-2 s1~fifo crash",
            "r": "d:p1-4 s1 crash",
            "s": "d:q1~fifo s1 d:s1 v2:st quiet",
            "t": "d:q1~fifo d:s1 d:r1 v2:st quiet",
        },
        {"causal": (1, 0), "view_synchrony": (1, 0), "settled": (1, 0)},
    ),
    (
        "in a later view",
        {
            "q": "s1 d:q1 crash",
            "p": "d:q1 s1~fifo crash",
            "r": "d:p1~fifo v2:rs s1 d:r1 quiet",
            "s": "d:p1~fifo v2:rs d:r1 quiet",
        },
        {},
    ),
]
CASES = [*LEAVING, *TO_ONE, *SEVERAL_GROUPS, *LOST]
IDS = [case[0] for case in CASES]


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in CASES], ids=IDS)
def test_counts(lines: Lines, expected: Expected) -> None:
    result = reference.audit(make_rows(promises=ALL, **lines))
    assert {f.guarantee: (f.violations, f.unknown) for f in result.findings if f.violations or f.unknown} == expected
    for finding in result.findings:
        assert (finding.example is not None) == (finding.verdict == BROKEN)


@pytest.mark.parametrize("lines", [case[1] for case in CASES], ids=IDS)
@pytest.mark.parametrize("piece_rows", [1, 2, 100])
def test_the_vectorised_checks_count_the_same(lines: Lines, piece_rows: int) -> None:
    rows = make_rows(promises=ALL, **lines)
    assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def test_a_delivery_that_was_meant_for_another_in_words() -> None:
    result = reference.audit(make_rows(promises="creation", p="s1>q quiet", q="d:p1 quiet", r="d:p1 quiet"))
    example = result.findings[0].example
    assert example is not None
    assert (example.text, example.events) == (
        "r delivered p#1, which p sent to q only",
        (("p/1", 2), ("r/1", 2)),
    )


def test_who_noted_that_it_left_the_group_counts_for_the_majority() -> None:
    lines = {"p": "{} quiet", "q": "v2:q quiet"}
    for note, violations in (("out@g", 0), ("out@h", 1), ("leaves", 0)):
        spoken = {name: line.format(note) for name, line in lines.items()}
        rows = make_rows(promises="primary", **spoken)
        assert reference.audit(rows).findings[0].violations == violations


@pytest.mark.spark
def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All cases at once, each as a run."""
    rows = [
        replace(row, run=f"{case:02}")
        for case, (_, lines, _) in enumerate(CASES)
        for row in make_rows(promises=ALL, **lines)
    ]
    pq.write_table(table_of(rows), tmp_path / "all.parquet", row_group_size=30)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings
