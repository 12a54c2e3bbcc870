"""Labels: a short text on a send, in whatever way it is sent, stands in the history."""

from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles, rows_of_table
from antiphon.kernel.errors import UsageError
from antiphon.kernel.levels import Order
from antiphon.pipeline.quick import quick_audit
from antiphon.report.html import write_report
from antiphon.runtime import Node, sync
from tests.runtime.cluster import cluster, read, run
from tests.runtime.places import LOOPBACK


def sends(directory: Path) -> list[tuple[str | None, int | None]]:
    """The label and count of each send row, in order."""
    rows = [row for table in HistoryFiles.open(directory).tables() for row in rows_of_table(table)]
    return [(row.label, row.count) for row in rows if row.kind == "send"]


def test_each_way_of_sending_takes_a_label(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a", "b"], history=tmp_path) as (nodes, groups):
            group = groups[0]
            await group.send(b"1", label="one")
            await group.send_many([b"2", b"3"], label="many")
            assert group.send_now(b"4", label="now")
            assert group.send_now(b"5", to=nodes[1].process, label="private")
            await group.send(b"6")
            assert len(await read(groups[1], 6)) == 6

    run(test)
    assert sends(tmp_path) == [("one", 1), ("many", 2), ("now", 1), ("private", 1), (None, 1)]


def test_threads_may_label_what_they_send(tmp_path: Path) -> None:
    with sync.Node("a", address="127.0.0.1:0", incarnation=1, history=tmp_path) as node:
        group = node.join("g", members={"a": node.address}, policy="static")
        group.send(b"1", label="one")
        group.send_many([b"2", b"3"], label="many")
        group.flush(timeout_s=10.0)
    assert sends(tmp_path) == [("one", 1), ("many", 2)]


@pytest.mark.parametrize("label", ["", "barrier", "two\nlines", "x" * 1_000, 5])
def test_what_is_no_label_is_refused_before_anything_is_sent(label: str) -> None:
    async def test() -> None:
        async with cluster(["a"]) as (nodes, (group,)):
            with pytest.raises(UsageError, match="label"):
                await group.send_many([b"x"], label=label)
            with pytest.raises(UsageError, match="label"):
                group.send_now(b"x", label=label)
            assert nodes[0].statistics()["messages_accepted"] == 0

    run(test)


@pytest.mark.parametrize(
    ("order", "label", "why"),
    [
        ("causal", "clock=1", "`reliable`"),
        ("reliable", "unheard of=1", "unheard of"),
        ("reliable", "clock=noon", "cannot read"),
    ],
)
def test_a_label_that_cannot_order_is_refused_at_the_call_and_the_node_goes_on(
    order: Order, label: str, why: str
) -> None:
    async def test() -> None:
        async with Node("a", address=LOOPBACK) as node:
            group = await node.join("g", members={"a": node.address}, stack="label")
            with pytest.raises(UsageError, match=why):
                await group.send(b"x", order=order, label=label)
            await group.send(b"y", order="reliable", label="clock=1")
            assert [message.payload for message in await read(group, 1)] == [b"y"]

    run(test)


def test_the_page_of_the_audit_shows_the_label(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(["a", "b"], history=tmp_path / "history") as (_, groups):
            await groups[0].send(b"1", label="payment 17")
            assert len(await read(groups[1], 1)) == 1

    run(test)
    write_report(quick_audit(tmp_path / "history"), tmp_path / "history", tmp_path / "page.html")
    assert "payment 17" in (tmp_path / "page.html").read_text()
