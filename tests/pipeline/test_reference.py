"""The reference auditor on histories short enough to judge by eye.

Each case says what is counted: violations and unknown, by guarantee, where they are not 0.
"""

from dataclasses import replace

import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline import reference
from antiphon.pipeline.guarantees import CHECKED, GUARANTEES
from antiphon.pipeline.promises import UnknownGuaranteeError
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit
from tests.pipeline.histories import MESSAGE_PROMISES
from tests.pipeline.inprocess import count, counts_of
from tests.pipeline.script import make_logs, make_rows

Lines = dict[str, str]
Expected = dict[str, tuple[int, int]]

ALL_KEPT: list[Lines] = [
    {"p": "s1 d:p1 d:q1 quiet", "q": "d:p1 s1 d:q1 quiet"},
    {"p": "s1-3 d:p1-3 quiet", "q": "d:p1 d:p2-3 quiet"},
    # Concurrent messages may come in any order.
    {"p": "s1 d:p1 d:q1 quiet", "q": "s1 d:q1 d:p1 quiet"},
    # What is reliable only may come in any order; what is fifo need not respect other senders.
    {"p": "s1~reliable s2~reliable d:p2~reliable d:p1~reliable quiet", "q": "d:p2~reliable d:p1~reliable quiet"},
    {"p": "s1 d:p1 d:q1~fifo quiet", "q": "d:p1 s1~fifo d:q1~fifo quiet", "r": "d:q1~fifo d:p1 quiet"},
    # A message for q alone is owed to nobody else.
    {"p": "s1>q s2 d:p2 quiet", "q": "d:p1 d:p2 quiet"},
    # A crashed sender's message that no survivor has is owed to nobody.
    {"p": "s1 d:p1 crash", "q": "quiet", "r": "quiet"},
]


@pytest.mark.parametrize("lines", ALL_KEPT)
def test_kept(lines: Lines) -> None:
    audit = reference.audit(make_logs(**lines))
    assert audit.verdict == KEPT
    assert all(finding.verdict == (KEPT if finding.checked else UNCHECKED) for finding in audit.findings)


BROKEN_OR_UNKNOWN: list[tuple[str, Lines, Expected]] = [
    (
        "a number beyond a complete log was never sent, and is nobody's concern otherwise",
        {"p": "s1 d:p1 quiet", "q": "d:p1 d:p3-4 quiet"},
        {"creation": (2, 0)},
    ),
    (
        "a second delivery counts for each message in it",
        {"p": "s1-3 d:p1-3 d:p2-3 quiet", "q": "d:p1-3 quiet"},
        {"duplication": (2, 0)},
    ),
    (
        "fifo: a later message first; causal sees the same",
        {"p": "s1 s2 d:p1 d:p2 quiet", "q": "d:p2 d:p1 quiet"},
        {"fifo": (1, 0), "causal": (1, 0)},
    ),
    (
        "fifo: a gap counts against everything after it; settled against what is missing",
        {"p": "s1-4 d:p1-4 quiet", "q": "d:p1 d:p3-4 quiet"},
        {"fifo": (2, 0), "causal": (2, 0), "settled": (1, 0)},
    ),
    (
        "fifo holds what is fifo to what is reliable",
        {"p": "s1~reliable s2~fifo d:p1~reliable d:p2~fifo quiet", "q": "d:p2~fifo d:p1~reliable quiet"},
        {"fifo": (1, 0)},
    ),
    (
        "causal: an answer before the question",
        {"p": "s1 d:p1 d:q1 quiet", "q": "d:p1 s1 d:q1 quiet", "r": "d:q1 d:p1 quiet"},
        {"causal": (1, 0)},
    ),
    (
        "causal: through a chain over another group",
        {"p": "s1 d:p1 d:q1@h d:r1 quiet", "q": "d:p1 s1@h d:q1@h d:r1 quiet", "r": "d:q1@h s1 d:p1 d:r1 quiet"},
        {"causal": (1, 0)},  # r delivers q1@h before p1
    ),
    (
        "causal: the past of what a process had not itself delivered counts too",
        {
            "p": "s1 d:p1 d:q1~fifo d:r1 quiet",
            "q": "d:p1 s1~fifo d:q1~fifo d:r1 quiet",
            "r": "d:q1~fifo s1 d:p1 d:r1 quiet",
        },
        {},
    ),
    (
        "causal: the same, where it is broken",
        {
            "p": "s1 d:p1 d:q1~fifo d:r1 quiet",
            "q": "d:p1 s1~fifo d:q1~fifo d:r1 d:p1 quiet",
            "r": "d:q1~fifo s1 d:r1 d:p1 quiet",
        },
        {"causal": (1, 0), "duplication": (1, 0)},
    ),
    (
        "causal: a message in its own past",
        {"p": "d:q1 s1 d:p1 quiet", "q": "d:p1 s1 d:q1 quiet"},
        {"causal": (4, 0)},
    ),
    (
        "settled: a message that a survivor sent",
        {"p": "s1 d:p1 quiet", "q": "quiet"},
        {"settled": (1, 0)},
    ),
    (
        "settled: a crashed sender's message that one survivor has",
        {"p": "s1 crash", "q": "d:p1 quiet", "r": "quiet"},
        {"settled": (1, 0)},
    ),
    (
        "settled: what a process that stopped early has not got is unknown",
        {"p": "s1-2 d:p1-2 quiet", "q": "d:p1 stop"},
        {"settled": (0, 1)},
    ),
    (
        "settled: nobody has it, and its sender may have been well",
        {"p": "s1 d:p1 stop", "q": "quiet"},
        {"settled": (0, 1)},
    ),
    (
        "settled: the same, where the sender did not send it to itself",
        {"p": "s1>q stop", "q": "quiet"},
        {"settled": (0, 1)},
    ),
    (
        "settled: nobody has it, but one who may have it left early",
        {"p": "s1 crash", "q": "quiet", "r": "stop"},
        {"settled": (0, 2)},
    ),
    (
        "an open log leaves one delivery open under each guarantee, and what lies beyond its record",
        {"p": "s1 d:p1", "q": "d:p1 d:p2 quiet", "r": "d:p1 d:p2 quiet"},
        {
            "creation": (0, 3),
            "duplication": (0, 1),
            "fifo": (0, 1),
            "causal": (0, 3),
            "content": (0, 3),
            "settled": (0, 1),
        },
    ),
    (
        "off record: a gap there is unknown, one on record is not",
        {"p": "s1 d:p1", "q": "d:p3 d:p1 quiet", "r": "d:p1 d:p3 quiet"},
        {
            "creation": (0, 3),
            "duplication": (0, 1),
            "fifo": (1, 2),
            "causal": (1, 2),
            "content": (0, 3),
            "settled": (0, 1),
        },
    ),
    (
        "off record: a message in its own past, though only a later one of its sender is seen there",
        {"p": "d:q1", "q": "d:p2 s1 d:q1 quiet", "r": "d:q1 d:p1 quiet"},
        {
            "creation": (0, 3),
            "duplication": (0, 1),
            "fifo": (0, 2),
            "causal": (5, 1),
            "content": (0, 3),
            "settled": (0, 3),
        },
    ),
    (
        "off record: one survivor has it, another has not",
        {"p": "", "q": "d:p1 quiet", "r": "quiet"},
        {
            "creation": (0, 2),
            "duplication": (0, 1),
            "fifo": (0, 1),
            "causal": (0, 2),
            "content": (0, 2),
            "settled": (0, 2),
        },
    ),
    (
        "a member without a log",
        {"members": "z", "p": "s1 d:p1 quiet", "q": "d:p1 quiet"},
        {
            "creation": (0, 1),
            "duplication": (0, 1),
            "fifo": (0, 1),
            "causal": (0, 1),
            "content": (0, 1),
            "settled": (0, 2),
        },
    ),
]


@pytest.mark.parametrize(
    ("lines", "expected"), [case[1:] for case in BROKEN_OR_UNKNOWN], ids=[c[0] for c in BROKEN_OR_UNKNOWN]
)
def test_counts(lines: Lines, expected: Expected) -> None:
    audit = reference.audit(make_logs(**lines))
    found = {f.guarantee: (f.violations, f.unknown) for f in audit.findings if f.violations or f.unknown}
    assert found == expected
    assert audit.verdict == (
        BROKEN if any(broken for broken, _ in expected.values()) else UNKNOWN if expected else KEPT
    )
    for finding in audit.findings:
        assert (finding.example is not None) == (finding.verdict == BROKEN)
        assert (finding.reason is not None) == (finding.unknown > 0 or finding.verdict == UNCHECKED)


@pytest.mark.parametrize("lines", [*ALL_KEPT, *(case[1] for case in BROKEN_OR_UNKNOWN)])
@pytest.mark.parametrize("piece_rows", [1, 2, 100])
def test_the_vectorised_checks_count_the_same(lines: Lines, piece_rows: int) -> None:
    rows = make_rows(**lines)
    assert count(rows, piece_rows=piece_rows) == counts_of(reference.audit(rows))


def example(guarantee: str, **lines: str) -> str:
    finding = next(f for f in reference.audit(make_logs(**lines)).findings if f.guarantee == guarantee)
    assert finding.example is not None
    return finding.example.text


def test_examples_in_words() -> None:
    assert (
        example("creation", p="s1 d:p1 quiet", q="d:p1 d:p2 quiet") == "q delivered p#2, but p sent only 1 message to g"
    )
    assert example("duplication", p="s1 d:p1 d:p1 quiet") == "p delivered p#1 twice"
    assert example("fifo", p="s1 s2 d:p1 d:p2 quiet", q="d:p2 d:p1 quiet") == (
        "q delivered p#2 before p#1, although p sent #1 first"
    )
    assert example("settled", p="s1 d:p1 quiet", q="quiet") == "q never delivered p#1, although the run went quiet"
    assert example("causal", p="s1 d:p1 d:q1 quiet", q="d:p1 s1 d:q1 quiet", r="d:q1 d:p1 quiet") == (
        "r delivered q#1 before p#1, although q sent #1 after delivering p#1"
    )
    assert example("causal", p="s1 d:p1 d:q1 quiet", q="d:p1 s1 d:q1 quiet", r="d:q1 quiet") == (
        "r delivered q#1 but never p#1, although q sent #1 after delivering p#1"
    )
    assert example("causal", p="s1 d:p1 d:q1@h quiet", q="d:p1 s1@h d:q1@h quiet", r="d:q1@h d:p1 quiet") == (
        "r delivered q#1 of h before p#1 of g, although q sent #1 of h after delivering p#1 of g"
    )
    assert example("causal", p="d:q1 s1 d:p1 quiet", q="d:p1 s1 d:q1 quiet") == (
        "p delivered q#1, which is in its own past: p sent #1 after delivering q#1 and q sent #1 after delivering p#1"
    )


def test_a_message_delivered_before_it_was_sent() -> None:
    assert example("causal", p="d:p1 s1 quiet") == (
        "p delivered p#1, which is in its own past: p sent #1 after delivering p#1"
    )


def test_an_example_names_its_rows_in_causal_order() -> None:
    lines = {"p": "s1 d:p1 d:q1 quiet", "q": "d:p1 s1 d:q1 quiet", "r": "d:q1 d:p1 quiet"}
    finding = next(f for f in reference.audit(make_logs(**lines)).findings if f.guarantee == "causal")
    assert finding.example is not None
    assert finding.example.events == (("p/1", 2), ("q/1", 2), ("q/1", 3), ("r/1", 2), ("r/1", 3))


def verdicts(audit: Audit) -> dict[str, str]:
    return {finding.guarantee: finding.verdict for finding in audit.findings}


def test_only_what_was_promised_is_judged() -> None:
    rows = make_rows(p="s1 s2 d:p2 d:p1 d:p1 quiet", promises="creation duplication")
    assert verdicts(reference.audit(rows)) == {"creation": KEPT, "duplication": BROKEN}
    assert verdicts(reference.audit(rows, ["fifo"])) == {"fifo": BROKEN}


def test_each_group_is_held_to_its_own_promises() -> None:
    rows = make_rows(p="s1 d:p1 d:p1 quiet", promises="duplication", run="one")
    rows += make_rows(p="s1 d:p1 d:p1 quiet", promises="creation", run="two")
    audit = reference.audit(rows)
    assert verdicts(audit) == {"creation": KEPT, "duplication": BROKEN}
    assert [finding.violations for finding in audit.findings] == [0, 1]


def test_an_open_log_leaves_open_only_what_its_run_promised() -> None:
    rows = make_rows(p="s1 d:p1 quiet", promises="duplication", run="one")
    rows += make_rows(p="s1 d:p1", promises="creation", run="two")
    assert verdicts(reference.audit(rows)) == {"creation": UNKNOWN, "duplication": KEPT}


def test_every_guarantee_can_be_checked() -> None:
    assert CHECKED == GUARANTEES


def test_asking_for_something_else_is_refused() -> None:
    with pytest.raises(UnknownGuaranteeError, match="is no guarantee; choose from: creation, duplication, fifo"):
        reference.audit(make_rows(p="quiet"), ["fun"])


def test_without_promises_there_is_nothing_to_judge() -> None:
    with pytest.raises(UnusableHistoryError, match="no start row says what was promised"):
        reference.audit(make_rows(p="quiet", promises=""))


def test_an_unknown_promise_is_refused() -> None:
    with pytest.raises(UnusableHistoryError, match="promises 'fun', which this version does not know"):
        reference.audit(make_rows(p="quiet", promises="fun"))


UNUSABLE: list[tuple[str, Lines]] = [
    ("sends message 3 to g where 2 should come", {"p": "s1 s3 quiet"}),
    ("sends message 2 to g where 1 should come", {"p": "s2 quiet"}),
    ("goes on after its stop or crash row", {"p": "s1 quiet d:p1"}),
]


@pytest.mark.parametrize(("words", "lines"), UNUSABLE)
def test_logs_that_make_no_sense(words: str, lines: Lines) -> None:
    rows = make_rows(**lines)
    with pytest.raises(UnusableHistoryError, match=words):
        reference.audit(rows)
    for piece_rows in (1, 100):
        with pytest.raises(UnusableHistoryError, match=words):
            count(rows, piece_rows=piece_rows)


@pytest.mark.parametrize("piece_rows", [1, 100])
def test_rows_behind_a_gap_cut_a_log_short_even_after_its_end(piece_rows: int) -> None:
    rows = make_rows(p="s1 d:p1 quiet")
    rows.append(replace(rows[-2], index=rows[-1].index + 2))
    found = counts_of(reference.audit(rows))
    assert found == dict.fromkeys(MESSAGE_PROMISES, (0, 1, 1, 0))
    assert count(rows, piece_rows=piece_rows) == found


def test_an_index_twice_is_refused() -> None:
    rows = make_rows(p="s1 d:p1 quiet")
    with pytest.raises(UnusableHistoryError, match="two rows with the same index"):
        reference.audit([*rows, rows[2]])


@pytest.mark.parametrize(
    ("lines", "unknown"),
    [
        ({"p": "s1%5 quiet", "q": "quiet"}, {"settled": 2}),
        ({"p": "s1%5 d:p1 quiet", "q": "d:p1 quiet"}, {}),  # whoever was owed it has it
        ({"p": "s1>p%5 d:p1 quiet", "q": "quiet"}, {}),  # q was not meant
        ({"p": "s1%5 s2 d:p1-2 quiet", "q": "d:p2 quiet"}, {"fifo": 1, "causal": 1, "settled": 1}),
        ({"p": "s1%5 s2 d:p1-2 quiet", "q": "d:p2 d:p1 quiet"}, {"fifo": 1, "causal": 1}),
        ({"p": "s1%5 s2 d:p1-2 quiet", "q": "out@g quiet"}, {}),  # q left before
        (
            {"p": "s1@h%5 d:p1@h d:q1 quiet", "q": "d:p1@h s1 d:q1 quiet", "r": "d:q1 d:p1@h quiet"},
            {"causal": 1},  # r delivered q#1 before p#1 of h, which it may be owed
        ),
    ],
)
@pytest.mark.parametrize("piece_rows", [1, 3, 100])
def test_what_left_in_a_view_that_nobody_saw_leaves_open_who_was_owed_it(
    lines: dict[str, str], unknown: dict[str, int], piece_rows: int
) -> None:
    rows = make_rows(**lines)
    audit = reference.audit(rows)
    assert count(rows, piece_rows=piece_rows) == counts_of(audit)
    assert {found.guarantee: found.unknown for found in audit.findings if found.unknown} == unknown
    for found in audit.findings:
        if found.unknown:
            assert found.verdict == UNKNOWN
            assert "no view row describes view 5 of" in (found.reason or "")


def test_observations() -> None:
    audit = reference.audit(make_logs(p="s1 d:p1 s2-3 quiet", q="d:p1 d:p2-3 quiet"))
    one, other = audit.observations
    assert (one.process, one.sent, one.delivered, one.delivered_bytes, one.ending) == ("p/1", 3, 1, 8, "quiet")
    assert (other.sent, other.delivered, other.first_ns, other.last_ns) == (0, 3, 0, 2)
    assert (one.latency_ns_p50, one.latency_ns_max) == (1, 1)
    assert (audit.events, audit.rows, audit.runs) == (13, 11, 1)
