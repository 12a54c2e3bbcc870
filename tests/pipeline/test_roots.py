"""Root causes: what many violations come down to, the same in both auditors."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.pipeline import reference
from antiphon.pipeline.document import audit_document
from antiphon.pipeline.roots import fewer_names, series
from tests.pipeline.corruption import CORRUPTIONS, OF_LOSS, OF_ORDER, Corrupt
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import count, counts_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.pipeline.test_reference_equality import result_of
from tests.sampling import fewer

VIEWS = "view_agreement view_synchrony primary silence view_sending"

CASES = {
    "100 deliveries before one late message": (
        {"p": "s1 d:p1 quiet", "q": "d:p1 s1-100 d:q1-100 quiet", "r": "d:q1-100 d:p1 quiet"},
        "causal",
        (100, 1),
    ),
    "the same at two processes": (
        {
            "p": "s1 d:p1 quiet",
            "q": "d:p1 s1-50 d:q1-50 quiet",
            "r": "d:q1-50 d:p1 quiet",
            "t": "d:q1-50 d:p1 quiet",
        },
        "causal",
        (100, 1),
    ),
    "row by row, whichever way they are cut": (
        {"p": "s1 d:p1 quiet", "q": "d:p1 s1 s2 s3 d:q1-3 quiet", "r": "d:q1 d:q2-3 d:p1 quiet"},
        "causal",
        (3, 1),
    ),
    "two late messages": (
        {"p": "s1 s2 d:p1-2 quiet", "q": "d:p1-2 s1-9 d:q1-9 quiet", "r": "d:q1-5 d:p1 d:q6-9 d:p2 quiet"},
        "causal",
        (9, 2),
    ),
    "a gap in one sender's messages": (
        {"p": "s1-9 d:p1-9 quiet", "q": "d:p1 d:p3-9 d:p2 quiet"},
        "fifo",
        (7, 1),
    ),
    "a cause in another group": (
        {"p": "s1 d:p1 quiet", "q": "d:p1 s1-7@h d:q1-7@h quiet", "r": "d:q1-7@h d:p1 quiet"},
        "causal",
        (7, 1),
    ),
    "one message delivered five times": ({"p": "s1 d:p1 d:p1 d:p1 d:p1 d:p1 quiet"}, "duplication", (4, 1)),
    "two messages delivered twice": ({"p": "s1-2 d:p1-2 d:p1-2 quiet"}, "duplication", (2, 2)),
    "one message that nobody sent, delivered by two": ({"p": "d:p1 quiet", "q": "d:p1 quiet"}, "creation", (2, 1)),
    "one message that three lack": (
        {"p": "s1 d:p1 quiet", "q": "quiet", "r": "quiet", "t": "quiet"},
        "settled",
        (3, 1),
    ),
    "one process that lacks nine messages": ({"p": "s1-9 d:p1-9 quiet", "q": "quiet"}, "settled", (9, 1)),
    "one sender that should be silent": (
        {"p": "v2:pq d:r1-3 quiet", "q": "v2:pq d:r1-3 quiet", "r": "s1-3 d:r1-3 crash"},
        "silence",
        (6, 1),
    ),
    "one process with other members in two views": (
        {"p": "v2:pq v3:pqr quiet", "q": "v2:pq v3:pqr quiet", "r": "v2:qpr v3:qpr quiet"},
        "view_agreement",
        (2, 1),
    ),
    "a fork that goes on": (
        {"p": "v2:pq v3:pq quiet", "q": "v2:pq v3:pq quiet", "r": "v2:rt v3:rt quiet", "t": "v2:rt v3:rt quiet"},
        "primary",
        (2, 1),
    ),
}


@pytest.mark.parametrize("piece_rows", [1, 3, 100])
@pytest.mark.parametrize("words", CASES)
def test_violations_come_down_to_few_causes(words: str, piece_rows: int) -> None:
    lines, guarantee, expected = CASES[words]
    rows = make_rows(promises=guarantee, **lines)
    audit = reference.audit(rows)
    assert (audit.findings[0].violations, audit.findings[0].roots) == expected
    assert count(rows, piece_rows=piece_rows) == counts_of(audit)


def test_the_document_tells_them() -> None:
    rows = make_rows(promises="fifo", p="s1-9 d:p1-9 quiet", q="d:p1 d:p3-9 d:p2 quiet")
    assert audit_document(reference.audit(rows))["guarantees"]["fifo"]["roots"] == 1


@fewer(3)
@given(
    st.integers(0, 10**9),
    st.sampled_from([1, 4, 1000]),
    st.sampled_from([CORRUPTIONS, OF_ORDER, OF_LOSS]),
)
def test_both_auditors_find_as_many_and_never_more_than_violations(
    seed: int, piece_rows: int, ways: tuple[Corrupt, ...]
) -> None:
    rows = make_spoiled_rows(Random(seed), 5, ways)
    expected = result_of(lambda: counts_of(reference.audit(rows, PROMISES)))
    assert result_of(lambda: count(rows, piece_rows=piece_rows, promise=PROMISES)) == expected
    if not isinstance(expected, str):
        for violations, _, _, roots in expected.values():
            assert bool(violations) <= roots <= violations


def test_spoiled_histories_have_fewer_causes_than_violations() -> None:
    """Else the test above would hold for an auditor that counts violations twice."""
    fewer: set[str] = set()
    for seed in range(120):
        rows = make_spoiled_rows(Random(seed), 5)
        counts = result_of(lambda rows=rows: counts_of(reference.audit(rows, PROMISES)))  # type: ignore[misc]
        if not isinstance(counts, str):
            fewer |= {guarantee for guarantee, (violations, _, _, roots) in counts.items() if roots < violations}
    assert fewer >= {"creation", "fifo", "causal", "settled", "view_synchrony", "silence"}


def test_the_two_rules_that_are_shared() -> None:
    assert fewer_names({1, 2, 3}, {"a"}) == 1
    assert fewer_names((), ()) == 0
    assert series([]) == 0
    assert series([7, 3, 4, 5, 9, 8]) == 2
