"""Rows that are drawn as one."""

from antiphon.report.fold import join_own
from antiphon.report.rows import LogRow
from tests.report.sample import Sample


def story(rows: list[LogRow], process: str) -> list[tuple[str, int, int, bool, int]]:
    """Kind, first and last number, whether the own delivery is in it, and how many rows it stands for."""
    log = [row for row in rows if row.process == process and row.carries]
    return [(row.kind, row.number, row.last, row.own, row.span) for row in log]


def test_delivering_ones_own_messages_at_once_is_part_of_the_send() -> None:
    sample = Sample("a", "b")
    sample.send("a", 3)
    sample.deliver("a", "a", 1, 3)
    sample.send("a", 2)
    sample.deliver("a", "b", 1)
    sample.deliver("a", "a", 4, 2)
    assert story(join_own(sample.rows()), "a/1") == [
        ("send", 1, 3, True, 2),
        ("send", 4, 5, False, 1),
        ("deliver", 1, 1, False, 1),
        ("deliver", 4, 5, False, 1),
    ]


def test_a_delivery_that_is_pointed_at_stays_by_itself() -> None:
    sample = Sample("a")
    sample.multicast("a")
    place = sample.index("a", "deliver", 1)
    assert story(join_own(sample.rows(), frozenset([place])), "a/1") == [
        ("send", 1, 1, False, 1),
        ("deliver", 1, 1, False, 1),
    ]


def test_rows_that_were_not_read_keep_a_send_and_its_delivery_apart_and_receives_do_not() -> None:
    sample = Sample("a", "b")
    sample.send("a")
    sample.receive("a", "b", 9)
    sample.deliver("a", "a", 1)
    rows = sample.rows()
    assert story(join_own(rows), "a/1") == [("send", 1, 1, True, 3)]
    unread = [row for row in rows if row.kind != "receive"]
    assert story(join_own(unread), "a/1") == [("send", 1, 1, False, 1), ("deliver", 1, 1, False, 1)]
