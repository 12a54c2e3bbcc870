"""isis-1991, claim by claim: atomicity and views where groups overlap (section 6.5)."""

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Ended
from antiphon.kernel.identity import wire_id
from antiphon.kernel.levels import FIFO
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.membership.messages import INSTALL
from tests.papers.wire import section_of, times_in
from tests.table import Table

ACK_NS = 6 * MILLISECOND_NS
P1, P2, Q, Q2, X, Y = range(6)
SCENARIO = {"a": (P1, P2, Q, X, Y), "b": (P2, Q, Q2)}
"""The paper's p1 and p2, q in both groups, q' in the second; x and y so that the first keeps its majority."""


def scenario(resilience: int, policy: str = "static", options: Options | None = None) -> Table:
    table = Table(6, options, policy, SCENARIO, dict.fromkeys(SCENARIO, CausalityDomain(resilience=resilience)))
    table.play(260)
    table.drop_all()
    return table


@pytest.mark.parametrize(("resilience", "copies"), [(1, 1), (2, 2), (3, 3), (0, 4)])
def test_6_5_a_message_leaves_for_another_group_when_its_past_is_k_stable(resilience: int, copies: int) -> None:
    """Steps 1 to 3: p1's m1 is at p2, which wants to send m2 in b. It leaves when k members have m1; 0 means all."""
    table = scenario(resilience)
    table.send(P1, b"m1", group="a")
    table.pass_on(P1, P2)
    table.send(P2, b"m2", group="b")
    left_at = 1 if table.take_data(P2, Q2) else 0
    for other in (Q, X, Y):
        table.cut(P2, other, "a")  # or they would ask p2 for m1
    for number, other in enumerate((Q, X, Y), 2):
        table.pass_on(P1, other)
        table.wait(4 * ACK_NS)
        table.pass_on(other, P2, "a")
        table.pass_on(P1, P2, "a")
        left_at = left_at or (number if table.take_data(P2, Q2) else 0)
    assert left_at == copies


def test_6_5_own_messages_count_as_any() -> None:
    """k = 1: p2's own m1 must be at one other member before m2 leaves."""
    table = scenario(1)
    table.send(P2, b"m1", group="a")
    table.send(P2, b"m2", group="b")
    assert table.take_data(P2, Q2) == []
    table.pass_on(P2, X)
    table.wait(ACK_NS)
    table.pass_on(X, P2)
    assert len(table.take_data(P2, Q2)) == 1


def test_6_5_within_one_group_nothing_waits() -> None:
    table = scenario(0)
    for _ in range(3):
        table.send(P2, b"m", group="a")
    assert len(table.take_data(P2, Q)) == 3


def test_6_5_levels_below_causal_do_not_wait() -> None:
    table = scenario(0)
    table.send(P2, b"m1", group="a")
    table.send(P2, b"m2", level=FIFO, group="b")
    assert len(table.take_data(P2, Q2)) == 1


def fail_both(resilience: int) -> Table:
    """The whole scenario: m1 reaches p2 alone; p2 sends m2, if it may, which reaches q' alone; p1 and p2 fail."""
    table = scenario(resilience, "primary")
    table.send(P1, b"m1", group="a")
    table.pass_on(P1, P2)
    table.send(P2, b"m2", group="b")
    table.pass_on(P2, Q2)
    table.drop_all()
    table.crash(P1, P2)
    table.play(8_000)
    assert "a:2: p3 p5 p6" in table.story[Q]
    assert "b:2: p3 p4" in table.story[Q]
    return table


def test_6_5_step_4_with_full_stability_nothing_outlives_its_past() -> None:
    """m2 has not left: neither causality nor atomicity is broken."""
    table = fail_both(0)
    assert table.log[Q] == table.log[Q2] == []


def test_6_5_step_4_with_k_1_two_failures_at_once_are_one_too_many() -> None:
    """What the rule is there for: q' has delivered m2, so q does; m1 is lost, and its time is stale by then."""
    table = fail_both(1)
    assert table.log[Q] == table.log[Q2] == ["b:p2#1"]


def test_6_5_k_1_survives_one_failure() -> None:
    """p2 fails, and p1, which still has m1, does not: q delivers m1 first."""
    table = scenario(1, "primary")
    table.send(P1, b"m1", group="a")
    table.pass_on(P1, P2)
    table.send(P2, b"m2", group="b")
    table.pass_on(P2, Q2)
    assert table.log[Q2] == ["b:p2#1"]
    table.drop_all()
    table.crash(P2)
    table.play(8_000)
    assert table.log[Q] == ["a:p1#1", "b:p2#1"]


def test_6_5_while_a_message_waits_its_sender_delivers_nothing_elsewhere_for_a_short_time() -> None:
    """Else its past would grow as fast as it becomes stable. The hold ends, so that nobody waits for ever."""
    table = scenario(0, options=Options(of_stacks={"vector.hold_ns": 10 * MILLISECOND_NS}))
    table.send(P1, b"m1", group="a")
    table.pass_on(P1, P2)
    table.send(P2, b"m2", group="b")
    table.send(Q, b"m3", group="a")
    table.pass_on(Q, P2)
    assert table.log[P2] == ["a:p1#1"]
    table.wait(10 * MILLISECOND_NS)
    assert table.log[P2] == ["a:p1#1", "a:p3#1"]
    table.settle()
    assert "b:p2#1" in table.log[Q2]


def test_6_5_two_processes_that_wait_for_each_other_come_free() -> None:
    """Each has sent in one group and wants to send in the other, and holds what the other waits for."""
    groups = {"a": (0, 1), "b": (0, 1)}
    table = Table(2, groups=groups)
    table.send(0, b"", group="a")
    table.send(1, b"", group="b")
    table.send(0, b"", group="b")
    table.send(1, b"", group="a")
    table.play(500)
    assert sorted(table.log[0]) == sorted(table.log[1]) == ["a:p1#1", "a:p2#1", "b:p1#1", "b:p2#1"]


# ---- views ---------------------------------------------------------------------------------------------------------

TRIO = {"a": (0, 1, 3), "b": (1, 2, 3)}
"""p1 in a, p2 and p4 in both, p3 in b."""


def trio() -> Table:
    table = Table(4, None, "primary", TRIO, dict.fromkeys(TRIO, CausalityDomain(resilience=1)))
    table.play(260)
    table.drop_all()
    return table


def test_6_5_times_of_a_view_that_is_over_are_ignored() -> None:
    """m2 carries a time of a's first view; p4 has gone over into the second when it arrives."""
    table = trio()
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    late = table.take_data(1, 3, "b")
    assert times_in(late[0], 3, ["a"]) == {"a": [(0, 1)]}
    table.cut(1, 3, "b")
    table.cut(2, 3, "b")
    table.barrier(0, group="a")
    table.play(100)
    assert table.log[3] == ["a:p1#1", "a:barrier p1#2"]
    table.arrive(3, *late)
    assert table.log[3] == ["a:p1#1", "a:barrier p1#2", "b:p2#1"]


def lag_behind(table: Table, member: int, group: str) -> None:
    """Let a flush of the group come to its end, but for the word that ends it at this member."""
    table.barrier(0, group=group)
    for _ in range(50):
        for link, packets in table.links.items():
            if link[1] == member:
                table.links[link] = [packet for packet in packets if not is_install(packet, group)]
        table.pass_all()
        table.wait(MILLISECOND_NS)
    assert table.views[0][group].id == table.views[1][group].id == 2
    assert table.views[member][group].id == 1


def is_install(packet: bytes, group: str) -> bool:
    kind, group_id, _, _, flags, _ = unseal(packet)
    return kind == MEMBERSHIP and flags == INSTALL and group_id == wire_id(group)


@pytest.mark.parametrize("said", [0, 1])
def test_6_5_times_of_a_later_view_are_waited_for(said: int) -> None:
    """p2 is in a's second view and sends in b. p4 is still in the first: it waits for the view and what was sent there,
    and for the view alone if nothing was."""
    table = trio()
    lag_behind(table, 3, "a")
    table.drop_all()
    for _ in range(said):
        table.send(0, b"m1", group="a")
        table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    packets = table.take_data(1, 3, "b")
    section = section_of(packets[0], 3)
    assert section is not None
    assert [(time.view_id, time.entries) for time in section.foreign] == [(2, [(0, 1)] * said)]
    table.arrive(3, *packets)
    assert table.log[3] == []
    table.play(600)
    assert table.log[3] == ["a:barrier p1#1", *["a:p1#2"] * said, "b:p2#1"]


def test_6_5_a_flush_delivers_what_other_groups_wait_for() -> None:
    """p4 lacks m1 of a, and holds m2 of b back for it. p1 is gone; the flush of a brings m1, and m2 follows."""
    table = Table(
        5, None, "primary", {"a": (0, 1, 3, 4), "b": (1, 2, 3)}, dict.fromkeys("ab", CausalityDomain(resilience=1))
    )
    table.play(260)
    table.drop_all()
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 3)
    assert table.log[3] == []
    table.drop_all()
    table.crash(0)
    table.play(8_000)
    assert table.log[3] == ["a:p1#1", "b:p2#1"]
    assert "a:2: p2 p4 p5" in table.story[3]


def test_6_5_a_process_that_learns_of_its_exclusion_sends_nothing_more_in_other_groups() -> None:
    """p1 has sent in a, where the others went on without it, and m2 in b waits for that. The news of the exclusion and
    a packet of b come together: m2 would follow what is lost, so it does not leave, and p1 delivers nothing in b."""
    table = Table(4, Options.fast(), "primary", {"a": (0, 1, 2), "b": (0, 3)})
    table.play(300)
    for other in (1, 2):
        table.cut(0, other)
        table.cut(other, 0)
    table.send(0, b"m1", group="a")
    table.send(0, b"m2", group="b")
    table.play(3_000)
    assert "a:2: p2 p3" in table.story[1]
    assert table.log[3] == []
    table.mend()
    table.drop_all()
    table.send(3, b"m3", group="b")
    greeting = table.take(3, 0)
    table.wait(100 * MILLISECOND_NS)
    table.pass_on(0, 1)
    news = table.take(1, 0)
    table.drop_all()
    table.arrive(0, *news, *greeting)
    assert [event.group for event in table.events[0] if isinstance(event, Ended)] == ["a", "b"]
    assert table.take_data(0, 3) == []
    assert "b:p4#1" not in table.log[0]
