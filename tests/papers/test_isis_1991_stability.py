"""isis-1991, claim by claim: k-stability and `flush` (sections 5.3 and 7.3), and barriers, which are flushes within a
view (minor views, 6.7)."""

from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import BarrierReached, Installed, Sent
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from tests.table import GROUP, Table

ACK_NS = 6 * MILLISECOND_NS


def acknowledge(table: Table, sender: int, *receivers: int) -> None:
    """What `sender` has sent arrives at these, and they say so."""
    for receiver in receivers:
        table.pass_on(sender, receiver)
    table.wait(ACK_NS)
    for receiver in receivers:
        table.pass_on(receiver, sender)


# ---- k-stability ---------------------------------------------------------------------------------------------------


def test_5_3_a_multicast_is_k_stable_when_it_is_known_to_be_at_k_destinations() -> None:
    table = Table(4)
    table.send(0, b"m")
    engine = table.engines[0]
    marks = engine.mark([GROUP])
    assert not engine.is_stable(marks, 1)
    acknowledge(table, 0, 1)
    assert engine.is_stable(marks, 1)
    assert not engine.is_stable(marks, 2)
    acknowledge(table, 0, 2)
    assert engine.is_stable(marks, 2)
    assert not engine.is_stable(marks)
    acknowledge(table, 0, 3)
    assert engine.is_stable(marks)


def test_5_3_a_receiver_counts_itself_and_learns_of_the_others() -> None:
    """p2 delivers p1's message: at one destination it is already; at two when p3 has told."""
    table = Table(4)
    table.send(0, b"m")
    table.pass_on(0, 1)
    engine = table.engines[1]
    marks = engine.mark([GROUP])
    assert engine.is_stable(marks, 1)
    assert not engine.is_stable(marks, 2)
    table.pass_on(0, 2)
    table.wait(ACK_NS)
    table.pass_on(2, 1)
    assert engine.is_stable(marks, 2)
    assert not engine.is_stable(marks)


def test_5_3_what_is_sent_after_the_mark_does_not_matter_to_it() -> None:
    table = Table(3)
    table.send(0, b"before")
    marks = table.engines[0].mark([GROUP])
    acknowledge(table, 0, 1, 2)
    table.send(0, b"after")
    assert table.engines[0].is_stable(marks)
    assert not table.engines[0].is_stable(table.engines[0].mark([GROUP]))


def test_5_3_what_waits_to_be_sent_is_not_stable() -> None:
    """A causal message that its sender keeps back for its past."""
    table = Table(3)
    table.send(1, b"past")
    past = table.take_data(1, 0)
    table.pass_on(1, 2)
    table.send(2, b"weak", level=FIFO)
    table.pass_on(2, 0)
    table.send(0, b"waits")
    marks = table.engines[0].mark([GROUP])
    assert not table.engines[0].is_stable(marks, 1)
    table.arrive(0, *past)
    table.settle()
    assert table.engines[0].is_stable(marks)


def test_5_3_k_is_at_most_what_there_is() -> None:
    """In a group of two nothing can be at more than one other member."""
    table = Table(2)
    table.send(0, b"m")
    marks = table.engines[0].mark([GROUP])
    acknowledge(table, 0, 1)
    assert table.engines[0].is_stable(marks, 5)


def test_5_5_a_new_view_makes_all_that_came_before_it_stable() -> None:
    """Step 5: the sender takes a message for stable when the view after it is installed, though p3 never had it."""
    table = Table(3, policy="primary")
    table.cut(0, 2)
    table.cut(1, 2)
    table.send(0, b"m")
    marks = table.engines[0].mark([GROUP])
    table.crash(2)
    table.play(500)
    assert not table.engines[0].is_stable(marks)
    table.play(6_000)
    assert table.story[0][-1] == "2: p1 p2"
    assert table.engines[0].is_stable(marks)


def test_7_3_flush_waits_until_all_have_installed_the_view_that_ends_the_one_before() -> None:
    """p3 lacks m, fetches it for the cut, and delivers it when it installs the next view. p1 is in that view before
    p3 is: m is stable then (5.5, step 5), but a flush goes on waiting."""
    table = Table(3, policy="primary")
    table.play(260)
    table.cut(0, 2)
    table.send(0, b"m")
    marks = table.engines[0].mark([GROUP])
    table.play(1)
    table.mend()
    table.barrier(0)
    while not table.story[0][-1].startswith("2:"):
        table.play(1)
    table.drop_all()
    table.cut(0, 2)
    table.cut(1, 2)
    table.play(20)
    assert "p1#1" not in table.log[2]
    assert table.engines[0].is_stable(marks, 1)
    assert not table.engines[0].is_stable(marks)
    table.mend()
    table.play(1_000)
    assert "p1#1" in table.log[2]
    assert table.engines[0].is_stable(marks)


def test_7_3_flush_asks_for_all_groups_of_a_domain_and_no_other() -> None:
    domains = {"a": CausalityDomain(name="one"), "b": CausalityDomain(name="one"), "c": CausalityDomain(name="two")}
    table = Table(3, groups={"a": (0, 1), "b": (0, 2), "c": (0, 2)}, domains=domains)
    engine = table.engines[0]
    table.send(0, b"m", group="a")
    table.send(0, b"m", group="c")
    assert engine.groups_of("one") == ["a", "b"]
    assert engine.groups_of("two") == ["c"]
    one, two = engine.mark(engine.groups_of("one")), engine.mark(engine.groups_of("two"))
    acknowledge(table, 0, 1)
    assert engine.is_stable(one)
    assert not engine.is_stable(two)
    acknowledge(table, 0, 2)
    assert engine.is_stable(two)


def test_5_3_a_point_to_point_message_counts_until_it_is_acknowledged() -> None:
    table = Table(3)
    table.send(0, b"m", to=1)
    marks = table.engines[0].mark([GROUP])
    assert not table.engines[0].is_stable(marks)
    table.pass_on(0, 1)
    table.pass_on(1, 0)
    assert table.engines[0].is_stable(marks)


# ---- barriers ------------------------------------------------------------------------------------------------------


def test_6_7_a_barrier_is_reached_by_all_where_one_view_meets_the_next() -> None:
    """Same members, next view: the paper's minor view."""
    table = Table(3, policy="primary")
    table.send(0, b"before")
    table.barrier(0, b"now")
    table.play(100)
    assert table.story[0] == ["1: p1 p2 p3", "p1#1", "barrier p1#2", "2: p1 p2 p3"]
    assert table.story[0] == table.story[1] == table.story[2]
    reached = [event for event in table.events[2] if isinstance(event, BarrierReached)]
    assert [(event.sender.name, event.number, event.payload, event.view_id) for event in reached] == [
        ("p1", 2, b"now", 1)
    ]


def test_6_7_a_barrier_is_numbered_and_recorded_like_a_message() -> None:
    table = Table(2, policy="primary")
    table.send(1, b"one")
    table.barrier(1, b"now")
    table.send(1, b"three")
    table.play(100)
    sent = [event for event in table.events[1] if isinstance(event, Sent)]
    assert [(event.number, event.level, event.barrier, event.view_id) for event in sent] == [
        (1, CAUSAL, False, 1),
        (2, SAFE, True, 1),
        (3, CAUSAL, False, 2),
    ]


def test_6_7_what_the_sender_sent_before_its_barrier_comes_before_it_and_the_rest_after() -> None:
    table = Table(3, policy="primary")
    for _ in range(5):
        table.send(1, b"before")
    table.barrier(1)
    for _ in range(5):
        table.send(1, b"after")
    table.play(200)
    expected = [*(f"p2#{number}" for number in range(1, 6)), "barrier p2#6", *(f"p2#{n}" for n in range(7, 12))]
    assert table.log == [expected] * 3


def test_6_7_concurrent_barriers_come_in_one_order() -> None:
    table = Table(3, policy="primary")
    for member in (2, 0, 1):
        table.barrier(member, b"")
    table.play(200)
    assert table.log[0] == table.log[1] == table.log[2]
    assert sorted(table.log[0]) == ["barrier p1#1", "barrier p2#1", "barrier p3#1"]


def test_6_7_several_barriers_of_one_sender_come_in_its_order() -> None:
    table = Table(3, policy="primary")
    for _ in range(3):
        table.barrier(2)
    table.play(300)
    assert table.log == [["barrier p3#1", "barrier p3#2", "barrier p3#3"]] * 3


@pytest.mark.parametrize("seed", range(12))
def test_6_7_every_message_is_on_the_same_side_of_a_barrier_everywhere(seed: int) -> None:
    random = Random(seed)
    table = Table(4, policy="primary")
    barriers = 0
    for _ in range(30):
        member = random.randrange(4)
        if random.random() < 0.15:
            table.barrier(member)
            barriers += 1
        else:
            table.send(member, b"m", level=random.choice((FIFO, CAUSAL, AGREED, SAFE)))
        for source, destination in list(table.links):
            if random.random() < 0.6:
                table.pass_on(source, destination)
        table.wait(random.randrange(3) * MILLISECOND_NS)
    table.play(1_500)
    logs = [sides(log) for log in table.log]
    assert len(logs[0][0]) == barriers
    assert all(log == logs[0] for log in logs)
    assert sum(len(side) for side in logs[0][1]) == 30 - barriers


def sides(log: list[str]) -> tuple[list[str], list[set[str]]]:
    """The barriers of a log, and the sets of messages before, between and after them."""
    barriers: list[str] = []
    result: list[set[str]] = [set()]
    for event in log:
        if event.startswith("barrier"):
            barriers.append(event)
            result.append(set())
        else:
            result[-1].add(event)
    return barriers, result


def test_5_5_a_barrier_whose_sender_fails_is_reached_by_all_or_by_none() -> None:
    """p3 fails a while after it asked for its barrier, at various steps of the agreement."""
    outcomes: set[tuple[str, ...]] = set()
    for milliseconds in range(8):
        table = Table(4, policy="primary")
        table.barrier(2)
        table.play(milliseconds)
        table.crash(2)
        table.play(6_000)
        survivors = [tuple(table.story[member]) for member in (0, 1, 3)]
        assert survivors[0] == survivors[1] == survivors[2]
        assert survivors[0][-1].endswith(": p1 p2 p4")
        outcomes.add(tuple(event for event in survivors[0] if "barrier" in event))
    assert outcomes == {(), ("barrier p3#1",)}


def test_7_4_a_barrier_and_a_join_share_one_change_of_view() -> None:
    table = Table(4, policy="primary", groups={GROUP: (0, 1, 2)})
    table.come(3, GROUP, 0)
    table.wait(MILLISECOND_NS)
    table.pass_all()
    table.barrier(1)
    table.play(300)
    assert table.story[0] == ["1: p1 p2 p3", "barrier p2#1", "2: p1 p2 p3 p4"]
    assert table.story[3] == ["2: p1 p2 p3 p4"]
    installed = [event for event in table.events[0] if isinstance(event, Installed)][-1]
    assert [process.name for process in installed.joined] == ["p4"]
