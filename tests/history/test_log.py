"""Logs in memory: which calls become which rows."""

from antiphon.history.log import MERGE_SPAN_NS, MemoryLog
from antiphon.history.schema import BARRIER, LEFT, LEVELS, SCHEMA, Row
from antiphon.kernel.levels import LEVEL_NAMES


def make_log(merge: bool = True) -> MemoryLog:
    return MemoryLog(run="r", process="a", merge=merge)


def shape(log: MemoryLog) -> list[tuple[str, int | None, int | None, int | None]]:
    return [(row.kind, row.number, row.count, row.size) for row in log.rows()]


def test_levels_are_those_of_the_kernel() -> None:
    assert sorted(LEVELS) == sorted(LEVEL_NAMES)


def test_rows_are_numbered_without_gaps() -> None:
    log = make_log()
    log.start(1, "g", "vector", "static", ["causal"], ["creation"])
    log.view(2, "g", 1, ["a/1", "b/1"])
    log.deliver(3, "g", 1, "b", 1, 1, 1, "causal", 5)
    log.suspect(4, "g", 1, "b/1")
    log.note(5, "hm")
    log.stop(6)
    assert [(row.index, row.time_ns, row.kind) for row in log.rows()] == list(
        zip(range(6), range(1, 7), ("start", "view", "deliver", "suspect", "note", "stop"), strict=True)
    )


def test_consecutive_messages_become_one_row() -> None:
    log = make_log()
    log.send(10, "g", 1, 1, 2, "causal", 7)
    log.send(11, "g", 1, 3, 1, "causal", 5)
    log.deliver(12, "g", 1, "a", 1, 1, 1, "causal", 3)
    log.deliver(13, "g", 1, "a", 1, 2, 2, "causal", 9)
    assert shape(log) == [("send", 1, 3, 12), ("deliver", 1, 3, 12)]
    assert [row.time_ns for row in log.rows()] == [10, 12]


def test_without_merging_each_call_is_a_row() -> None:
    log = make_log(merge=False)
    log.send(10, "g", 1, 1, 2, "causal", 7)
    log.send(11, "g", 1, 3, 1, "causal", 5)
    assert shape(log) == [("send", 1, 2, 7), ("send", 3, 1, 5)]


def test_what_differs_is_not_merged() -> None:
    log = make_log()
    log.deliver(1, "g", 1, "b", 1, 1, 1, "causal", 0)
    log.deliver(1, "g", 1, "b", 1, 3, 1, "causal", 0)  # a gap
    log.deliver(1, "g", 1, "b", 1, 4, 1, "fifo", 0)  # another level
    log.deliver(1, "g", 2, "b", 1, 5, 1, "fifo", 0)  # another view
    log.deliver(1, "h", 2, "b", 1, 6, 1, "fifo", 0)  # another group
    log.deliver(1, "h", 2, "b", 2, 7, 1, "fifo", 0)  # another incarnation
    log.deliver(1, "h", 2, "c", 2, 8, 1, "fifo", 0)  # another sender
    log.send(1, "h", 2, 9, 1, "fifo", 0)  # another kind
    log.send(1, "h", 2, 10, 1, "fifo", 0, ("c/1",))  # other destinations
    log.send(2 + MERGE_SPAN_NS, "h", 2, 11, 1, "fifo", 0, ("c/1",))  # too late
    for number in (12, 13, 14):  # a label
        log.send(2 + MERGE_SPAN_NS, "h", 2, number, 1, "fifo", 0, ("c/1",), BARRIER if number < 14 else None)
    assert [row.count for row in log.rows()] == [1] * 13


def test_a_row_in_between_ends_a_run() -> None:
    log = make_log()
    log.send(1, "g", 1, 1, 1, "causal", 1)
    log.note(1, "something happened")
    log.send(1, "g", 1, 2, 1, "causal", 1)
    assert [row.kind for row in log.rows()] == ["send", "note", "send"]


def test_labels_and_groups_of_notes_are_kept() -> None:
    log = make_log()
    log.send(1, "g", 1, 1, 1, "safe", 4, label=BARRIER)
    log.deliver(2, "g", 1, "a", 1, 1, 1, "safe", 4, BARRIER)
    log.deliver(3, "g", 2, "a", 1, 2, 1, "safe", 4)
    log.note(4, LEFT, "g")
    log.note(5, "hm")
    assert [(row.kind, row.label, row.group) for row in log.rows()] == [
        ("send", BARRIER, "g"),
        ("deliver", BARRIER, "g"),
        ("deliver", None, "g"),
        ("note", LEFT, "g"),
        ("note", "hm", None),
    ]


def test_recording_goes_on_after_a_look() -> None:
    log = make_log()
    log.send(1, "g", 1, 1, 1, "causal", 1)
    assert len(list(log.rows())) == 1
    log.send(1, "g", 1, 2, 1, "causal", 1)
    assert shape(log) == [("send", 1, 1, 1), ("send", 2, 1, 1)]


def test_the_table_holds_the_rows() -> None:
    log = make_log()
    log.view(2, "g", 1, ["a/1", "b/1"])
    log.send(3, "g", 1, 1, 4, "causal", 20, ("b/1",))
    table = log.table()
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert [Row(**cells).number for cells in table.to_pylist()] == [None, 1]
    assert table["destinations"].to_pylist() == [None, ["b/1"]]


def test_an_empty_log_is_an_empty_table() -> None:
    assert len(make_log().table()) == 0
