"""Labels: total of level abcast, one order for each label, and label_order, by both auditors, on short and random
histories."""

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import Row
from antiphon.kernel.functions import register_comparison
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN, UNKNOWN
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

PROMISES = "total label_order fifo causal"
Lines = dict[str, str]
A, R = "~abcast", "~reliable"
CASES: list[tuple[str, Lines, dict[str, int]]] = [
    (
        "abcasts of one label in two orders",
        {"p": f"s1{A}[red] d:p1{A} d:q1{A} quiet", "q": f"s1{A}[red] d:q1{A} d:p1{A} quiet"},
        {"total": 1},
    ),
    (
        "abcasts of two labels in two orders",
        {"p": f"s1{A}[red] d:p1{A} d:q1{A} quiet", "q": f"s1{A}[blue] d:q1{A} d:p1{A} quiet"},
        {},
    ),
    (
        "no label is a label",
        {"p": f"s1{A} d:p1{A} d:q1{A} quiet", "q": f"s1{A} d:q1{A} d:p1{A} quiet"},
        {"total": 1},
    ),
    (
        "who crashes in the view may have its own order",
        {"p": f"s1{A}[red] d:p1{A} d:q1{A} crash", "q": f"s1{A}[red] d:q1{A} d:p1{A} quiet"},
        {},
    ),
    (
        "a ring of three, of which no two processes differ",
        {
            "p": f"s1-2{A}[red] s3{A}[red] d:p3{A} d:p1{A} quiet",
            "q": f"d:p1{A} d:p2{A} quiet",
            "r": f"d:p2{A} d:p3{A} quiet",
        },
        {"total": 1},
    ),
    (
        "a row of deliveries over several labels",
        {"p": f"s1{A}[red] s2{A}[blue] d:p1-2{A} d:q1{A} quiet", "q": f"s1{A}[blue] d:q1{A} d:p1-2{A} quiet"},
        {"total": 1},
    ),
    (
        "abcasts keep no order of their sender",
        {"p": f"s1{A}[red] s2{A}[blue] d:p1-2{A} quiet", "q": f"d:p2{A} d:p1{A} quiet"},
        {},
    ),
    (
        "A: a sender's own, by labels",
        {"p": f"s1{R}[clock=1] s2{R}[clock=2] d:p1-2{R} quiet", "q": f"d:p2{R} d:p1{R} quiet"},
        {"label_order": 1},
    ),
    (
        "labels that are not in the order of sending order nothing",
        {"p": f"s1{R}[clock=2] s2{R}[clock=1] d:p1-2{R} quiet", "q": f"d:p2{R} d:p1{R} quiet"},
        {},
    ),
    (
        "labels that are not comparable order nothing",
        {
            "p": f"s1{R}[vector=1,2] s2{R}[vector=2,1] s3{R}[clock=9] d:p1-3{R} quiet",
            "q": f"d:p3{R} d:p2{R} d:p1{R} quiet",
        },
        {},
    ),
    (
        "B: delivered at the sender before",
        {
            "p": f"s1{R}[clock=1] d:p1{R} d:q1{R} quiet",
            "q": f"d:p1{R} s1{R}[clock=3] d:q1{R} quiet",
            "r": f"d:q1{R} quiet",
        },
        {"label_order": 1},
    ),
    (
        "what the sender delivered afterwards does not precede",
        {
            "p": f"s1{R}[clock=1] d:p1{R} d:q1{R} quiet",
            "q": f"s1{R}[clock=3] d:p1{R} d:q1{R} quiet",
            "r": f"d:q1{R} d:p1{R} quiet",
        },
        {},
    ),
    (
        "a chain, whose middle the process does not get",
        {
            "p": f"s1{R}>r[clock=1] s2{R}>q[clock=2] quiet",
            "q": f"d:p2{R} s1{R}>r[clock=3] quiet",
            "r": f"d:q1{R} d:p1{R} quiet",
        },
        {"label_order": 1},
    ),
    (
        "a chain through a label that is not comparable is none",
        {
            "p": f"s1{R}>r[clock=1] s2{R}>q[none=x] quiet",
            "q": f"d:p2{R} s1{R}>r[clock=3] quiet",
            "r": f"d:q1{R} d:p1{R} quiet",
        },
        {},
    ),
    (
        "of a row of three, only what was delivered precedes",
        {"p": f"s1-3{R}[clock=1] d:p1-3{R} d:q1{R} quiet",
         "q": f"d:p1{R} s1{R}[clock=2] d:q1{R} d:p2-3{R} quiet",
         "r": f"d:p1{R} d:q1{R} d:p2-3{R} quiet"},
        {},
    ),
    (
        "two deliveries that lack the same message have one cause",
        {"p": f"s1{R}[clock=1] s2-3{R}[clock=2] d:p1-3{R} quiet", "q": f"d:p2-3{R} d:p1{R} quiet"},
        {"label_order": 2},
    ),
]  # fmt: skip
IDS = [case[0] for case in CASES]


def rows_of(lines: Lines) -> list[Row]:
    return make_rows(promises=PROMISES, **lines)


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in CASES], ids=IDS)
def test_counts(lines: Lines, expected: dict[str, int]) -> None:
    found = reference.audit(rows_of(lines)).findings
    assert {one.guarantee: one.violations for one in found if one.violations} == expected


@pytest.mark.parametrize("lines", [case[1] for case in CASES], ids=IDS)
@pytest.mark.parametrize("piece_rows", [1, 3, 100])
def test_the_vectorised_checks_count_the_same(lines: Lines, piece_rows: int) -> None:
    rows = rows_of(lines)
    assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def random_lines(seed: int) -> Lines:
    """Three processes that send with labels, deliver nearly in order, and sometimes end early or without a word."""
    random = Random(seed)
    words: dict[str, list[str]] = {name: [] for name in "pqr"}
    last = dict.fromkeys(words, 0)
    under_way: list[tuple[str, list[str]]] = []
    for clock in range(random.randint(3, 10)):
        sender = random.choice("pqr")
        size = random.choice((1, 1, 2, 3))
        first, last[sender] = last[sender] + 1, last[sender] + size
        level = random.choice((A, R))
        label = random.choice(
            (f"clock={clock}", f"clock={clock}", f"vector={clock},{random.randrange(2)}", "none=x", "mine=1")
        )
        label = random.choice(("red", "")) if level == A else label
        span = f"{first}-{first + size - 1}{level}"
        words[sender].append(f"s{span}[{label}]")
        under_way.append((f"d:{sender}{span}", [name for name in words if random.random() < 0.9]))
        for message, receivers in random.sample(under_way, random.randint(0, len(under_way))):
            for name in list(receivers):
                if random.random() < 0.7:
                    words[name].append(message)
                    receivers.remove(name)
    for message, receivers in under_way:
        for name in receivers:
            words[name].append(message)
    for own in words.values():
        own.append(random.choice(("quiet", "quiet", "quiet", "quiet", "crash", "stop", "")))
    return {name: " ".join(own) for name, own in words.items()}


def test_random_histories_are_counted_alike() -> None:
    broken = {"total": 0, "label_order": 0}
    for seed in range(20):
        rows = rows_of(random_lines(seed))
        expected = counts_of(reference.audit(rows))
        assert count(rows, piece_rows=seed % 4 + 1) == expected, seed
        for guarantee in broken:
            broken[guarantee] += expected[guarantee][0] > 0
    assert all(broken.values())


def test_a_comparison_that_the_auditor_does_not_know_leaves_it_unknown_until_it_does() -> None:
    lines = {"p": f"s1{R}[letter=b] s2{R}[letter=c] d:p1-2{R} quiet", "q": f"d:p2{R} d:p1{R} quiet"}
    (finding,) = [one for one in reference.audit(rows_of(lines)).findings if one.guarantee == "label_order"]
    assert finding.verdict == UNKNOWN
    assert "the comparison 'letter' of labels is not known here" in (finding.reason or "")
    register_comparison("letter", lambda one, other: one[0] - other[0])
    (finding,) = [one for one in reference.audit(rows_of(lines)).findings if one.guarantee == "label_order"]
    assert finding.verdict == BROKEN
    assert finding.example is not None
    assert finding.example.text == ("q delivered p#2 before p#1, although its label 'letter=b' precedes 'letter=c'")


@pytest.mark.spark
def test_spark_finds_and_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    cases = [*[case[1] for case in CASES], {"p": f"s1{R}[mine=1] d:p1{R} quiet"}, *map(random_lines, range(8))]
    rows = [row for place, case in enumerate(cases) for row in make_rows(f"r{place:02}", promises=PROMISES, **case)]
    pq.write_table(table_of(rows), tmp_path / "history.parquet")
    found, expected = audit(tmp_path, spark), reference.audit(rows)
    assert found.findings == expected.findings
