"""The measuring programs run, and their figures add up. What they measure is exact, so it is compared exactly."""

from xml.etree import ElementTree

import pytest

from antiphon import _build
from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import MILLISECOND_NS
from bench import growth, survival, wire
from bench.lab import Lab, LineCounter
from bench.plots import Panel, Series, draw
from bench.wire import Row

needs_lines = pytest.mark.skipif(
    _build.describe().startswith("compiled"), reason="no lines can be counted in the compiled core"
)


def the(rows: list[Row], case: str) -> Row:
    [row] = [row for row in rows if row.case == case]
    return row


def test_a_multicast_counts_once_and_as_a_packet_for_each_other_member() -> None:
    lab = Lab(4)
    lab.found("g", [0, 1, 2, 3])
    lab.run(MILLISECOND_NS)
    lab.step(2, Send(group="g", payloads=[b"x"], level=CAUSAL))
    assert lab.tally.multicasts["data"] == 1
    assert lab.tally.unicasts["data"] == 3
    assert lab.tally.unicast_bytes["data"] == 3 * lab.tally.sent_bytes["data"] > 0
    lab.run(MILLISECOND_NS)
    assert lab.delivered == [[("g", b"x")]] * 4


def test_changes_of_view_cost_what_the_phases_say() -> None:
    rows = wire.view_changes(4)
    assert the(rows, "flush: barrier by the oldest").measured == 5 * 3
    assert the(rows, "flush: barrier by another").measured == 5 * 3 + 1
    assert the(rows, "failure of the oldest: flush").measured == 2 * 3 + 3 * 2


@pytest.mark.parametrize("members", [3, 5])
def test_agreed_messages_cost_what_the_paper_says(members: int) -> None:
    rows = wire.agreed(members)
    for row in rows:
        if "at once" not in row.case:
            assert row.measured == row.paper, row
    assert the(rows, "agreed, 64 messages of one sender at once").measured == pytest.approx(2 / 64, abs=0.001)


@pytest.mark.parametrize("members", [3, 8])
def test_timestamps_are_no_longer_than_the_paper_says(members: int) -> None:
    rows = wire.timestamps(members)
    sizes = [row for row in rows if row.unit == "entries at most"]
    assert len(sizes) == (4 if members % wire.SUBGROUP == 0 else 3)
    for row in sizes:
        assert row.paper is not None
        assert 1 < row.measured <= row.paper, row
    assert the(rows, "burst: its first packet").measured > 0
    assert the(rows, "burst: the 19 after it, together").measured == 0


def test_the_table_has_a_line_for_each_row() -> None:
    rows = wire.view_changes(3)
    lines = wire.table(rows).splitlines()
    assert len(lines) == 1 + len(rows)
    assert "2n: 6" in lines[1]


@needs_lines
def test_lines_are_counted_and_the_same_each_time() -> None:
    def count() -> int:
        lab = Lab(3)
        lab.found("g", [0, 1, 2])
        lab.watched[0] = LineCounter()
        lab.step(0, Send(group="g", payloads=[b"x"], level=CAUSAL))
        return lab.watched[0].lines

    assert count() == count() > 50


@needs_lines
def test_a_message_costs_more_in_a_larger_group() -> None:
    small, large = growth.by_members(3, True), growth.by_members(8, True)
    assert small.overhead_bytes < large.overhead_bytes
    assert small.operations < large.operations
    assert growth.by_members(8, False).overhead_bytes < large.overhead_bytes
    assert small.foreign_bytes == large.foreign_bytes == 0


@needs_lines
@pytest.mark.parametrize("domain", growth.DOMAINS)
def test_messages_in_overlapping_groups_are_all_delivered_and_counted(domain: str) -> None:
    cost = growth.by_groups(4, domain, messages=12)
    assert cost.first_bytes > cost.overhead_bytes - cost.foreign_bytes > 50
    assert cost.foreign_bytes > 0 or domain != "carry, k = 1"
    assert cost.foreign_bytes == 0 or domain != "conservative"
    assert (cost.view_messages > 0) == (domain == "epochs")
    assert cost.operations > 0


def test_many_groups_and_a_large_one_survive() -> None:
    steps = [*survival.many_groups(4), *survival.large_group(12, 3)]
    assert len(steps) == 13
    assert the_step(steps, "all but one ask to join at once").views == 2
    assert the_step(steps, "one leaves").views == 1


def the_step(steps: list[survival.Step], what: str) -> survival.Step:
    [step] = [step for step in steps if step.what == what]
    return step


def test_a_plot_shows_every_point() -> None:
    picture = draw("a & b", [Panel("one", "x", [Series("s", [1, 10], [0.0, 100.0]), Series("t", [1], [3.0])])])
    root = ElementTree.fromstring(picture)
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 3
    assert len({circle.get("cy") for circle in circles}) == 3
