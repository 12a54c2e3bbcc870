"""Labels: a short text on a send, in whatever way it is sent, stands in the history."""

from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles, rows_of_table
from antiphon.kernel.errors import UsageError
from antiphon.runtime import sync
from tests.runtime.cluster import cluster, read, run


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
