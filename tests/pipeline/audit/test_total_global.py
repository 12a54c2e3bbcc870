"""total_pairwise, total_global and the level causal-total, by both auditors, on short histories and on random ones."""

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN, UNCHECKED
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

PROMISES = "total total_pairwise total_global"
Lines = dict[str, str]
CASES: list[tuple[str, Lines, dict[str, int]]] = [
    (
        "one order over two groups",
        {"p": "s1@a~agreed s1@b~agreed d:p1@a~agreed d:p1@b~agreed quiet", "q": "d:p1@a~agreed d:p1@b~agreed quiet"},
        {},
    ),
    (
        "two groups in opposite orders, each in order",
        {"p": "s1@a~agreed s1@b~agreed d:p1@a~agreed d:p1@b~agreed quiet", "q": "d:p1@b~agreed d:p1@a~agreed quiet"},
        {"total_pairwise": 1, "total_global": 1},
    ),
    (
        "a ring of three (hole a): no two processes differ, and there is no order",
        {
            "p": "s1@a~agreed s1@b~agreed s1@c~agreed d:p1@c~agreed d:p1@a~agreed quiet",
            "q": "d:p1@a~agreed d:p1@b~agreed quiet",
            "r": "d:p1@b~agreed d:p1@c~agreed quiet",
        },
        {"total_global": 1},
    ),
    (
        "who reads each group apart is promised the order of each group",
        {"p": "s1@a~agreed s1@b~agreed d:p1@a~agreed d:p1@b~agreed quiet",
         "q": "apart d:p1@b~agreed d:p1@a~agreed quiet"},
        {},
    ),
    (
        "and the order between groups up to there",
        {"p": "s1@a~agreed s1@b~agreed d:p1@a~agreed d:p1@b~agreed quiet",
         "q": "d:p1@b~agreed d:p1@a~agreed apart quiet"},
        {"total_pairwise": 1, "total_global": 1},
    ),
    (
        "within each group it is held to the order of the others",
        {"p": "s1-2@a~agreed s1@b~agreed d:p1@a~agreed d:p2@a~agreed d:p1@b~agreed quiet",
         "q": "apart d:p1@b~agreed d:p2@a~agreed d:p1@a~agreed quiet"},
        {"total": 1, "total_pairwise": 1, "total_global": 1},
    ),
    (
        "rows of several messages: every message of one with every message of the other",
        {
            "p": "s1-2@a~agreed s1-3@b~agreed d:p1-2@a~agreed d:p1-3@b~agreed quiet",
            "q": "d:p1-3@b~agreed d:p1-2@a~agreed quiet",
        },
        {"total_pairwise": 6, "total_global": 1},
    ),
    (
        "causal and causal-total messages of two groups may come in any order",
        {
            "p": "s1@a~causal-total s1@b~causal d:p1@a~causal-total d:p1@b~causal quiet",
            "q": "d:p1@b~causal d:p1@a~causal-total quiet",
        },
        {},
    ),
    (
        "causal-total messages of one group may not",
        {"p": "s1~causal-total d:p1~causal-total d:q1~causal-total quiet",
         "q": "s1~causal-total d:q1~causal-total d:p1~causal-total quiet"},
        {"total": 1},
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
    """Processes that deliver the same messages of three groups, nearly in one order, in rows of one or two."""
    random = Random(seed)
    sent = [(random.choice("pq"), random.choice("abc"), random.choice((1, 2))) for _ in range(random.randint(2, 8))]
    words: dict[str, list[str]] = {name: [] for name in "pqr"}
    last: dict[tuple[str, str], int] = {}
    messages = []
    for sender, group, size in sent:
        first = last.get((sender, group), 0) + 1
        last[sender, group] = first + size - 1
        level = random.choice(("agreed", "agreed", "safe", "causal-total"))
        span = f"{first}-{first + size - 1}@{group}~{level}"
        words[sender].append(f"s{span}")
        messages.append(f"d:{sender}{span}")
    for name in words:
        own = [message for message in messages if random.random() < 0.8]
        for _ in range(random.choice((0, 0, 1, 2))):
            if len(own) > 1:
                place = random.randrange(len(own) - 1)
                own[place], own[place + 1] = own[place + 1], own[place]
        words[name] += [*own, random.choice(("quiet", "quiet", "quiet", "crash", "stop", ""))]
    return {name: " ".join(own) for name, own in words.items()}


@pytest.mark.parametrize("start", range(0, 24, 12))
def test_random_histories_are_counted_alike(start: int) -> None:
    broken = 0
    for seed in range(start, start + 12):
        rows = rows_of(random_lines(seed))
        expected = counts_of(reference.audit(rows))
        assert count(rows, piece_rows=seed % 4 + 1) == expected, seed
        broken += expected["total_pairwise"][0] > 0
    assert broken > 0


def test_the_example_tells_both_orders() -> None:
    (finding,) = [one for one in reference.audit(rows_of(CASES[1][1])).findings if one.guarantee == "total_pairwise"]
    assert finding.example is not None
    assert finding.example.text == "p delivered p#1 of a before p#1 of b, q after it"


def test_where_nothing_is_agreed_nothing_is_checked() -> None:
    found = reference.audit(rows_of({"p": "s1 d:p1 quiet"})).findings
    assert {one.verdict for one in found} == {UNCHECKED}


@pytest.mark.spark
def test_spark_finds_and_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for place, case in enumerate(CASES) for row in make_rows(f"r{place}", promises=PROMISES, **case[1])]
    pq.write_table(table_of(rows), tmp_path / "history.parquet")
    found, expected = audit(tmp_path, spark), reference.audit(rows)
    assert found.findings == expected.findings
    assert [one.verdict for one in found.findings] == [BROKEN] * 3
