"""Claims of isis-1987 about ABCAST by label (3.2, 4.3.1): level `abcast` of the stack `label`."""

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import ABCAST, AGREED, CAUSAL, RELIABLE
from antiphon.stacks.label.item import COMMIT
from tests.papers.isis_1987_scene import calm, items_on, members
from tests.stacks.label.scene import LabelTable, problems, rest
from tests.table import GROUP


def crossed(labels: tuple[str, str]) -> list[list[str]]:
    """p1 and p2 each send an ABCAST; each gets its own first, and both get the final priorities in the order that would
    let them deliver their own first. What each has delivered."""
    table = members(3)
    table.tell(0, ABCAST, label=labels[0])
    table.tell(1, ABCAST, label=labels[1])
    for sender in (0, 1, 2):
        for other in (2, 1, 0):
            table.pass_on(sender, other)
    calm(table)
    return table.log


def test_3_2_abcasts_of_one_label_come_in_one_order() -> None:
    logs = crossed(("queue", "queue"))
    assert sorted(logs[0]) == ["p1#1", "p2#1"]
    assert logs[0] == logs[1] == logs[2]


def test_3_2_abcasts_of_different_labels_wait_for_nothing_of_each_other() -> None:
    """p3's answer to p1 is lost for now; p2's ABCAST of another label is delivered meanwhile, of the same it is not."""
    for label, expected in (("other", ["p2#1"]), ("queue", [])):
        table = members(3)
        table.tell(0, ABCAST, label="queue")
        for other in (1, 2):
            table.pass_on(0, other)
        table.take(2, 0)
        table.tell(1, ABCAST, label=label)
        for _ in range(3):
            for link in ((1, 0), (1, 2), (0, 1), (2, 1)):
                table.pass_on(*link)
        assert table.log[2] == expected, label
        calm(table)
        assert len(table.log[2]) == 2


def test_3_2_a_queue_is_there_while_something_waits_for_it() -> None:
    table = members(2)
    for number in range(40):
        table.tell(0, ABCAST, label=f"item {number}")
    table.pass_on(0, 1)
    assert table.session(1).queues.lines() > 10
    calm(table)
    assert table.session(0).queues.lines() == table.session(1).queues.lines() == 0
    assert len(table.log[1]) == 40


def test_3_2_a_label_is_any_text_and_may_be_none() -> None:
    table = members(2)
    for label in ("", "x", "no=comparison", "é"):
        table.tell(0, ABCAST, label=label)
    calm(table)
    assert len(table.log[1]) == 4
    with pytest.raises(UsageError, match="at most 200 bytes"):
        table.step(0, Send(group=GROUP, payloads=[b"m"], level=ABCAST, label="x" * 201))


def test_3_2_destinations_alone_take_part() -> None:
    """Who is no destination gets neither the message nor its place, and is not asked."""
    table = members(4)
    table.tell(0, ABCAST, (1, 2), "queue")
    assert items_on(table, 0, 3) == []
    for other in (1, 2):
        table.pass_on(0, other)
        table.pass_on(other, 0)
    assert [item.kind for item in items_on(table, 0, 1)] == [COMMIT]
    assert items_on(table, 0, 3) == []
    calm(table)
    assert table.log == [[], ["private p1#1"], ["private p1#1"], []]


def test_3_2_overlapping_destinations_agree() -> None:
    """Three labels' worth of ABCASTs to {p1, p2}, {p2, p3}, {p3, p1}: no cycle among those of a label."""
    table = members(3)
    for round_ in range(4):
        for sender, to in ((0, (0, 1)), (1, (1, 2)), (2, (2, 0))):
            table.tell(sender, ABCAST, to, f"label {round_ % 2}")
    for link in ((2, 1), (0, 2), (1, 0)):
        table.pass_on(*link)
    calm(table)
    assert problems(table) == []
    assert [len(log) for log in table.log] == [8, 8, 8]


def test_3_2_an_abcast_of_a_failed_sender_is_delivered_by_all_or_none() -> None:
    for to_one in (True, False):
        table = members(3, "primary")
        table.tell(2, ABCAST, label="queue")
        if to_one:
            table.pass_on(2, 0)
        table.drop_all()
        table.crash(2)
        rest(table)
        assert table.log[0] == table.log[1] == (["p3#1"] if to_one else [])


@pytest.mark.parametrize("effect", range(1, 40, 3))
def test_4_3_1_participants_complete_abcasts_of_each_label(effect: int) -> None:
    table = LabelTable(4, {effect, effect + 7})
    for sender in (0, 1, 0):
        table.tell(sender, ABCAST, label="red")
        table.tell(sender, ABCAST, (1, 2), "blue")
    rest(table)
    assert problems(table) == []


def test_4_3_1_one_successor_at_a_time_completes_what_others_began() -> None:
    """The sender dies after one final priority has left, then the oldest survivor, which led the takeover: what one
    survivor has delivered stands where it was, first."""
    table = members(5, "primary")
    table.tell(0, ABCAST, label="queue")
    table.tell(1, ABCAST, label="queue")
    for sender in (0, 1):
        for other in range(5):
            table.pass_on(sender, other)
    for other in range(5):
        table.pass_on(other, 0)
    table.pass_on(0, 4)  # p5 has the final priority of p1#1
    table.drop_all()
    before = list(table.log[4])
    table.crash(0)
    table.play(70)
    table.crash(1)
    rest(table)
    assert before == ["p1#1"]
    assert table.log[2] == table.log[3] == table.log[4]
    assert table.log[4][0] == "p1#1"
    assert sorted(table.log[4]) == ["p1#1", "p2#1"]


def test_4_3_1_survivors_agree_on_what_nobody_had_a_final_priority_of() -> None:
    """Two senders die before either has all answers; p3 had the one ABCAST first, p4 the other."""
    table = members(5, "primary")
    table.tell(0, ABCAST, label="queue")
    table.tell(1, ABCAST, label="queue")
    for link in ((0, 2), (1, 2), (1, 3), (0, 3), (0, 4), (1, 4)):
        table.pass_on(*link)
    table.drop_all()
    table.crash(0)
    table.crash(1)
    rest(table)
    assert sorted(table.log[2]) == ["p1#1", "p2#1"]
    assert table.log[2] == table.log[3] == table.log[4]


def test_4_3_1_what_a_survivor_has_delivered_comes_first_at_all() -> None:
    """p5 delivers p2's ABCAST, and dies not; p1's, which is older, has reached p3 alone. Both senders die."""
    table = members(5, "primary")
    table.tell(0, ABCAST, (2, 3, 4), "queue")
    table.pass_on(0, 2)
    table.tell(1, ABCAST, (2, 3, 4), "queue")
    for other in (2, 3, 4):
        table.pass_on(1, other)
        table.pass_on(other, 1)
    table.pass_on(1, 4)
    table.drop_all()
    assert table.log[4] == ["private p2#1"]
    table.crash(0)
    table.crash(1)
    rest(table)
    assert table.log[2] == table.log[3] == table.log[4] == ["private p2#1", "private p1#1"]


def test_4_3_1_a_gbcast_is_on_every_queue() -> None:
    """A barrier stands at one place among ABCASTs of all labels, whatever is open when it comes."""
    table = members(3, "primary")
    for sender in (0, 1, 2):
        table.tell(sender, ABCAST, label=f"label {sender}")
    table.pass_on(0, 1)
    table.barrier(1)
    for sender in (2, 1, 0):
        table.tell(sender, ABCAST, label="label 0")
    rest(table)
    assert problems(table) == []
    cuts = [next(place for place, name in enumerate(log) if name.startswith("barrier")) for log in table.log]
    assert len({frozenset(log[:cut]) for log, cut in zip(table.log, cuts, strict=True)}) == 1
    assert all(cut >= 3 for cut in cuts)


def test_4_3_1_of_a_long_abcast_the_last_fragment_has_the_place() -> None:
    table = members(3)
    table.tell(0, ABCAST, label="long", size=9000)
    table.tell(1, ABCAST, label="long")
    table.tell(0, ABCAST, label="other")
    calm(table)
    assert table.log[0].index("p1#1") >= 0
    assert [name for name in table.log[0] if name != "p1#2"] == [name for name in table.log[2] if name != "p1#2"]
    assert problems(table) == []


def test_3_2_causal_messages_come_after_abcasts_that_happened_before_them() -> None:
    """(beyond) An ABCAST is in no order with what its sender sends after it; a causal message is."""
    table = members(3)
    table.tell(0, ABCAST, label="queue")
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    assert table.log[1] == []
    assert table.session(1).held() == 2
    calm(table)
    assert table.log[1] == ["p1#1", "p1#2"]


def test_3_2_labelled_messages_do_not_wait_for_abcasts() -> None:
    table = members(3)
    table.tell(0, ABCAST, label="queue")
    table.tell(0, RELIABLE, label="clock=1")
    table.pass_on(0, 1)
    assert table.log[1] == ["p1#2"]


def test_3_4_agreed_is_one_order_over_all_labels_and_abcast_is_not() -> None:
    """Two labels, each in its own order at all members: over both there may be none."""
    seen = set()
    for seed in range(12):
        table = members(3)
        for sender in (0, 1, 2):
            table.tell(sender, ABCAST, label=f"of {sender}")
        for link in ((seed % 3, 0), (seed % 2, 1), (2, seed % 2)):
            table.pass_on(*link)
        calm(table)
        seen |= {tuple(log) for log in table.log}
        table = members(3)
        for sender in (0, 1, 2):
            table.tell(sender, AGREED)
        calm(table)
        assert table.log[0] == table.log[1] == table.log[2]
    assert len(seen) > 1


def test_3_4_causal_messages_tell_the_place_of_agreed_ones_behind_open_ones() -> None:
    """p3 has an open broadcast of p4 before p1's, which p2 has delivered without having seen the other."""
    table = members(4)
    for _ in range(5):
        table.tell(1, CAUSAL, (1,))  # p2's clock is ahead
    table.tell(3, AGREED)
    table.pass_on(3, 2)
    table.tell(0, AGREED)
    for other in (1, 2, 3):
        table.pass_on(0, other)
        table.pass_on(other, 0)
    table.pass_on(0, 1)
    assert table.log[1][-1] == "p1#1"
    table.tell(1, CAUSAL)
    table.pass_on(0, 2)
    assert table.log[2] == []
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#6"]
