"""Links that work one way, are not transitive, or come and go; members that are slow or mad: which configurations come
of it, in virtual time."""

import pytest

from antiphon.kernel.effects import Installed, Suspected
from antiphon.kernel.inputs import Pause
from antiphon.kernel.levels import AGREED
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import DATA, STATUS
from tests.stacks.domain.test_partitionable import STACK, members_of, new_table, split
from tests.table import GROUP, Table

SETTLED_MS = 4_000
"""Silence and doubt, and a suggestion that comes to nothing, with some tries."""


def installs(table: Table, member: int) -> int:
    return sum(isinstance(event, Installed) for event in table.events[member])


@pytest.mark.parametrize(
    ("members", "cuts", "expected"),
    [
        (4, [(0, 1), (1, 0)], ["p1 p3 p4", "p2", "p1 p3 p4", "p1 p3 p4"]),  # corosync's 1-3 and 2-3, and not 1-2
        (3, [(0, 2), (2, 0)], ["p1 p2", "p1 p2", "p3"]),
        (4, [(0, 1)], ["p1 p3 p4", "p2", "p1 p3 p4", "p1 p3 p4"]),  # p2 does not hear p1
        (4, [(3, 0), (3, 1), (3, 2)], ["p1 p2 p3", "p1 p2 p3", "p1 p2 p3", "p4"]),  # nobody hears p4
        (5, [(0, 1), (1, 0), (2, 3), (3, 2)], ["p1 p3 p5", "p2 p4", "p1 p3 p5", "p2 p4", "p1 p3 p5"]),
    ],
)
def test_bad_links_settle_into_the_largest_sets_that_hear_each_other(
    members: int, cuts: list[tuple[int, int]], expected: list[str]
) -> None:
    """Of sets as large, that of the older members. Then nothing changes any more, as long as the links stay so."""
    table = new_table(members)
    table.play(300)
    for one, other in cuts:
        table.cut(one, other)
    table.play(SETTLED_MS)
    assert [" ".join(members_of(table, member)) for member in range(members)] == expected
    before = [installs(table, member) for member in range(members)]
    assert max(before) <= 4
    table.play(15_000)
    assert [installs(table, member) for member in range(members)] == before
    table.mend()
    table.play(2_000)
    assert len({table.views[member][GROUP].id for member in range(members)}) == 1


def test_a_silent_member_is_asked_by_itself_before_it_is_given_up() -> None:
    """All packets of the flow from p3 to p1 are lost, of whatever kind, but its answers to probes are not."""
    table = new_table(3)
    table.play(300)
    table.lose_kinds(2, 0, (DATA, STATUS))
    table.play(3_000)
    assert members_of(table, 0) == ["p1", "p2", "p3"]
    assert installs(table, 0) == 1
    table.cut(2, 0)
    table.play(6_000)  # it had been silent for a second again and again, so it is given longer
    assert members_of(table, 0) == ["p1", "p2"]


def test_a_flapping_link_makes_fewer_and_fewer_configurations() -> None:
    table = new_table(3)
    counts: list[int] = []
    for _ in range(3):
        before = installs(table, 0)
        for _ in range(5):
            split(table, (0, 1), (2,))
            table.play(1_600)
            table.mend()
            table.play(400)
        counts.append(installs(table, 0) - before)
    assert counts[0] >= 6
    assert counts[2] <= counts[0] // 2
    assert members_of(table, 1) == members_of(table, 0)
    table.play(10_000)
    assert len({table.views[member][GROUP].id for member in range(3)}) == 1


def test_a_member_that_takes_nothing_in_is_given_up_by_all() -> None:
    """It lives, is heard and answers, but acknowledges nothing: sent messages would fill the windows of all. As it
    answers, it is taken in again, and given up again, less and less often."""
    table = new_table(4)
    table.play(300)
    for member in range(3):
        table.lose_kinds(member, 3, (DATA,))
    for _ in range(60):
        table.send(0, b"m", level=AGREED)
        table.play(250)
        assert len(table.log[0]) > table.now_ns // (250 * MILLISECOND_NS) - 12, "3 s behind"
    assert table.log[0] == table.log[1] == table.log[2]
    suspected = {event.process.name for events in table.events[:3] for event in events if isinstance(event, Suspected)}
    assert suspected == {"p4"}
    assert 3 <= installs(table, 0) <= 12


def test_a_slow_application_slows_and_is_not_given_up() -> None:
    table = Table(3, Options(window_packets=16), policy="partitionable", stack=STACK)
    table.step(2, Pause(GROUP))
    for _ in range(100):
        table.send(0, b"m")
    table.play(12_000)
    assert installs(table, 0) == 1
    assert 0 < len(table.log[1]) < 100


def test_members_that_send_all_the_time_are_not_suspected() -> None:
    """A message may be another member's copy, so it does not show that its sender lives; a heartbeat does."""
    table = new_table(3)
    for _ in range(400):
        for member in range(3):
            table.send(member, b"m")
        table.play(10)
    assert [installs(table, member) for member in range(3)] == [1, 1, 1]


def test_messages_of_a_suspect_are_dropped_unless_somebody_else_has_them() -> None:
    """p1 has given p3 up, since nothing comes from it but what it sends now; p2 is not there to agree yet."""
    table = new_table(3)
    table.play(300)
    table.cut(2, 0)
    table.play(1_000)
    table.cut(0, 1)
    while not any(isinstance(event, Suspected) for event in table.events[0]):
        table.play(10)
    table.mend()
    table.send(2, b"late")
    late = table.take(2, 0)
    table.arrive(0, *late)
    assert installs(table, 0) == 1
    assert table.log[0] == []
    table.pass_on(2, 1)
    table.play(500)
    assert table.log[0] == table.log[1] == ["p3#1"]


def test_nobody_leaves_its_own_for_others_while_a_network_heals_bit_by_bit() -> None:
    """p1 and p2 are apart from the other three. p2 hears those half a second before p1 does: it waits for p1, and
    all are ready when p1 is."""
    table = new_table(5)
    table.play(300)
    split(table, (0, 1), (2, 3, 4))
    table.play(2_500)
    before = [installs(table, member) for member in range(5)]
    table.mend()
    for other in (2, 3, 4):
        table.cut(0, other)
        table.cut(other, 0)
    table.play(600)
    table.mend()
    table.play(100)
    assert [installs(table, member) - count for member, count in enumerate(before)] == [1] * 5
    assert {" ".join(sorted(members_of(table, member))) for member in range(5)} == {"p1 p2 p3 p4 p5"}


def test_suspicion_adapts_over_configurations() -> None:
    """What p3 says comes in bursts, 0.9 s apart. Then p4 is gone, and in the configuration without it 1.5 s of silence
    of p3 are no news."""
    table = new_table(4)
    slow = Bursts(table, 2)
    for _ in range(4):
        slow.play(900)
    table.crash(3)
    while "p4" in members_of(table, 0):
        slow.play(900)
        table.play(20)
    assert members_of(table, 0) == ["p1", "p2", "p3"]
    before = installs(table, 0)
    slow.play(1_500)
    slow.play(900)
    assert installs(table, 0) == before


class Bursts:
    """What one member sends is held, and comes all at once."""

    def __init__(self, table: Table, member: int) -> None:
        self._table = table
        self._member = member

    def play(self, milliseconds: int) -> None:
        held: dict[int, list[bytes]] = {}
        others = [other for other in range(len(self._table.engines)) if other != self._member]
        for _ in range(milliseconds):
            for other in others:
                held.setdefault(other, []).extend(self._table.take(self._member, other))
            self._table.play(1)
        for other, packets in held.items():
            if other not in self._table.gone:
                self._table.arrive(other, *packets)
