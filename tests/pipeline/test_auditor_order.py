"""total, safe and group_broadcast, by both auditors, on histories short enough to judge by eye.

Each case says what is counted: violations and unknown, by guarantee, where they are not 0.
"""

import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

Lines = dict[str, str]
Expected = dict[str, tuple[int, int]]

PROMISES = "total safe group_broadcast"
ONE_LOG_OPEN: Expected = dict.fromkeys(PROMISES.split(), (0, 1))


def agreed(line: str) -> str:
    """Every message of a line that names no level, and is no barrier, is agreed."""
    return re.sub(r"(?<!\S)(s\d|d:)[^\s~!]*(?=\s)", r"\g<0>~agreed", line + " ")


CASES: list[tuple[str, Lines, Expected]] = [
    (
        "total: the same order everywhere",
        {"p": "s1 d:p1 d:q1 quiet", "q": "s1 d:p1 d:q1 quiet"},
        {},
    ),
    (
        "total: two in opposite order",
        {"p": "s1 d:p1 d:q1 quiet", "q": "s1 d:q1 d:p1 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: other levels may come in any order",
        {"p": "s1~causal d:p1~causal d:q1 quiet", "q": "s1 d:q1 d:p1~causal quiet"},
        {},
    ),
    (
        "total: agreed and safe in one order",
        {"p": "s1~safe d:p1~safe d:q1 quiet", "q": "s1 d:q1 d:p1~safe quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: three in a circle, of which nobody delivered all",
        {"p": "s1 d:p1 d:q1 quiet", "q": "s1 d:q1 d:r1 quiet", "r": "s1 d:r1 d:p1 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: two sets, each counted once, however large",
        {
            "p": "s1-4 d:p1-2 d:q1 d:p3-4 d:q2 quiet",
            "q": "s1-2 d:q1 d:p1-2 d:q2 d:p3-4 quiet",
            "r": "d:p2 d:q1 d:p1 d:p3-4 d:q2 quiet",
        },
        {"total": (2, 0)},
    ),
    (
        "total: part of a row delivered in another order",
        {"p": "s1-5 d:p1-5 d:q1 quiet", "q": "s1 d:p1-2 d:q1 d:p3-5 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: who lacks some need not disagree",
        {"p": "s1 d:p1 d:q1 d:r1 quiet", "q": "s1 d:p1 d:r1 quiet", "r": "s1 d:q1 d:r1 quiet"},
        {},
    ),
    (
        "total: what the one who delivered most has not got may still be out of order",
        {"p": "s1-3 d:p1 d:q1 d:p2 quiet", "q": "s1 d:p3 d:p1 quiet", "r": "d:p1 d:p3 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: a second delivery is no order",
        {"p": "s1 d:p1 d:q1 d:p1 quiet", "q": "s1 d:p1 d:q1 quiet"},
        {},
    ),
    (
        "total: one order over several views, and for who joins",
        {"p": "s1 d:p1 v2:pq s2 d:p2 d:q1 quiet", "q": "joins v2:pq s1 d:p2 d:q1 quiet"},
        {},
    ),
    (
        "total: opposite order in different views",
        {"p": "s1 d:p1 v2:pq d:q1 quiet", "q": "s1 d:q1 v2:pq d:p1 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: who crashes in a view may have another order there",
        {"p": "s1 d:p1 d:q1 crash", "q": "s1 d:q1 d:p1 v2:qr quiet", "r": "d:q1 d:p1 v2:qr quiet"},
        {},
    ),
    (
        "total: also where others are out of order",
        {
            "p": "s1-2 d:p1 d:q1 crash",
            "q": "s1-2 d:q1 d:p1 d:p2 d:q2 v2:qr quiet",
            "r": "d:q1 d:p1 d:q2 d:p2 v2:qr quiet",
        },
        {"total": (1, 0)},
    ),
    (
        "total: but not in a view that it completed",
        {"p": "s1 d:p1 d:q1 v2:pqr crash", "q": "s1 d:q1 d:p1 v2:pqr quiet", "r": "d:q1 d:p1 v2:pqr quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: nor in one that it completed by leaving the group, or all",
        {"p": "s1 d:p1 d:q1 out@g crash", "q": "s1 d:q1 d:p1 left", "r": "d:q1 d:p1 quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: and not with what is safe",
        {"p": "s1~safe d:p1~safe d:q1~safe crash", "q": "s1~safe d:q1~safe d:p1~safe v2:q quiet"},
        {"total": (1, 0)},
    ),
    (
        "total: what is agreed in a view that a log leaves open is unknown",
        {"p": "s1-2 d:p1-2 d:q1", "q": "s1 d:q1 d:p1-2 quiet"},
        ONE_LOG_OPEN | {"total": (0, 4)},
    ),
    (
        "total: or that a process left early",
        {"p": "s1-2 d:p1-2 d:q1 stop", "q": "s1 d:q1 d:p1-2 quiet"},
        {"total": (0, 3)},
    ),
    (
        "total: what was never sent is nobody's concern",
        {"p": "s1 d:p1 d:q9 quiet", "q": "d:q9 d:p1 quiet"},
        {},
    ),
    (
        "total: of each group by itself",
        {"p": "s1 d:p1 d:q1@h quiet", "q": "s1@h d:q1@h d:p1 quiet"},
        {},
    ),
    (
        "safe: delivered by all",
        {"p": "s1-2~safe d:p1-2~safe quiet", "q": "d:p1~safe d:p2~safe quiet"},
        {},
    ),
    (
        "safe: two of three messages are missing at one",
        {"p": "s1-3~safe d:p1-3~safe quiet", "q": "d:p2~safe quiet"},
        {"safe": (2, 0)},
    ),
    (
        "safe: even if only one who crashed delivered it",
        {"p": "s1~safe d:p1~safe crash", "q": "v2:qr quiet", "r": "v2:qr quiet"},
        {"safe": (2, 0)},
    ),
    (
        "safe: who is not in the view need not have it",
        {"p": "s1~safe d:p1~safe v2:pq quiet", "q": "joins v2:pq quiet"},
        {},
    ),
    (
        "safe: nor who crashes, or left, or left the group",
        {"p": "s1~safe d:p1~safe quiet", "q": "crash", "r": "left", "s": "out@g quiet"},
        {},
    ),
    (
        "safe: unknown of those whose record is open, or who stopped early",
        {"p": "s1~safe d:p1~safe quiet", "q": "", "r": "stop"},
        ONE_LOG_OPEN | {"safe": (0, 3)},
    ),
    ("safe: a weaker message", {"p": "s1 d:p1 quiet", "q": "quiet"}, {}),
    ("safe: to q alone", {"p": "s1~safe>q quiet", "q": "d:p1~safe quiet"}, {}),
    (
        "group_broadcast: at the same place",
        {"p": "s1 s2! d:p1 d:q1 d:p2! v2:pq quiet", "q": "s1~fifo d:q1~fifo d:p1 d:p2! v2:pq quiet"},
        {},
    ),
    (
        "group_broadcast: two messages on the other side of it",
        {
            "p": "s1-2~causal s3! d:p1-2~causal d:p3! v2:pq quiet",
            "q": "d:p3! v2:pq d:p1-2~causal quiet",
        },
        {"group_broadcast": (2, 0)},
    ),
    (
        "group_broadcast: one of three, and even of one who crashed",
        {
            "p": "s1-3~causal d:p1-3~causal d:q1! crash",
            "q": "s1! d:p1-2~causal d:q1! v2:q d:p3~causal quiet",
        },
        {"group_broadcast": (1, 0)},
    ),
    (
        "group_broadcast: a message that one of them has not got",
        {"p": "s1~causal s2! d:p1~causal d:p2! quiet", "q": "d:p2! quiet"},
        {},
    ),
    (
        "group_broadcast: a message that comes after it to one who has it not before",
        {"p": "s1! d:p1! s2~causal d:p2~causal quiet", "q": "d:p1! d:p2~causal quiet", "r": "d:p1! quiet"},
        {},
    ),
    (
        "group_broadcast: two barriers in opposite order make two pairs",
        {"p": "s1! d:p1! d:q1! quiet", "q": "s1! d:q1! d:p1! quiet"},
        {"group_broadcast": (2, 0), "total": (1, 0)},
    ),
    (
        "group_broadcast: barriers are safe",
        {"p": "s1! d:p1! quiet", "q": "quiet"},
        {"safe": (1, 0)},
    ),
    (
        "group_broadcast: of each group by itself",
        {"p": "s1! s1@h~causal d:p1! d:p1@h~causal quiet", "q": "d:p1@h~causal d:p1! quiet"},
        {},
    ),
]
IDS = [case[0] for case in CASES]


def order_rows(lines: Lines) -> list[Row]:
    return make_rows(promises=PROMISES, **{name: agreed(line) for name, line in lines.items()})


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in CASES], ids=IDS)
def test_counts(lines: Lines, expected: Expected) -> None:
    result = reference.audit(order_rows(lines))
    assert {f.guarantee: (f.violations, f.unknown) for f in result.findings if f.violations or f.unknown} == expected
    assert result.verdict == (
        BROKEN if any(broken for broken, _ in expected.values()) else UNKNOWN if expected else KEPT
    )
    for finding in result.findings:
        assert (finding.example is not None) == (finding.verdict == BROKEN)
        assert (finding.reason is not None) == (finding.unknown > 0 or finding.verdict == UNCHECKED)


@pytest.mark.parametrize("lines", [case[1] for case in CASES], ids=IDS)
@pytest.mark.parametrize("piece_rows", [1, 2, 100])
def test_the_vectorised_checks_count_the_same(lines: Lines, piece_rows: int) -> None:
    rows = order_rows(lines)
    assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def test_what_is_looked_at() -> None:
    rows = order_rows({"p": "s1-3 s4! d:p1-3 d:p4! v2:pq quiet", "q": "d:p1-3 d:p4! v2:pq s1~causal d:q1~causal quiet"})
    assert {f.guarantee: f.checked for f in reference.audit(rows).findings} == {
        "total": 4,  # messages
        "safe": 2,  # messages and members: the barrier
        "group_broadcast": 4,  # pairs with the barrier
    }


EXAMPLES: list[tuple[str, Lines, str, tuple[tuple[str, int], ...]]] = [
    (
        "total",
        {"p": "s1-2 d:p1-2 d:q1 quiet", "q": "s1 d:q1 d:p1-2 quiet"},
        "p delivered p#1 before q#1, q after it",
        (("p/1", 3), ("p/1", 4), ("q/1", 3), ("q/1", 4)),
    ),
    (
        "total",
        {"p": "s1 d:p1 d:q1 quiet", "q": "s1 d:q1 d:r1 quiet", "r": "s1 d:r1 d:p1 quiet"},
        "p delivered p#1 before q#1, q q#1 before r#1, r r#1 before p#1",
        (("p/1", 3), ("p/1", 4), ("q/1", 3), ("q/1", 4), ("r/1", 3), ("r/1", 4)),
    ),
    (
        "safe",
        {"p": "s1-3~safe d:p1-3~safe quiet", "q": "d:p2~safe quiet"},
        "q never delivered p#1, although p delivered it as safe in view 1, which holds q",
        (("p/1", 3), ("q/1", 3)),
    ),
    (
        "group_broadcast",
        {"p": "s1-2~causal s3! d:p1-2~causal d:p3! v2:pq quiet", "q": "d:p1~causal d:p3! v2:pq d:p2~causal quiet"},
        "p delivered p#2 before the barrier p#3, q after it",
        (("p/1", 4), ("p/1", 5), ("q/1", 3), ("q/1", 5)),
    ),
]


@pytest.mark.parametrize(("guarantee", "lines", "text", "events"), EXAMPLES)
def test_examples_in_words(guarantee: str, lines: Lines, text: str, events: tuple[tuple[str, int], ...]) -> None:
    finding = next(f for f in reference.audit(order_rows(lines)).findings if f.guarantee == guarantee)
    assert finding.example is not None
    assert (finding.example.text, finding.example.events) == (text, events)


@pytest.mark.spark
def test_spark_finds_and_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All cases at once, each as a run."""
    rows = [replace(row, run=f"{case:02}") for case, (_, lines, _) in enumerate(CASES) for row in order_rows(lines)]
    pq.write_table(table_of(rows), tmp_path / "all.parquet", row_group_size=30)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings


@pytest.mark.spark
@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_spark_tells_the_same_examples(spark: SparkSession, tmp_path: Path, place: int) -> None:
    _, lines, _, _ = EXAMPLES[place]
    pq.write_table(table_of(order_rows(lines)), tmp_path / "all.parquet", row_group_size=2)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings
