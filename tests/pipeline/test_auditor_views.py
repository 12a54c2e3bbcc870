"""The guarantees about views, by both auditors, on histories short enough to judge by eye.

Each case says what is counted: violations and unknown, by guarantee, where they are not 0.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.schema import Row
from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN
from tests.pipeline.histories import VIEW_PROMISES
from tests.pipeline.inprocess import count, counts_of, table_of
from tests.pipeline.script import make_rows

Lines = dict[str, str]
Expected = dict[str, tuple[int, int]]

ONE_LOG_OPEN: Expected = dict.fromkeys(VIEW_PROMISES, (0, 1))

CASES: list[tuple[str, Lines, Expected]] = [
    ("one view for good", {"p": "s1 d:p1 quiet", "q": "d:p1 quiet"}, {}),
    (
        "one is dropped, and what the others have of it is the same",
        {"p": "s1-2 crash", "q": "d:p1 v2:qr s1 d:q1 quiet", "r": "d:p1 v2:qr d:q1 quiet"},
        {},
    ),
    (
        "one joins; what came before its first view is nobody's concern",
        {"p": "s1 d:p1 v2:pq s2 d:p2 quiet", "q": "joins v2:pq d:p2 quiet"},
        {},
    ),
    (
        "agreement: other members",
        {"p": "v2:pqr quiet", "q": "v2:pq quiet", "r": "v2:pqr quiet"},
        {"view_agreement": (1, 0), "primary": (1, 0)},
    ),
    (
        "agreement: another ranking",
        {"p": "v2:pq quiet", "q": "v2:qp quiet"},
        {"view_agreement": (1, 0), "primary": (1, 0)},
    ),
    ("agreement: ids fall", {"p": "v3:p v2:p quiet", "q": "left"}, {"view_agreement": (1, 0)}),
    ("agreement: an id stays", {"p": "v2:p v2:p quiet", "q": "left"}, {"view_agreement": (1, 0)}),
    ("agreement: in another's view", {"p": "v2:q quiet", "q": "v2:q quiet", "r": "left"}, {"view_agreement": (1, 0)}),
    (
        "agreement: a log cut short leaves its later views open",
        {"p": "v2:pq quiet", "q": ""},
        ONE_LOG_OPEN,
    ),
    (
        "sending: delivered one view late",
        {"p": "s1-2 v2:pq d:p1-2 quiet", "q": "v2:pq d:p1-2 quiet"},
        {"view_sending": (4, 0)},
    ),
    (
        "sending: the row names the view in which it was sent, but the process is in the next",
        {"p": "s1 v2:pq d:p1%1 quiet", "q": "v2:pq d:p1%1 quiet"},
        {"view_sending": (2, 0)},
    ),
    (
        "sending: the row names another view than the process is in",
        {"p": "s1 d:p1%2 v2:pq quiet", "q": "d:p1 v2:pq quiet"},
        {"view_sending": (1, 0)},
    ),
    ("sending: before its first view", {"p": "s1 d:p1 quiet", "q": "joins d:p1 quiet"}, {"view_sending": (1, 0)}),
    (
        "sending: one who was never a member sends in no view",
        {"p": "joins s1 quiet", "q": "v2:qr d:p1%2 quiet", "r": "v2:qr d:p1%2 quiet"},
        {},
    ),
    (
        "sending: off record",
        {"p": "s1 d:p1", "q": "d:p1 d:p2-3 quiet"},
        ONE_LOG_OPEN | {"view_sending": (0, 3)},
    ),
    (
        "sending, silence, synchrony: what was never sent is nobody's concern",
        {"p": "crash", "q": "d:p2 v2:qr d:p1 quiet", "r": "v2:qr quiet"},
        {},
    ),
    (
        "synchrony: two of three messages are missing at one of two",
        {"p": "s1-3 d:p1-3 v2:pq quiet", "q": "d:p2 v2:pq quiet"},
        {"view_synchrony": (2, 0)},
    ),
    (
        "synchrony: each lacks what the other has",
        {"p": "s1 d:p1 v2:pq quiet", "q": "s1 d:q1 v2:pq quiet"},
        {"view_synchrony": (2, 0)},
    ),
    (
        "synchrony: delivered by both, but by one in the next view",
        {"p": "s1 d:p1 v2:pq quiet", "q": "v2:pq d:p1%1 quiet"},
        {"view_synchrony": (1, 0), "view_sending": (1, 0)},
    ),
    (
        "synchrony: who crashes in a view may lack what the others have",
        {"p": "s1 d:p1 v2:pq quiet", "q": "d:p1 v2:pq quiet", "r": "crash"},
        {},
    ),
    (
        "synchrony: who goes to another view next may have something else",
        {"p": "s1 d:p1 v2:pq v3:pqr quiet", "q": "d:p1 v2:pq v3:pqr quiet", "r": "v3:pqr quiet"},
        {},
    ),
    ("synchrony: a message to q alone", {"p": "s1>q v2:pq quiet", "q": "d:p1 v2:pq quiet"}, {}),
    (
        "synchrony: who is cut short in the view before leaves it open",
        {"p": "s1 d:p1 v2:pqr quiet", "q": "d:p1 v2:pqr quiet", "r": "d:p1"},
        ONE_LOG_OPEN,
    ),
    (
        "synchrony: off record is no excuse where both have gone on",
        {"p": "", "q": "d:p1 v2:qr quiet", "r": "v2:qr quiet"},
        ONE_LOG_OPEN | {"view_synchrony": (1, 1), "view_sending": (0, 2)},
    ),
    (
        "silence: after the view that drops p",
        {"p": "s1-3 crash", "q": "d:p1 v2:qr d:p2-3%1 quiet", "r": "d:p1 v2:qr quiet"},
        {"silence": (2, 0), "view_sending": (2, 0)},
    ),
    (
        "silence: not only in the first view without p",
        {"p": "s1 crash", "q": "v2:qr v3:qr d:p1%1 quiet", "r": "v2:qr v3:qr quiet"},
        {"silence": (1, 0), "view_sending": (1, 0)},
    ),
    (
        "silence: not of one who was never in a view of the process",
        {"p": "s1 leaves crash", "q": "v2:q v3:qr quiet", "r": "joins v3:qr d:p1%1 quiet"},
        {"view_sending": (1, 0)},
    ),
    (
        "silence: not of one who is back",
        {"p": "s1 v2:pq v4:pq s2 d:p2 quiet", "q": "v2:pq v3:q v4:pq d:p2 quiet", "r": "left"},
        {"primary": (1, 0)},
    ),
    ("primary: half is enough with the oldest", {"p": "v2:p quiet", "q": "crash"}, {}),
    ("primary: half is not enough without it", {"p": "crash", "q": "v2:q quiet"}, {"primary": (1, 0)}),
    ("primary: half is enough if the oldest announced leaving", {"p": "leaves crash", "q": "v2:q quiet"}, {}),
    ("primary: all but one left", {"p": "left", "q": "left", "r": "v2:r quiet"}, {}),
    (
        "primary: a minority goes on, and on",
        {"p": "v2:p v3:p quiet", "q": "crash", "r": "crash"},
        {"primary": (1, 0)},
    ),
    (
        "primary: both halves of a partition go on",
        {"p": "v2:pq quiet", "q": "v2:pq quiet", "r": "v2:r quiet"},
        {"primary": (1, 0), "view_agreement": (1, 0)},
    ),
    ("primary: a view is left out", {"p": "v3:pq quiet", "q": "v3:pq quiet"}, {"primary": (1, 0)}),
    (
        "primary: a view is left out, but somebody's record is cut short",
        {"p": "v3:pq quiet", "q": "v3:pq quiet", "r": ""},
        ONE_LOG_OPEN | {"primary": (0, 2)},
    ),
    (
        "primary: the one that is missing may have left, but its record is cut short",
        {"p": "", "q": "v2:q quiet"},
        ONE_LOG_OPEN | {"primary": (0, 2)},
    ),
    (
        "primary: even if it left, there is no majority",
        {"p": "crash", "q": "crash", "r": "", "s": "v2:s quiet"},
        ONE_LOG_OPEN | {"primary": (1, 1)},
    ),
    (
        "primary: the first view on record may have any id",
        {"p": "joins v7:pq v8:p quiet", "q": "joins v7:pq quiet"},
        {},
    ),
]


def view_rows(lines: Lines) -> list[Row]:
    return make_rows(promises=" ".join(VIEW_PROMISES), **lines)


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_counts(lines: Lines, expected: Expected) -> None:
    result = reference.audit(view_rows(lines))
    assert {f.guarantee: (f.violations, f.unknown) for f in result.findings if f.violations or f.unknown} == expected
    assert result.verdict == (
        BROKEN if any(broken for broken, _ in expected.values()) else UNKNOWN if expected else KEPT
    )
    for finding in result.findings:
        assert (finding.example is not None) == (finding.verdict == BROKEN)
        assert (finding.reason is not None) == (finding.unknown > 0 or finding.verdict == UNCHECKED)


@pytest.mark.parametrize("lines", [case[1] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("piece_rows", [1, 2, 100])
def test_the_vectorised_checks_count_the_same(lines: Lines, piece_rows: int) -> None:
    rows = view_rows(lines)
    assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def test_what_is_looked_at() -> None:
    rows = view_rows({"p": "s1-3 d:p1-3 v2:pq v3:pq s4 d:p4 quiet", "q": "d:p1-3 v2:pq v3:pq d:p4 quiet", "r": "crash"})
    assert {f.guarantee: f.checked for f in reference.audit(rows).findings} == {
        "view_agreement": 7,  # view rows
        "view_synchrony": 6,  # messages and processes, in the step from 1 to 2
        "view_sending": 8,  # deliveries
        "primary": 3,  # views
        "silence": 2,  # deliveries after a view that dropped r
    }


def test_a_new_incarnation_is_not_held_to_the_silence_of_the_one_before() -> None:
    rows = view_rows({"p": "s1 crash", "q": "v2:qr d:p1%1 quiet", "r": "v2:qr quiet"})
    assert _violations(rows)["silence"] == 1
    back = [replace(row, sender_incarnation=2) if row.kind == "deliver" else row for row in rows]
    assert _violations(back)["silence"] == 0


def test_each_group_is_held_to_its_own_promises() -> None:
    lines = {"p": "v2:p quiet", "q": "v2:q quiet"}
    promising = make_rows(run="one", promises="primary", **lines)
    other = make_rows(run="two", promises="view_agreement", **lines)
    assert _violations(promising) == {"primary": 1}
    assert _violations(promising + other) == {"view_agreement": 1, "primary": 1}


def _violations(rows: list[Row]) -> dict[str, int]:
    return {finding.guarantee: finding.violations for finding in reference.audit(rows).findings}


EXAMPLES: list[tuple[str, Lines, str, tuple[tuple[str, int], ...]]] = [
    (
        "view_agreement",
        {"p": "v2:pq quiet", "q": "v2:qp quiet"},
        "q has q, p in view 2 of g, but p has other members or another ranking",
        (("p/1", 2), ("q/1", 2)),
    ),
    (
        "view_agreement",
        {"p": "v3:p v2:p quiet"},
        "p goes from view 3 of g to view 2, which is no later one",
        (("p/1", 2), ("p/1", 3)),
    ),
    (
        "view_agreement",
        {"p": "v2:q quiet", "q": "quiet"},
        "p is not among q, the members of its own view 2 of g",
        (("p/1", 2),),
    ),
    (
        "view_sending",
        {"p": "s1 v2:pq d:p1 quiet", "q": "quiet"},
        "p delivered p#1 in view 2, but p sent it in view 1",
        (("p/1", 2), ("p/1", 4)),
    ),
    (
        "view_sending",
        {"p": "s1 d:p1%4 quiet"},
        "p delivered p#1 in view 4, but p sent it in view 1",
        (("p/1", 2), ("p/1", 3)),
    ),
    (
        "view_sending",
        {"p": "s1 quiet", "q": "joins d:p1 quiet"},
        "q delivered p#1 before its first view, but p sent it in view 1",
        (("p/1", 2), ("q/1", 2)),
    ),
    (
        "view_synchrony",
        {"p": "s1-9 d:p1-9 v2:pq quiet", "q": "d:p1-6 v2:pq quiet"},
        "p and q both went from view 1 to 2, but q did not deliver p#7 in view 1",
        (("p/1", 3), ("p/1", 4), ("q/1", 3)),
    ),
    (
        "silence",
        {"p": "s1 crash", "q": "v2:q d:p1 quiet"},
        "q delivered p#1 in view 2, which no longer holds p",
        (("q/1", 2), ("q/1", 3)),
    ),
    (
        "primary",
        {"p": "v2:p quiet", "q": "crash", "r": "crash"},
        "view 2 of g holds only 1 of the 3 members of view 1",
        (("p/1", 1), ("p/1", 2)),
    ),
    (
        "primary",
        {"p": "v2:p quiet", "q": "v2:q quiet"},
        "view 2 of g exists twice: with p, and with q",
        (("p/1", 2), ("q/1", 2)),
    ),
    (
        "primary",
        {"p": "v3:p quiet"},
        "view 3 of g follows no view: nobody was in view 2",
        (("p/1", 2),),
    ),
]


@pytest.mark.parametrize(("guarantee", "lines", "text", "events"), EXAMPLES)
def test_examples_in_words(guarantee: str, lines: Lines, text: str, events: tuple[tuple[str, int], ...]) -> None:
    finding = next(f for f in reference.audit(view_rows(lines)).findings if f.guarantee == guarantee)
    assert finding.example is not None
    assert (finding.example.text, finding.example.events) == (text, events)


@pytest.mark.spark
def test_spark_finds_and_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All cases at once, each as a run."""
    rows = [replace(row, run=f"{case:02}") for case, (_, lines, _) in enumerate(CASES) for row in view_rows(lines)]
    pq.write_table(table_of(rows), tmp_path / "all.parquet", row_group_size=30)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings


@pytest.mark.spark
@pytest.mark.parametrize("place", [2, 5, 6, 8])
def test_spark_tells_the_same_examples(spark: SparkSession, tmp_path: Path, place: int) -> None:
    _, lines, _, _ = EXAMPLES[place]
    pq.write_table(table_of(view_rows(lines)), tmp_path / "all.parquet", row_group_size=2)
    assert audit(tmp_path, spark).findings == reference.audit(tmp_path).findings
