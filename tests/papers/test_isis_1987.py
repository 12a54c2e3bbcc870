"""isis-1987, sections 3.1 to 3.5 and 3.8: what the primitives promise, claim by claim."""

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.functions import register_function
from antiphon.kernel.inputs import Flush, Leave
from antiphon.kernel.labels import precedes
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, RELIABLE, SAFE
from antiphon.stacks.label.comparison import check_order_label
from tests.papers.isis_1987_scene import calm, items_on, members, names_on
from tests.stacks.label.scene import LabelTable, Stories, problems, rest
from tests.table import GROUP

# ---- 3.1: GBCAST -----------------------------------------------------------------------------------------------------


def test_3_1_a_view_is_the_same_snapshot_at_all_members() -> None:
    table = members(4, "primary")
    table.crash(3)
    rest(table)
    assert {table.views[each][GROUP].id for each in range(3)} == {2}
    assert len({table.views[each][GROUP].members for each in range(3)}) == 1


def test_3_1_members_learn_of_a_failure_by_a_view() -> None:
    table = members(3, "primary")
    table.crash(2)
    rest(table)
    assert table.story[0][-1] == table.story[1][-1] == "2: p1 p2"


def test_3_1_a_member_withdraws_of_its_own_accord() -> None:
    table = members(3, "primary")
    table.step(1, Leave(GROUP))
    calm(table, 300)
    assert table.story[0][-1] == table.story[2][-1] == "2: p1 p3"


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_3_1_a_gbcast_has_one_place_among_broadcasts_of_any_kind(level: int) -> None:
    table = members(3, "primary")
    for sender in range(3):
        table.tell(sender, level)
    table.barrier(1)
    for sender in range(3):
        table.tell(sender, level)
    rest(table)
    before = [set(log[: log.index("barrier p2#2")]) for log in table.log]
    assert before[0] == before[1] == before[2]
    assert problems(table) == []


def test_3_1_gbcasts_are_ordered_among_each_other() -> None:
    table = members(3, "primary")
    for sender in (2, 0, 1):
        table.barrier(sender)
    rest(table)
    assert table.log[0] == table.log[1] == table.log[2]
    assert len(table.log[0]) == 3


def test_3_1_a_failure_comes_after_all_messages_of_the_failed() -> None:
    table = members(3, "primary")
    table.tell(2, CAUSAL)
    table.pass_on(2, 0)
    table.drop_all()
    table.crash(2)
    rest(table)
    assert table.story[1] == ["1: p1 p2 p3", "p3#1", "2: p1 p2"]


def test_3_1_who_is_observed_to_fail_is_never_heard_from_again() -> None:
    table = members(3, "primary")
    table.tell(2, CAUSAL)
    late = table.take(2, 0) + table.take(2, 1)
    table.crash(2)
    rest(table)
    table.arrive(0, *late)
    table.arrive(1, *late)
    calm(table)
    assert "p3#1" not in table.log[0] + table.log[1]


def test_3_1_a_process_that_joins_sees_the_same_from_its_first_view_on() -> None:
    table = LabelTable(3, founders=2)
    table.tell(0, CAUSAL)
    table.come(2, GROUP, 0)
    for _ in range(5):
        table.tell(1, AGREED)
        table.play(20)
    rest(table)
    assert table.story[2][0] == "2: p1 p2 p3"
    assert table.log[2] == table.story[0][table.story[0].index("2: p1 p2 p3") + 1 :]


# ---- 3.2: ABCAST -----------------------------------------------------------------------------------------------------


def test_3_2_copies_of_a_queue_stay_equal() -> None:
    table = members(4)
    for sender in (0, 1, 2, 3, 2, 1):
        table.tell(sender, AGREED)
    calm(table)
    assert len(table.log[0]) == 6
    assert all(log == table.log[0] for log in table.log)


def test_3_2_an_abcast_is_delivered_by_all_or_by_none() -> None:
    table = members(3, "primary")
    table.tell(2, AGREED)
    table.pass_on(2, 0)
    table.drop_all()
    table.crash(2)
    rest(table)
    assert table.log[0] == table.log[1] == ["p3#1"]


def test_3_2_an_abcast_that_nobody_got_is_delivered_by_none() -> None:
    table = members(3, "primary")
    table.tell(2, AGREED)
    table.drop_all()
    table.crash(2)
    rest(table)
    assert table.log[0] == table.log[1] == []


def test_3_2_the_order_is_not_determined_in_advance() -> None:
    """The same sends in two orders of arrival: one order for all each time, not the same one both times."""
    orders = set()
    for first in (0, 1):
        table = members(2)
        table.tell(0, AGREED)
        table.tell(1, AGREED)
        table.pass_on(first, 1 - first)
        calm(table)
        assert table.log[0] == table.log[1]
        orders.add(tuple(table.log[0]))
    assert orders <= {("p1#1", "p2#1"), ("p2#1", "p1#1")}


def orders_after(level: int, effect: int) -> tuple[list[str], list[str]]:
    """Nine messages at once, and a process that dies at this effect: what it had delivered, what a survivor does."""
    table = LabelTable(3, {effect})
    for _ in range(3):
        for sender in (2, 0, 1):
            table.tell(sender, level)
        table.pass_on(2, 0)
        table.pass_on(0, 1)
    rest(table)
    assert problems(table) == []
    failed = [member for member in range(3) if member in table.gone]
    return table.log[failed[0]] if failed else [], table.log[table.survivors()[0]]


def is_prefix(some: list[str], more: list[str]) -> bool:
    return some == more[: len(some)]


def exercise(level: int) -> tuple[list[str], list[str]]:
    """Two messages; the final priority of the second, which is lower, reaches p3 alone. Then its sender dies, and p3 as
    soon as it has delivered what it could. What p3 had delivered, and what the survivors deliver."""
    table = members(5, "primary")
    table.tell(0, level)
    table.tell(1, level)
    for sender in (1, 0):
        for other in range(5):
            table.pass_on(sender, other)
    for other in range(5):
        table.pass_on(other, 0)
        table.pass_on(other, 1)
    table.pass_on(1, 2)
    table.pass_on(0, 2)
    table.drop_all()
    table.crash(1, 2)
    rest(table)
    assert problems(table) == []
    assert table.log[0] == table.log[3] == table.log[4]
    return table.log[2], table.log[0]


def test_3_2_the_exercise_a_recipient_may_die_with_an_order_of_its_own() -> None:
    """The survivors agree with each other, not with one that delivered and died at once."""
    assert exercise(AGREED) == (["p2#1", "p1#1"], ["p1#1", "p2#1"])


def test_3_2_the_exercise_with_a_further_phase_it_cannot() -> None:
    assert exercise(SAFE) == ([], ["p1#1", "p2#1"])
    assert all(is_prefix(*orders_after(SAFE, effect)) for effect in range(1, 80))


@pytest.mark.parametrize("effect", range(1, 80, 4))
def test_3_2_survivors_have_one_order_at_whichever_effect_somebody_dies(effect: int) -> None:
    orders_after(AGREED, effect)


def test_3_2_survivors_agree_whatever_the_failed_had_delivered() -> None:
    table = members(4, "primary")
    for sender in range(4):
        table.tell(sender, AGREED)
    for _ in range(2):
        for sender in range(4):
            table.pass_on(sender, 3)
        for sender in range(4):
            table.pass_on(3, sender)
    table.crash(3)
    rest(table)
    assert table.log[0] == table.log[1] == table.log[2]
    assert problems(table) == []


@pytest.mark.parametrize("effect", range(10, 80, 3))
def test_3_2_with_a_further_phase_the_failed_had_delivered_the_same(effect: int) -> None:
    table = LabelTable(3, {effect})
    for _ in range(3):
        for sender in range(3):
            table.tell(sender, SAFE)
        table.pass_all()
        table.pass_all()
    rest(table)
    assert problems(table) == []
    survivor = table.log[table.survivors()[0]]
    for log in table.log:
        assert log == survivor[: len(log)]


def test_3_2_the_further_phase_is_one_more_round_than_agreed() -> None:
    rounds = {}
    for level in (AGREED, SAFE):
        table = members(3)
        table.tell(0, level)
        rounds[level] = 0
        while not table.log[1]:
            table.pass_all()
            rounds[level] += 1
    assert rounds == {AGREED: 3, SAFE: 5}


# ---- 3.3: CBCAST -----------------------------------------------------------------------------------------------------


def test_3_3_set_to_zero_comes_before_increment_at_every_copy() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#1"]


def test_3_3_what_is_not_potentially_causal_comes_in_any_order() -> None:
    table = members(4)
    table.tell(0, CAUSAL)
    table.tell(1, CAUSAL)
    table.pass_on(0, 2)
    table.pass_on(1, 3)
    table.pass_on(0, 3)
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#1"]
    assert table.log[3] == ["p2#1", "p1#1"]


def test_3_3_labels_may_be_incomparable() -> None:
    assert not precedes(b"vector=1,2", b"vector=2,1")
    assert not precedes(b"vector=2,1", b"vector=1,2")
    assert precedes(b"vector=1,1", b"vector=1,2")


def test_3_3_labels_of_different_comparisons_are_incomparable() -> None:
    assert precedes(b"clock=1", b"clock=2")
    assert not precedes(b"clock=1", b"vector=2")
    assert not precedes(b"clock=1", b"none=2")


def test_3_3_an_application_gives_its_own_comparison() -> None:
    register_function("length", lambda first, second: len(first) - len(second))
    assert precedes(b"length=xx", b"length=xxx")
    table = members(2, lazy_us=5000)
    table.tell(0, RELIABLE, label="length=x")
    table.tell(0, RELIABLE, label="length=xx")
    calm(table)
    assert table.log[1] == ["p1#1", "p1#2"]


def test_3_3_b_precedes_b_by_the_same_sender_and_a_lesser_label() -> None:
    table = members(2)
    table.tell(0, RELIABLE, label="clock=1")
    table.tell(0, RELIABLE, label="clock=2")
    stories = Stories(table)
    assert stories.preceding()["p1", 2] == {("p1", 1)}


def test_3_3_b_precedes_b_if_it_was_delivered_at_the_sender() -> None:
    table = members(3)
    table.tell(0, RELIABLE, label="clock=1")
    table.pass_on(0, 1)
    table.tell(1, RELIABLE, label="clock=2")
    assert names_on(table, 1, 2) == ["p1.1", "p2.1"]
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#1"]


def test_3_3_precedes_is_transitive() -> None:
    table = members(4)
    table.tell(0, RELIABLE, label="clock=1")
    table.pass_on(0, 1)
    table.tell(1, RELIABLE, [2], label="clock=2")
    table.pass_on(1, 2)
    table.tell(2, RELIABLE, label="clock=3")
    table.pass_on(2, 3)
    assert table.log[3] == ["p1#1", "p3#1"]
    assert Stories(table).preceding()["p3", 1] == {("p1", 1), ("p2", 1)}


def test_3_3_updates_of_different_variables_are_not_ordered() -> None:
    """p updates x, lazily, then y at once: the update of y does not wait for that of x."""
    table = members(2, lazy_us=5000)
    table.tell(0, CAUSAL)
    table.tell(0, RELIABLE, label="clock=1")
    assert names_on(table, 0, 1) == ["p1.2"]
    calm(table)
    assert sorted(table.log[1]) == ["p1#1", "p1#2"]


def test_3_3_a_lesser_label_goes_first_even_if_it_was_to_wait() -> None:
    table = members(2, lazy_us=5000)
    table.tell(0, CAUSAL)
    table.tell(0, RELIABLE, label="clock=1")
    table.tell(0, RELIABLE, label="clock=2")
    calm(table)
    log = table.log[1]
    assert log.index("p1#2") < log.index("p1#3")


def test_3_3_a_lesser_label_travels_by_way_of_others_too() -> None:
    """p1 to p2, slowly; p1 to p3; p3 to p2: the labels rise, so what p1 sent to p2 comes first, by way of p3."""
    table = members(3)
    table.tell(0, RELIABLE, [1], label="clock=1")
    table.tell(0, RELIABLE, [2], label="clock=2")
    table.pass_on(0, 2)
    table.tell(2, RELIABLE, [1], label="clock=3")
    table.pass_on(2, 1)
    assert table.log[1] == ["private p1#1", "private p3#1"]


def test_3_3_a_label_that_violates_potential_causality_orders_nothing() -> None:
    table = members(2)
    table.tell(0, RELIABLE, label="clock=2")
    table.tell(0, RELIABLE, label="clock=1")
    assert Stories(table).preceding()["p1", 2] == set()


def test_3_3_causal_messages_wait_for_what_a_labelled_one_came_ahead_of() -> None:
    """p2 has a labelled message of p1, but not the causal one before it: what p2 sends then must come after both."""
    table = members(3, lazy_us=5000)
    table.tell(0, CAUSAL)
    table.tell(0, RELIABLE, label="clock=1")
    table.pass_on(0, 1)
    assert table.log[1] == ["p1#2"]
    table.tell(1, CAUSAL)
    assert names_on(table, 1, 2) == []
    calm(table)
    assert table.log[2].index("p1#1") < table.log[2].index("p2#1")


def test_3_3_a_logical_clock_is_the_conservative_label() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    first, second = items_on(table, 1, 2)
    assert first.clock < second.clock


def test_3_3_a_label_needs_a_comparison_that_is_known_and_can_read_it() -> None:
    with pytest.raises(UsageError, match="no function 'unheard of'"):
        check_order_label("unheard of=1", RELIABLE)
    with pytest.raises(UsageError, match="cannot read the label 'clock=soon'"):
        check_order_label("clock=soon", RELIABLE)
    with pytest.raises(UsageError, match="`reliable`, not 'agreed'"):
        check_order_label("clock=1", AGREED)
    check_order_label("just a text", AGREED)


def test_3_3_bottles_under_taps_need_a_message_to_whoever_opens_them() -> None:
    """Without it the two are concurrent; with it the order holds at every device."""
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 2)
    table.tell(2, CAUSAL, [1])
    table.pass_on(2, 1)
    table.tell(1, CAUSAL)
    table.pass_on(1, 2)
    assert table.log[2].index("p1#1") < table.log[2].index("p2#1")


# ---- 3.4: further primitives -----------------------------------------------------------------------------------------


def test_3_4_causal_atomic_broadcast_keeps_both_orders() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.tell(0, AGREED)
    table.pass_on(0, 1)
    table.tell(1, AGREED)
    calm(table)
    assert table.log[0] == table.log[1] == table.log[2]
    assert table.log[0].index("p1#1") < table.log[0].index("p1#2")
    assert problems(table) == []


def test_3_4_causal_messages_come_after_agreed_ones_that_their_sender_had_delivered() -> None:
    table = members(3)
    table.tell(0, AGREED)
    for _ in range(6):
        table.pass_on(0, 1)
        table.pass_on(1, 0)
        table.pass_on(0, 2)
        table.pass_on(2, 0)
        if table.log[1]:
            break
    table.tell(1, CAUSAL)
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#1"]


def test_3_4_minimal_broadcast_is_delivered_whatever_is_missing() -> None:
    table = members(2, lazy_us=5000)
    table.tell(0, CAUSAL)
    table.tell(0, RELIABLE, label="none=")
    table.pass_on(0, 1)
    assert table.log[1] == ["p1#2"]
    calm(table)
    assert sorted(table.log[1]) == ["p1#1", "p1#2"]


# ---- 3.5: asynchronous use -------------------------------------------------------------------------------------------


def test_3_5_the_sender_goes_on_as_if_the_message_had_been_delivered() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    assert table.log[0] == ["p1#1"]
    assert table.log[1] == []


def test_3_5_transmission_may_be_delayed_for_company() -> None:
    table = members(2, lazy_us=5000)
    for _ in range(4):
        table.tell(0, CAUSAL)
    assert table.take_data(0, 1) == []
    table.wait(6_000_000)
    assert names_on(table, 0, 1) == ["p1.1", "p1.2", "p1.3", "p1.4"]
    assert len(table.take_data(0, 1)) == 1


def test_3_5_no_message_is_delayed_for_ever() -> None:
    table = members(2, lazy_us=5000)
    table.tell(0, CAUSAL)
    calm(table, 20)
    assert table.log[1] == ["p1#1"]


def test_3_5_what_needs_an_answer_takes_along_what_waits() -> None:
    table = members(2, lazy_us=5000)
    table.tell(0, CAUSAL)
    table.tell(0, AGREED)
    assert names_on(table, 0, 1) == ["p1.1", "p1.2"]


def test_3_5_atomicity_reaches_over_causal_chains() -> None:
    """p1 sends m to p2 and p3 and dies; p2 sends to p4 and dies: p3 gets m, though only p4 is left that has it."""
    table = members(5, "primary")
    table.tell(0, CAUSAL, [1, 2])
    table.pass_on(0, 1)
    table.drop_all()
    table.crash(0)
    table.tell(1, CAUSAL, [3])
    table.pass_on(1, 3)
    table.drop_all()
    table.crash(1)
    rest(table)
    assert table.log[2] == ["private p1#1"]
    assert problems(table) == []


def test_3_5_atomicity_reaches_over_chains_whatever_the_labels() -> None:
    table = members(5, "primary")
    table.tell(0, RELIABLE, [1, 2], label="clock=7")
    table.pass_on(0, 1)
    table.drop_all()
    table.crash(0)
    table.tell(1, RELIABLE, [3], label="none=x")
    table.pass_on(1, 3)
    table.drop_all()
    table.crash(1)
    rest(table)
    assert table.log[2] == ["private p1#1"]


def test_3_5_a_suffix_of_asynchronous_messages_may_be_lost_and_no_more() -> None:
    table = members(3, "primary")
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(0, CAUSAL)
    table.drop_all()
    table.crash(0)
    rest(table)
    assert table.log[1] == table.log[2] == ["p1#1"]


def test_3_5_flush_waits_until_all_has_been_delivered() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    effects = table.step(0, Flush(request=1, groups=(GROUP,)))
    assert not effects.events
    calm(table)
    assert any(type(event).__name__ == "Flushed" for event in table.events[0])
    assert table.log[1] == table.log[2] == ["p1#1"]


def test_3_5_flush_waits_for_messages_of_others_that_one_depends_on() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.drop_all()
    table.step(1, Flush(request=1, groups=(GROUP,)))
    table.pass_on(1, 0)
    assert not any(type(event).__name__ == "Flushed" for event in table.events[1])
    calm(table, 400)
    assert any(type(event).__name__ == "Flushed" for event in table.events[1])
    assert table.log[2] == ["p1#1"]


# ---- 3.6: addressing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [RELIABLE, FIFO, CAUSAL, AGREED, SAFE])
def test_3_6_destinations_are_any_set_of_members(level: int) -> None:
    table = members(4)
    table.tell(0, level, [1, 3])
    calm(table)
    assert [len(log) for log in table.log] == [0, 1, 0, 1]


def test_3_6_who_fails_is_treated_as_if_it_had_been_served() -> None:
    table = members(3, "primary")
    table.crash(2)
    table.tell(0, CAUSAL)
    rest(table)
    assert table.log[1] == ["p1#1"]
    assert not table.outstanding(0)


def test_3_6_members_never_iterate() -> None:
    """A message that waits while the view changes leaves once, in the next view, to its members."""
    table = members(3, "primary")
    table.barrier(0)
    table.tell(0, CAUSAL)
    rest(table)
    assert [log.count("p1#1") + log.count("p1#2") for log in table.log] == [1, 1, 1]
    assert all(log.index("barrier p1#1") < log.index("p1#2") for log in table.log)


# ---- 3.8: figure 1 ---------------------------------------------------------------------------------------------------


def test_3_8_figure_1_clients_and_a_group_that_loses_a_member() -> None:
    """Two clients send to a group of three: their requests may come in different orders at different members, but each
    comes before or after the failure at all of them alike."""
    table = members(5, "primary")
    group = [2, 3, 4]
    table.tell(0, CAUSAL, group)
    table.tell(1, CAUSAL, group)
    table.pass_on(0, 2)
    table.pass_on(1, 3)
    table.pass_on(1, 2)
    table.pass_on(0, 3)
    assert table.log[2] == ["private p1#1", "private p2#1"]
    assert table.log[3] == ["private p2#1", "private p1#1"]
    table.crash(4)
    table.tell(0, AGREED, [2, 3])
    rest(table)
    assert problems(table) == []
    assert table.log[2][-1] == table.log[3][-1] == "private p1#2"


def test_3_8_replies_may_come_from_one_or_from_all() -> None:
    table = members(3)
    table.tell(0, CAUSAL, [1, 2])
    calm(table)
    for member in (1, 2):
        table.tell(member, CAUSAL, [0])
    calm(table)
    assert sorted(table.log[0]) == ["private p2#1", "private p3#1"]
