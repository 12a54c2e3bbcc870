"""Configurations that part and merge, on engines on a table."""

import pytest

from antiphon.kernel.effects import Delivered, Ended, Installed, Suspected, Transitional
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Leave
from antiphon.kernel.levels import AGREED, SAFE
from tests.table import GROUP, Table

STACK = "domain"


def new_table(members: int) -> Table:
    return Table(members, policy="partitionable", stack=STACK)


def split(table: Table, *parts: tuple[int, ...]) -> None:
    """Cut all links between these sets of members."""
    for part in parts:
        for other in parts:
            if other is not part:
                for one in part:
                    for two in other:
                        table.cut(one, two)


def members_of(table: Table, member: int) -> list[str]:
    return sorted(process.name for process in table.views[member][GROUP].members)


def test_a_member_that_dies_is_dropped_and_the_rest_goes_on() -> None:
    table = new_table(3)
    table.send(0, b"x", level=AGREED)
    table.play(20)
    table.crash(2)
    table.play(2_000)
    assert members_of(table, 0) == members_of(table, 1) == ["p1", "p2"]
    assert table.views[0][GROUP].id == table.views[1][GROUP].id
    table.send(1, b"y", level=SAFE)
    table.play(100)
    assert table.log[0] == table.log[1] == ["p1#1", "p2#1"]


def test_what_one_survivor_alone_holds_is_fetched_when_the_configuration_is_closed() -> None:
    """The last message of p4 comes to p2 when p1 suggests to go on without p4: too late for a negative ack before all
    have closed."""
    table = new_table(4)
    table.play(300)
    table.cut(3, 0)
    table.cut(3, 2)
    table.play(600)
    table.send(3, b"last", level=AGREED)
    late = table.take(3, 1)
    table.crash(3)
    while not any(isinstance(event, Suspected) for event in table.events[0]):
        table.play(1)
    table.arrive(1, *late)
    table.play(300)
    assert members_of(table, 0) == members_of(table, 1) == members_of(table, 2) == ["p1", "p2", "p3"]
    assert table.log[0] == table.log[1] == table.log[2] == ["p4#1"]
    assert sum(isinstance(event, Installed) for event in table.events[0]) == 2


def test_both_sides_of_a_partition_go_on_and_merge() -> None:
    table = new_table(5)
    split(table, (0, 1), (2, 3, 4))
    table.play(2_500)
    assert members_of(table, 0) == members_of(table, 1) == ["p1", "p2"]
    assert members_of(table, 2) == members_of(table, 4) == ["p3", "p4", "p5"]
    for member in range(5):
        table.send(member, b"apart", level=SAFE)
    table.play(200)
    assert sorted(table.log[0]) == ["p1#1", "p2#1"]
    assert sorted(table.log[3]) == ["p3#1", "p4#1", "p5#1"]
    table.mend()
    table.play(1_500)
    assert all(members_of(table, member) == ["p1", "p2", "p3", "p4", "p5"] for member in range(5))
    assert len({table.views[member][GROUP].id for member in range(5)}) == 1
    for member in range(5):
        table.send(member, b"together", level=AGREED)
    table.play(200)
    assert [log[-5:] for log in table.log] == [table.log[0][-5:]] * 5
    changes = [sum(isinstance(event, Installed) for event in events) for events in table.events]
    assert max(changes) <= 4


def test_four_components_merge_into_one() -> None:
    table = new_table(7)
    split(table, (0, 1), (2, 3), (4, 5), (6,))
    table.play(2_500)
    assert members_of(table, 6) == ["p7"]
    table.mend()
    table.play(2_500)
    assert len({table.views[member][GROUP].id for member in range(7)}) == 1
    assert len(table.views[0][GROUP].members) == 7


def test_processes_that_join_by_contacts_find_together() -> None:
    table = Table(4, policy="partitionable", stack=STACK, groups={GROUP: (0,)})
    for member in (1, 2, 3):
        table.come(member, GROUP, 0)
    table.play(1_500)
    assert all(members_of(table, member) == ["p1", "p2", "p3", "p4"] for member in range(4))


def test_the_application_is_told_who_comes_along_before_each_configuration() -> None:
    table = new_table(4)
    split(table, (0, 1), (2, 3))
    for member in range(4):
        table.send(member, b"m", level=SAFE)
    table.play(2_500)
    for member, mates in ((0, ["p1", "p2"]), (1, ["p1", "p2"]), (2, ["p3", "p4"])):
        kinds = [event for event in table.events[member] if isinstance(event, Installed | Transitional | Delivered)]
        places = [place for place, event in enumerate(kinds) if isinstance(event, Transitional)]
        assert len(places) == 1
        told = [event for event in kinds if isinstance(event, Transitional)]
        assert [process.name for process in told[0].members] == mates
        assert all(isinstance(event, Delivered) for event in kinds[places[0] + 1 : -1])
        assert isinstance(kinds[-1], Installed)
        assert len([event for event in kinds[places[0] :] if isinstance(event, Delivered)]) == 2


def test_a_member_leaves_in_good_order() -> None:
    table = new_table(3)
    table.send(2, b"last words")
    table.step(2, Leave(GROUP))
    table.play(1_000)
    assert [event.excluded for event in table.events[2] if isinstance(event, Ended)] == [False]
    assert members_of(table, 0) == members_of(table, 1) == ["p1", "p2"]
    installed = [event for event in table.events[0] if isinstance(event, Installed)][-1]
    assert [process.name for process in installed.left] == ["p3"]
    assert table.log[0] == table.log[1] == ["p3#1"]


def test_a_barrier_is_refused() -> None:
    with pytest.raises(UsageError, match="may part, so it has no barriers"):
        new_table(2).barrier(0, b"")
