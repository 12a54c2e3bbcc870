"""transis-1992, section 5: faults, joins and merges, claim by claim, on engines on a table."""

from antiphon.kernel.effects import Delivered, Installed, Transitional
from antiphon.kernel.levels import AGREED, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from tests.stacks.domain.islands import judge_seed
from tests.table import GROUP, Table

STACK = "domain"


def new_table(members: int) -> Table:
    return Table(members, policy="partitionable", stack=STACK)


def isolate(table: Table, *members: int) -> None:
    """Cut these members off from all others, not from each other."""
    for member in members:
        for other in range(len(table.engines)):
            if other not in members:
                table.cut(member, other)
                table.cut(other, member)


def names_of(table: Table, member: int) -> str:
    return " ".join(sorted(process.name for process in table.views[member][GROUP].members))


def configurations(table: Table, member: int) -> list[int]:
    return [event.view.id for event in table.events[member] if isinstance(event, Installed)]


def test_5_a_processor_that_comes_up_is_a_configuration_by_itself() -> None:
    table = Table(2, policy="partitionable", stack=STACK, groups={GROUP: (0,)})
    table.come(1, GROUP, 0)
    assert names_of(table, 1) == "p2"
    table.play(800)
    assert names_of(table, 0) == names_of(table, 1) == "p1 p2"


def test_5_1_all_deliver_the_same_last_message_of_a_failed_processor() -> None:
    """What p4 has sent last has reached p2 alone."""
    table = new_table(4)
    table.send(3, b"to p2 alone", level=AGREED)
    table.pass_on(3, 1)
    table.crash(3)
    table.play(2_000)
    assert names_of(table, 0) == "p1 p2 p3"
    assert table.log[0] == table.log[1] == table.log[2] == ["p4#1"]
    for member in range(3):
        kinds = [type(event) for event in table.events[member] if isinstance(event, Delivered | Installed)]
        assert kinds == [Installed, Delivered, Installed]


def test_5_1_the_live_processors_agree_on_every_failed_one() -> None:
    table = new_table(6)
    table.crash(4)
    table.play(600)
    table.crash(1)
    table.play(3_000)
    living = [0, 2, 3, 5]
    assert {names_of(table, member) for member in living} == {"p1 p3 p4 p6"}
    assert len({tuple(configurations(table, member)) for member in living}) == 1


def test_5_1_safe_messages_are_not_blocked_by_a_failure() -> None:
    table = new_table(3)
    table.crash(2)
    table.send(0, b"m", level=SAFE)
    table.play(100)
    assert table.log[0] == []
    table.play(2_000)
    assert table.log[0] == table.log[1] == ["p1#1"]


def test_5_1_messages_of_the_failed_that_come_late_are_dropped() -> None:
    table = new_table(3)
    table.send(2, b"late")
    late = table.take(2, 0)
    table.take(2, 1)
    table.crash(2)
    table.play(2_000)
    table.arrive(0, *late)
    table.play(500)
    assert table.log[0] == table.log[1] == []


def test_5_1_messages_sent_while_a_change_is_agreed_on_are_delivered_at_once() -> None:
    """p1 and p2 are to merge with p3 and p4, and p4 has just died: nothing waits for its word."""
    table = new_table(4)
    isolate(table, 0, 1)
    table.play(2_500)
    before = configurations(table, 0)
    table.mend()
    table.crash(3)
    table.play(300)
    sent = 0
    while configurations(table, 0) == before:
        table.send(0, b"m", level=SAFE)
        sent += 1
        table.play(20)
        assert table.log[0] == table.log[1] == [f"p1#{number}" for number in range(1, sent + 1)]
    assert sent > 20
    table.play(1_000)
    assert names_of(table, 0) == names_of(table, 2) == "p1 p2 p3"


def test_5_2_merging_is_symmetric_and_spontaneous() -> None:
    """Nobody asks for it: two halves that hear each other again are one configuration, whatever their order."""
    for part in ((0, 1), (2, 3), (0, 3)):
        table = new_table(4)
        isolate(table, *part)
        table.play(2_500)
        table.mend()
        table.play(1_000)
        assert all(names_of(table, member) == "p1 p2 p3 p4" for member in range(4))
        assert len({configurations(table, member)[-1] for member in range(4)}) == 1


def test_5_2_whole_components_merge_at_once() -> None:
    """Three components of two: the first common configuration has all six, or one more step is needed."""
    table = new_table(6)
    isolate(table, 0, 1)
    isolate(table, 2, 3)
    table.play(2_500)
    before = [len(configurations(table, member)) for member in range(6)]
    table.mend()
    table.play(1_500)
    assert len({configurations(table, member)[-1] for member in range(6)}) == 1
    assert all(len(configurations(table, member)) - before[member] <= 2 for member in range(6))


def test_5_2_messages_from_before_stay_in_their_configurations() -> None:
    table = new_table(4)
    isolate(table, 0, 1)
    table.play(2_500)
    for member in range(4):
        table.send(member, b"m", level=AGREED)
    table.play(100)
    table.mend()
    table.play(1_500)
    assert sorted(table.log[0]) == sorted(table.log[1]) == ["p1#1", "p2#1"]
    assert sorted(table.log[2]) == sorted(table.log[3]) == ["p3#1", "p4#1"]
    installed = [event for event in table.events[0] if isinstance(event, Installed)][-1]
    assert len(installed.parents) == 2


def test_5_2_a_fault_in_the_middle_of_a_join_does_not_hold_it_up() -> None:
    table = new_table(4)
    isolate(table, 0, 1)
    table.play(2_500)
    table.mend()
    while not any(names_of(table, member) == "p1 p2 p3 p4" for member in range(4)):
        table.pass_all()
        table.wait(MILLISECOND_NS)
        if table.now_ns > 2_600 * MILLISECOND_NS:
            table.crash(3)
    table.crash(3)
    table.play(4_000)
    assert {names_of(table, member) for member in range(3)} == {"p1 p2 p3"}


def test_5_2_a_processor_that_moved_is_not_counted_twice() -> None:
    """p1 is cut off from p2 and finds p3 meanwhile; p2 still counts on it when all meet."""
    table = new_table(3)
    isolate(table, 2)
    table.play(2_500)
    table.mend()
    table.cut(0, 1)
    table.cut(1, 0)
    table.cut(2, 1)
    table.cut(1, 2)
    table.play(1_000)
    table.mend()
    table.play(4_000)
    assert {names_of(table, member) for member in range(3)} == {"p1 p2 p3"}
    assert len({configurations(table, member)[-1] for member in range(3)}) == 1


def test_5_virtual_synchrony_through_partitions_and_merges() -> None:
    """Random runs: the same messages between the same configurations, transitional ones and all."""
    for seed in range(2_000, 2_010):
        problems, _ = judge_seed(seed)
        assert problems == []


def test_5_who_comes_along_is_told_before_what_is_delivered_among_them_alone() -> None:
    table = new_table(3)
    table.crash(2)
    table.send(0, b"m", level=SAFE)
    table.play(2_000)
    kinds = [type(event) for event in table.events[1] if isinstance(event, Delivered | Installed | Transitional)]
    assert kinds == [Installed, Transitional, Delivered, Installed]
