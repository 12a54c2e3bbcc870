"""content, messages that left later than they were called, and private messages whose sender's log is lost."""

from dataclasses import replace

import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEVELS, Row
from antiphon.pipeline import reference
from tests.pipeline.inprocess import count, counts_of
from tests.pipeline.script import make_rows

PROMISES = ("creation", "fifo", "causal", "content", "safe", "view_synchrony", "view_sending", "settled")


def log_of(process: str, members: str = "pqr", promises: tuple[str, ...] = PROMISES) -> MemoryLog:
    log = MemoryLog(run="r", process=process)
    log.start(0, "g", "toy", "primary", LEVELS, promises)
    log.view(0, "g", 1, [f"{member}/1" for member in members])
    return log


def rows_of(*logs: MemoryLog) -> list[Row]:
    return [row for log in logs for row in log.rows()]


def counts(rows: list[Row]) -> dict[str, tuple[int, int, int]]:
    """By the reference auditor, and the vectorised one must agree, however the logs are cut."""
    found = counts_of(reference.audit(rows))
    for piece_rows in (1, 2, 100):
        assert count(rows, piece_rows=piece_rows) == found
    return {guarantee: of_one[:3] for guarantee, of_one in found.items()}


def sent_and_delivered(digest: str | None, level: str = "causal", size: int = 12, cut: int = 0) -> list[Row]:
    """p sends three messages in one row; q delivers them in one row, or in two."""
    p, q = log_of("p", "pq", ("content",)), log_of("q", "pq", ("content",))
    p.send(1, "g", 1, 1, 3, "causal", 12, digest="0000000a0000000b0000000c")
    parts = [(1, cut, size - 12 + 4 * cut), (1 + cut, 3 - cut, 12 - 4 * cut)] if cut else [(1, 3, size)]
    for number, messages, size_of_part in parts:
        part = None if digest is None else digest[8 * (number - 1) : 8 * (number + messages - 1)]
        q.deliver(10**9 * number, "g", 1, "p", 1, number, messages, level, size_of_part, digest=part)
    p.stop(2 * 10**10)
    q.stop(2 * 10**10)
    return rows_of(p, q)


@pytest.mark.parametrize(
    ("rows", "violations"),
    [
        (sent_and_delivered("0000000a0000000b0000000c"), 0),
        (sent_and_delivered("0000000a0000000b0000000c", cut=2), 0),
        (sent_and_delivered("0000000a000000ff0000000c"), 1),
        (sent_and_delivered("0000000a000000ff0000000c", cut=1), 1),
        (sent_and_delivered("0000000b0000000a0000000c"), 2),  # two payloads changed places
        (sent_and_delivered(None), 0),
        (sent_and_delivered("0000000a0000000b0000000c", level="fifo"), 3),
        (sent_and_delivered("0000000a000000ff0000000c", level="fifo"), 3),
        (sent_and_delivered(None, size=13), 3),  # which of the three it is, nobody knows
        (sent_and_delivered("0000000a0000000b000000ff", size=13), 1),
        (sent_and_delivered(None, size=13, cut=1), 0),  # sizes of parts of a row cannot be compared
    ],
)
def test_what_is_handed_over_is_what_was_sent(rows: list[Row], violations: int) -> None:
    assert counts(rows) == {"content": (violations, 0, 3)}
    (found,) = reference.audit(rows).findings
    if violations:
        assert found.example is not None
        assert "with another level, size or payload than p sent it with" in found.example.text


def private_message(destinations: tuple[str, ...] | None) -> list[Row]:
    """p sent #1 to q alone, and its log is lost: killed after it had transferred its state."""
    q, r = log_of("q"), log_of("r")
    q.deliver(1, "g", 1, "p", 1, 1, 1, "causal", 4, destinations=destinations)
    for log in (q, r):
        log.view(2, "g", 2, ["q/1", "r/1"])
        log.stop(3)
    return rows_of(q, r)


@pytest.mark.parametrize(
    ("destinations", "violations", "unknown"),
    [
        (("q/1",), 0, 1),  # the delivery itself says that r has no part in it; 1: the lost log
        ((), 0, 2),  # a history of version 1 does not
        (None, 1, 1),  # it was for all: r should have it, and that takes no log of p to see
    ],
)
def test_a_lost_log_breaks_nothing(destinations: tuple[str, ...] | None, violations: int, unknown: int) -> None:
    found = counts(private_message(destinations))
    assert found["view_synchrony"][:2] == (violations, unknown)


def test_a_message_is_delivered_in_the_view_in_which_it_left() -> None:
    """p calls in view 1; what it sends leaves in view 2."""
    p, q = log_of("p", "pq"), log_of("q", "pq")
    p.send(1, "g", None, 1, 3, "causal", 12)
    p.depart(2, "g", 1, 1, 1, 4)
    for log in (p, q):
        log.deliver(3, "g", 1, "p", 1, 1, 1, "causal", 4)
        log.view(4, "g", 2, ["p/1", "q/1"])
    p.depart(5, "g", 2, 2, 2, 8)
    for log in (p, q):
        log.deliver(6, "g", 2, "p", 1, 2, 2, "causal", 8)
        log.stop(7)
    rows = rows_of(p, q)
    assert [
        (row.kind, row.view, row.number, row.count, row.size) for row in rows if row.kind in ("send", "depart")
    ] == [
        ("send", 1, 1, 1, 4),
        ("send", None, 2, 2, 8),
        ("depart", 2, 2, 2, None),
    ]
    assert {guarantee: found[:2] for guarantee, found in counts(rows).items()} == dict.fromkeys(PROMISES, (0, 0))


def test_what_never_left_is_owed_to_nobody() -> None:
    """p calls twice, and only the first message leaves; q has only that one, and all is well."""
    p, q = log_of("p", "pq"), log_of("q", "pq")
    p.send(1, "g", None, 1, 2, "causal", 8)
    p.depart(2, "g", 1, 1, 1, 4)
    for log in (p, q):
        log.deliver(3, "g", 1, "p", 1, 1, 1, "causal", 4)
        log.stop(7)
    rows = rows_of(p, q)
    assert {guarantee: found[:2] for guarantee, found in counts(rows).items()} == dict.fromkeys(PROMISES, (0, 0))
    assert counts(rows)["settled"] == (0, 0, 2)


def test_what_left_at_once_needs_no_row_of_its_own() -> None:
    log = log_of("p", "p")
    for number in (1, 2, 3):
        log.send(number, "g", None, number, 1, "causal", 4, digest=f"{number:08x}")
        log.depart(number, "g", 1, number, 1, 4)
    log.send(4, "g", None, 4, 1, "causal", 4, digest=f"{4:08x}")
    log.stop(5)
    sends = [row for row in log.rows() if row.kind == "send"]
    assert [(row.view, row.number, row.count, row.size, row.digest) for row in sends] == [
        (1, 1, 3, 12, "000000010000000200000003"),
        (None, 4, 1, 4, "00000004"),
    ]


def test_a_delivery_beyond_the_record_is_unknown() -> None:
    rows = make_rows(promises="content", p="s1 d:p1", q="d:p1-2 quiet")
    assert counts(rows) == {"content": (0, 2, 3)}  # p#2, and the rest of the log of p
    rows = [replace(row, size=(row.size or 0) + 1) if row.kind == "send" else row for row in rows]
    assert counts(rows) == {"content": (1, 2, 3)}
