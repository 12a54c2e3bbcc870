"""Rows that are drawn as one."""

from antiphon.report.fold import join_own, join_runs
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


def test_runs_are_joined_across_the_recorders_cuts_but_not_across_other_events() -> None:
    sample = Sample("a", "b")
    for _ in range(3):
        sample.multicast("a")
    sample.send("b")
    sample.deliver("a", "b", 1)
    sample.multicast("a")
    joined = join_runs(sample.rows())
    assert story(joined, "a/1") == [("send", 1, 3, True, 6), ("deliver", 1, 1, False, 1), ("send", 4, 4, True, 2)]
    assert story(joined, "b/1") == [("deliver", 1, 3, False, 3), ("send", 1, 1, False, 1), ("deliver", 4, 4, False, 1)]


def test_sends_that_are_delivered_together_are_joined_first() -> None:
    sample = Sample("a")
    sample.send("a")
    sample.send("a")
    sample.deliver("a", "a", 1, 2)
    assert story(join_runs(sample.rows()), "a/1") == [("send", 1, 2, True, 3)]


def test_a_gap_in_the_numbers_keeps_runs_apart() -> None:
    sample = Sample("a", "b")
    sample.deliver("a", "b", 1)
    sample.deliver("a", "b", 3)
    assert story(join_runs(sample.rows()), "a/1") == [("deliver", 1, 1, False, 1), ("deliver", 3, 3, False, 1)]


def test_rows_that_were_not_read_keep_their_neighbours_apart_and_receives_do_not() -> None:
    sample = Sample("a", "b")
    sample.deliver("a", "b", 1)
    sample.receive("a", "b", 9)
    sample.deliver("a", "b", 2)
    rows = sample.rows()
    assert story(join_runs(rows), "a/1") == [("deliver", 1, 2, False, 3)]
    unread = [row for row in rows if row.kind != "receive"]
    assert story(join_runs(unread), "a/1") == [("deliver", 1, 1, False, 1), ("deliver", 2, 2, False, 1)]
