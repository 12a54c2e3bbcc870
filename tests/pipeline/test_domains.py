"""Causal order between groups, as far as the start rows promise it."""

from random import Random

import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.log import MemoryLog
from antiphon.history.schema import ALL_GROUPS, DOMAIN_SCOPE, GROUP_SCOPE, LEVELS, READS_APART, Row
from antiphon.history.start import StartFacts, parse_start
from antiphon.pipeline import reference
from antiphon.pipeline.domains import EVERY_GROUP, domains_of
from tests.pipeline.corruption import OF_DOMAINS
from tests.pipeline.histories import PROMISES
from tests.pipeline.inprocess import Counts, count, counts_of
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.pipeline.test_reference_equality import result_of
from tests.sampling import seeds

Scope = tuple[str, str | None]
MAIN: Scope = (DOMAIN_SCOPE, "main")
OTHER: Scope = (DOMAIN_SCOPE, "other")
OWN: Scope = (GROUP_SCOPE, None)
ALL: Scope = (ALL_GROUPS, None)


def make_logs(scopes: dict[str, Scope], **lines: str) -> list[Row]:
    """`s:g` sends the process's next message to group g; `d:p:g` delivers p's next message there."""
    logs = []
    for process, line in lines.items():
        log = MemoryLog(run="r", process=process, merge=False)
        for group, (scope, domain) in scopes.items():
            log.start(0, group, "toy", "primary", LEVELS, ("causal",), scope, domain)
            log.view(0, group, 1, [f"{name}/1" for name in sorted(lines)])
        numbers: dict[tuple[str, str], int] = {}
        for time_ns, word in enumerate(line.split(), start=1):
            kind, *rest = word.split(":")
            if kind == "apart":
                log.note(time_ns, READS_APART)
                continue
            sender, group = (process, *rest) if kind == "s" else rest
            number = numbers[kind + sender, group] = numbers.get((kind + sender, group), 0) + 1
            if kind == "s":
                log.send(time_ns, group, 1, number, 1, "causal", 8)
            else:
                log.deliver(time_ns, group, 1, sender, 1, number, 1, "causal", 8)
        log.stop(100)
        logs.append(log)
    return [row for log in logs for row in log.rows()]


def judged(rows: list[Row]) -> tuple[int, int]:
    """Violations of causal and their root causes; both auditors must agree, however the logs are cut."""
    found = counts_of(reference.audit(rows))
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found
    return found["causal"][0], found["causal"][3]


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ({"g": MAIN, "h": MAIN}, (1, 1)),
        ({"g": ALL, "h": ALL}, (1, 1)),
        ({"g": MAIN, "h": OTHER}, (0, 0)),
        ({"g": OWN, "h": OWN}, (0, 0)),
        ({"g": MAIN, "h": OWN}, (0, 0)),
    ],
)
def test_groups_of_different_domains_are_in_no_order(scopes: dict[str, Scope], expected: tuple[int, int]) -> None:
    """An answer in h is delivered before its question in g."""
    rows = make_logs(scopes, p="s:g d:p:g d:q:h", q="d:p:g s:h d:q:h", r="d:q:h d:p:g")
    assert judged(rows) == expected


def test_within_one_group_the_order_holds_whatever_the_scope() -> None:
    rows = make_logs({"g": OWN}, p="s:g d:p:g d:q:g", q="d:p:g s:g d:q:g", r="d:q:g d:p:g")
    assert judged(rows) == (1, 1)


@pytest.mark.parametrize(("middle", "expected"), [(MAIN, (1, 1)), (OTHER, (0, 0)), (OWN, (0, 0))])
def test_a_chain_through_another_domain_orders_nothing(middle: Scope, expected: tuple[int, int]) -> None:
    """p sends in g; q passes it on in h; r answers in k: g and k are of one domain, h is or is not."""
    scopes = {"g": MAIN, "h": middle, "k": MAIN}
    rows = make_logs(
        scopes,
        p="s:g d:p:g d:q:h d:r:k",
        q="d:p:g s:h d:q:h d:r:k",
        r="d:q:h s:k d:r:k d:p:g" if middle is not MAIN else "d:p:g d:q:h s:k d:r:k",
        t="d:q:h d:r:k d:p:g" if middle is not MAIN else "d:q:h d:p:g d:r:k",
    )
    assert judged(rows) == expected


@pytest.mark.parametrize(("apart", "expected"), [("", (1, 1)), ("apart ", (0, 0))])
def test_a_reader_of_each_group_by_itself_is_promised_the_order_within_it(
    apart: str, expected: tuple[int, int]
) -> None:
    """r reads the node, or each group by itself: only the former is promised the order of the domain."""
    scopes = {"g": MAIN, "h": MAIN}
    rows = make_logs(scopes, p="s:g d:p:g d:q:h", q="d:p:g s:h d:q:h", r=f"{apart}d:q:h d:p:g")
    assert judged(rows) == expected
    within = make_logs({"g": MAIN}, p="s:g d:p:g d:q:g", q="d:p:g s:g d:q:g", r=f"{apart}d:q:g d:p:g")
    assert judged(within) == (1, 1)


def test_start_rows_that_contradict_each_other_promise_the_order_within_the_group() -> None:
    starts = [("g", StartFacts((), DOMAIN_SCOPE, "vector a")), ("g", StartFacts((), DOMAIN_SCOPE, "vector b"))]
    starts += [("h", StartFacts(())), ("k", StartFacts((), GROUP_SCOPE))]
    assert domains_of(starts) == {"g": "group g", "h": EVERY_GROUP, "k": "group k"}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ('{"schema": 2, "promises": [], "scope": "planet"}', "planet"),
        ('{"schema": 2, "promises": [], "scope": "causality domain"}', 'names no "domain"'),
        ('{"schema": 2, "promises": [], "scope": "causality domain", "domain": 7}', 'names no "domain"'),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(facts: str, words: str) -> None:
    with pytest.raises(UnusableHistoryError, match=words):
        parse_start(facts)


def test_a_start_row_without_a_scope_promises_order_among_all_groups() -> None:
    assert parse_start('{"schema": 2, "promises": ["causal"]}') == StartFacts(("causal",), ALL_GROUPS, "")


@pytest.mark.random
def test_both_auditors_agree_on_histories_with_several_domains() -> None:
    differing = 0
    for seed in seeds(40, 1000):
        rows = make_spoiled_rows(Random(seed), 6, OF_DOMAINS)
        expected = result_of(lambda rows=rows: counts_of(reference.audit(rows, PROMISES)))  # type: ignore[misc]
        found: Counts | str = result_of(lambda rows=rows: count(rows, piece_rows=7, promise=PROMISES))  # type: ignore[misc]
        assert found == expected, seed
        differing += not isinstance(expected, str) and expected["causal"][0] > 0
    assert differing > 4
