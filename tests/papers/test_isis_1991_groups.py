"""isis-1991, claim by claim: many overlapping groups (sections 6.1 to 6.5), under the rule `carry`."""

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.identity import wire_id
from antiphon.kernel.levels import AGREED, FIFO
from antiphon.kernel.options import MILLISECOND_NS, Options
from tests.papers.wire import section_of, times_in
from tests.table import Groups, Table

ACK_NS = 6 * MILLISECOND_NS
QUICK = CausalityDomain(resilience=1)
"""What somebody beside its sender holds may be followed elsewhere at once."""
FIGURE_4 = {"a": (0, 1, 2), "b": (1, 2, 3)}
CHAIN = {"a": (0, 1, 3), "b": (1, 2), "c": (2, 3)}


def quick(groups: Groups, policy: str = "static", options: Options | None = None) -> Table:
    """A table of four on which everybody knows that everybody is there."""
    table = Table(4, options, policy, groups, dict.fromkeys(groups, QUICK))
    table.play(260)
    table.drop_all()
    return table


# ---- 6.1 -----------------------------------------------------------------------------------------------------------


def test_6_1_figure_4() -> None:
    """p1 sends m1 in a; p2, having it, m2 in b; p4, having that, m3 in b. p3 is in both groups and delays m2 and m3
    until m1 is there. p4 is not in a and delays nothing; p2 has m1 and sent m2, and does not delay m3."""
    table = quick(FIGURE_4)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 3)
    assert table.log[3] == ["b:p2#1"]
    table.send(3, b"m3", group="b")
    table.pass_on(3, 1)
    assert table.log[1] == ["a:p1#1", "b:p2#1", "b:p4#1"]
    table.pass_on(3, 2)
    table.pass_on(1, 2)
    assert table.log[2] == []
    table.pass_on(0, 2)
    assert table.log[2] == ["a:p1#1", "b:p2#1", "b:p4#1"]


def test_6_1_each_group_has_a_clock_of_its_own() -> None:
    """p2's three messages to a say nothing to p4 about how many of b it should wait for."""
    table = quick(FIGURE_4)
    for _ in range(3):
        table.send(1, b"m", group="a")
    table.pass_on(1, 0)
    table.wait(ACK_NS)
    table.pass_on(0, 1)
    table.send(1, b"m", group="b")
    table.pass_on(1, 3)
    assert table.log[3] == ["b:p2#1"]


def test_6_1_rule_2_3_a_message_waits_for_all_groups_that_its_receiver_is_in() -> None:
    """m1 in a and m2 in b come before m3 in c: p3, in all three, waits for both, whichever is later."""
    for order in ((0, 3), (3, 0)):
        table = quick({"a": (0, 1, 2), "b": (1, 2, 3), "c": (1, 2)})
        table.send(0, b"m1", group="a")
        table.send(3, b"m2", group="b")
        table.pass_on(0, 1)
        table.pass_on(3, 1)
        table.send(1, b"m3", group="c")
        table.pass_on(1, 2)
        for sender in order:
            assert "c:p2#1" not in table.log[2]
            table.pass_on(sender, 2)
        assert table.log[2][-1] == "c:p2#1"


def test_6_1_messages_of_one_process_to_two_groups_keep_their_order() -> None:
    table = quick({"a": (0, 1, 2), "b": (0, 2)})
    table.send(0, b"m1", group="a")
    table.send(0, b"m2", group="b")
    late = table.take(0, 2, "a")
    table.pass_on(0, 1)
    table.wait(ACK_NS)
    table.pass_on(1, 0)
    table.pass_on(0, 2, "b")
    assert table.log[2] == []
    table.arrive(2, *late)
    assert table.log[2] == ["a:p1#1", "b:p1#1"]


def test_6_1_order_passes_through_groups_that_its_messengers_are_not_in() -> None:
    """m1 in a, m2 in b, m3 in c. p3, who sends m3, has never been in a; p4, in a and c, still waits for m1."""
    table = quick(CHAIN)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    table.send(2, b"m3", group="c")
    table.pass_on(2, 3)
    assert table.log[3] == []
    table.pass_on(0, 3)
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


def test_6_1_messages_leave_in_the_order_of_the_calls_whatever_their_group() -> None:
    """The first waits for its past; the second, to another group and free to leave, does not overtake it."""
    table = quick({"a": (0, 1, 2), "b": (0, 3)})
    table.send(1, b"past", group="a")
    past = table.take_data(1, 0)
    table.pass_on(1, 2)
    table.send(2, b"weak", level=FIFO, group="a")
    table.pass_on(2, 0)
    table.send(0, b"first", group="a")
    table.send(0, b"second", level=FIFO, group="b")
    assert table.take_data(0, 1) == table.take_data(0, 3) == []
    table.arrive(0, *past)
    assert len(table.take_data(0, 3)) == 1


def test_6_1_levels_below_causal_do_not_wait_for_other_groups() -> None:
    table = quick(FIGURE_4)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", level=FIFO, group="b")
    table.pass_on(1, 2)
    assert table.log[2] == ["b:p2#1"]


def test_6_1_but_they_pass_order_on() -> None:
    """m1 in a, a fifo message in b, then a causal one in b of the same sender: the last waits for m1."""
    table = quick(FIGURE_4)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"weak", level=FIFO, group="b")
    table.send(1, b"m3", group="b")
    table.pass_on(1, 2)
    assert table.log[2] == ["b:p2#1"]
    table.pass_on(0, 2)
    assert table.log[2] == ["b:p2#1", "a:p1#1", "b:p2#2"]


# ---- 6.2 -----------------------------------------------------------------------------------------------------------


def test_6_2_abcasts_to_different_groups_are_not_ordered_with_each_other() -> None:
    table = Table(4, groups={"a": (0, 1, 2), "b": (3, 1, 2)})
    table.send(0, b"m", level=AGREED, group="a")
    table.send(3, b"m", level=AGREED, group="b")
    table.pass_on(0, 1)
    table.pass_on(3, 1)
    table.pass_on(3, 2)
    table.pass_on(0, 2)
    assert table.log[1] == ["a:p1#1", "b:p4#1"]
    assert table.log[2] == ["b:p4#1", "a:p1#1"]


def test_6_2_an_abcast_is_still_in_causal_order_with_other_groups() -> None:
    """Before it may be followed elsewhere it is delivered at all members: total orders of two groups cannot cross."""
    table = Table(4, groups=FIGURE_4, domains=dict.fromkeys(FIGURE_4, QUICK))
    table.play(260)
    table.send(0, b"m1", level=AGREED, group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", level=AGREED, group="b")
    assert table.take_data(1, 3) == []
    table.play(100)
    assert table.log[2] == ["a:p1#1", "b:p2#1"]
    assert table.log[3] == ["b:p2#1"]


# ---- 6.3 -----------------------------------------------------------------------------------------------------------


def test_6_3_only_the_first_of_a_series_to_a_group_carries_the_time_of_another() -> None:
    table = quick(FIGURE_4)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    for _ in range(4):
        table.send(1, b"m", group="b")
    carried = [times_in(packet, 3, ["a"]) for packet in table.take_data(1, 3)]
    assert carried == [{"a": [(0, 1)]}, {}, {}, {}]


def test_6_3_news_of_the_other_group_is_carried_again_and_only_news() -> None:
    table = quick(FIGURE_4)
    for sender in (0, 2):
        table.send(sender, b"m", group="a")
        table.pass_on(sender, 1)
        table.send(1, b"m", group="b")
    carried = [times_in(packet, 3, ["a"]) for packet in table.take_data(1, 3)]
    assert carried == [{"a": [(0, 1)]}, {"a": [(2, 1)]}]


def test_6_3_what_came_from_a_group_is_not_repeated_to_it() -> None:
    """p4 has learned of a by a message of b: in c it says so, in b it does not."""
    table = quick({"a": (0, 1, 2), "b": (1, 2, 3), "c": (3, 2)})
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 3)
    table.send(3, b"to c", group="c")
    packets = table.take_data(3, 2, "c")
    assert [times_in(packet, 2, ["a", "b"]) for packet in packets] == [{"a": [(0, 1)], "b": [(0, 1)]}]
    table.arrive(2, *packets)
    table.wait(ACK_NS)
    table.pass_on(2, 3, "c")
    table.send(3, b"to b", group="b")
    assert [times_in(packet, 3, ["a", "c"]) for packet in table.take_data(3, 1, "b")] == [{"c": [(0, 1)]}]


def test_6_3_a_group_in_which_nothing_happened_is_omitted() -> None:
    table = quick(FIGURE_4)
    table.send(1, b"m", group="b")
    assert [times_in(packet, 3, ["a"]) for packet in table.take_data(1, 3)] == [{}]


def test_6_3_an_inactive_group_is_omitted() -> None:
    """All of a has been delivered by all its members, and p2 knows it: its message to b carries nothing."""
    table = quick(FIGURE_4)
    table.send(0, b"m1", group="a")
    table.play(300)
    table.send(1, b"m2", group="b")
    assert [times_in(packet, 3, ["a"]) for packet in table.take_data(1, 3)] == [{}]


def test_6_3_a_group_that_was_flushed_is_omitted() -> None:
    """A flush sets the clock back to zero."""
    table = quick(FIGURE_4, policy="primary")
    table.send(0, b"m1", group="a")
    table.barrier(0, group="a")
    table.play(300)
    assert "a:2: p1 p2 p3" in table.story[1]
    table.send(1, b"m2", group="b")
    assert [times_in(packet, 3, ["a"]) for packet in table.take_data(1, 3)] == [{}]


def test_6_3_the_view_of_another_group_travels_once_all_the_same() -> None:
    """Without entries: so that who was excluded from that group, and does not know it, stops in this one too."""
    table = Table(4, groups=FIGURE_4)
    for _ in range(2):
        table.send(1, b"m", group="b")
    first, second = (section_of(packet, 3) for packet in table.take_data(1, 3))
    assert first is not None
    assert [(time.group, time.view_id, time.entries) for time in first.foreign] == [(wire_id("a"), 1, [])]
    assert second is None


# ---- 6.4 -----------------------------------------------------------------------------------------------------------

SHORT_LIFE = Options(of_stacks={"vector.time_life_ns": 1_000 * MILLISECOND_NS})


def test_6_4_a_group_whose_time_may_be_kept_elsewhere_is_flushed_from_time_to_time() -> None:
    table = quick(FIGURE_4, "primary", SHORT_LIFE)
    table.barrier(0, group="a")
    table.play(100)
    table.send(0, b"m", group="a")
    table.play(700)
    views = [event for event in table.story[0] if event.endswith(": p1 p2 p3")]
    assert len(views) == 3


def test_6_4_the_founding_view_is_flushed_from_time_to_time_too() -> None:
    table = quick(FIGURE_4, "primary", SHORT_LIFE)
    table.send(0, b"m", group="a")
    table.play(700)
    assert table.story[0] == ["a:1: p1 p2 p3", "a:p1#1", "a:2: p1 p2 p3"]


def test_6_4_a_group_that_is_alone_at_all_its_members_is_not_flushed() -> None:
    table = Table(3, SHORT_LIFE, "primary")
    table.barrier(0)
    table.send(0, b"m")
    table.play(1_500)
    assert [event for event in table.story[1] if ": p1" in event] == ["1: p1 p2 p3", "2: p1 p2 p3"]


def test_6_4_a_later_view_makes_the_times_of_the_earlier_one_void() -> None:
    """p3 has heard of a, which it is not in; when p2 tells of the next view of a, p3 has nothing more to pass on of
    the former."""
    table = quick(CHAIN, "primary", SHORT_LIFE)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    table.play(700)
    assert "a:2: p1 p2 p4" in table.story[1]
    table.send(1, b"m3", group="b")
    table.play(10)
    table.send(2, b"m4", group="c")
    [packet] = table.take_data(2, 3, "c")
    assert "a" not in times_in(packet, 2, ["a", "b"])


@pytest.mark.parametrize("milliseconds", [10, 5_000])
def test_6_4_times_of_a_group_that_was_not_flushed_are_kept(milliseconds: int) -> None:
    """Nobody flushes a, whose view never changes. However long m1 takes to p4, it comes before what follows it."""
    table = quick(CHAIN, "static", SHORT_LIFE)
    table.cut(0, 3, "a")
    table.cut(1, 3, "a")
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.play(milliseconds)
    table.send(2, b"m3", group="c")
    table.play(50)
    assert "c:p3#1" not in table.log[3]
    table.mend()
    table.play(500)
    assert table.log[3] == ["a:p1#1", "c:p3#1"]


def test_6_4_times_that_were_heard_just_now_are_kept() -> None:
    """p3 looks for old times shortly after it has heard of a: that one is young, and p4 still waits for m1."""
    table = quick(CHAIN, "primary", SHORT_LIFE)
    table.play(1_500)
    table.barrier(2, group="c")
    table.play(490)
    table.send(0, b"m1", group="a")
    late = table.take_data(0, 3)
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    table.wait(15 * MILLISECOND_NS)
    table.send(2, b"m3", group="c")
    table.pass_on(2, 3)
    assert "c:p3#2" not in table.log[3]
    table.arrive(3, *late)
    assert table.log[3][-2:] == ["a:p1#1", "c:p3#2"]
