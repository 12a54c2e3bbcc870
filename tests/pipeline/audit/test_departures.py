"""In which order a process sent, where messages left in another order than they were called for."""

from dataclasses import replace

import pytest

from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEVELS, READS_APART, STALLED, Row
from antiphon.pipeline import reference
from tests.pipeline.inprocess import count, counts_of


def overtaken(stalled: bool) -> list[Row]:
    """p calls for one message to a, then one to b; the second leaves first, and q is handed it first."""
    logs = {name: MemoryLog(run="r", process=name) for name in ("p", "q")}
    for log in logs.values():
        for group in ("a", "b"):
            log.start(0, group, "toy", "primary", LEVELS, ("causal", "settled"))
            log.view(0, group, 1, ["p/1", "q/1"])
    p, q = logs["p"], logs["q"]
    if stalled:
        p.note(1, STALLED, "a")
    p.send(2, "a", None, 1, 1, "causal", 4)
    p.send(3, "b", None, 1, 1, "causal", 4)
    p.depart(4, "b", 1, 1, 1, 4)
    p.deliver(5, "b", 1, "p", 1, 1, 1, "causal", 4)
    q.deliver(5, "b", 1, "p", 1, 1, 1, "causal", 4)
    for log in logs.values():
        log.view(6, "a", 2, ["p/1", "q/1"])
    p.depart(7, "a", 2, 1, 1, 4)
    for log in logs.values():
        log.deliver(8, "a", 2, "p", 1, 1, 1, "causal", 4)
        log.stop(9)
    return [row for log in logs.values() for row in log.rows()]


@pytest.mark.parametrize(("stalled", "violations"), [(False, 2), (True, 0)])
def test_what_leaves_in_another_order_than_it_was_called_for(stalled: bool, violations: int) -> None:
    """That breaks causal order, but where the group of the first one stood still for want of a majority."""
    rows = overtaken(stalled)
    found = counts_of(reference.audit(rows))
    assert found == {"causal": (violations, 0, 4, int(violations > 0)), "settled": (0, 0, 4, 0)}
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found


@pytest.mark.parametrize(("reader", "violations"), [("p", 1), ("q", 1), ("pq", 0)])
def test_order_between_groups_is_not_promised_to_who_reads_each_apart(reader: str, violations: int) -> None:
    rows = overtaken(stalled=False)
    for process in reader:
        place = next(row for row in rows if row.process == process and row.kind == "start")
        rows = [row if row.process != process else replace(row, index=row.index + 1) for row in rows]
        rows.append(Row("r", process, 1, 0, place.time_ns, "note", label=READS_APART))
    found = counts_of(reference.audit(rows))
    assert found["causal"] == (violations, 0, 4, violations)
    for piece_rows in (1, 3, 100):
        assert count(rows, piece_rows=piece_rows) == found
