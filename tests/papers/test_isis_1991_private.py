"""isis-1991, claim by claim: point-to-point messages (section 7.2), causality domains (7.3), sizes of timestamps (7.1,
Table I), the cost of a change of view (5.5, 7.4)."""

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Delivered, Sent
from antiphon.kernel.levels import AGREED, CAUSAL
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import MEMBERSHIP, PRIVATE
from tests.papers.wire import stamp_of
from tests.table import GROUP, Table

ACK_NS = 6 * MILLISECOND_NS


def private_packets(packets: list[bytes]) -> list[bytes]:
    return [packet for packet in packets if unseal(packet)[0] == PRIVATE]


def test_7_2_a_point_to_point_message_reaches_its_destination_alone() -> None:
    table = Table(3)
    table.send(0, b"psst", to=1)
    table.settle()
    assert table.log == [[], ["private p1#1"], []]
    assert table.payloads[1] == [b"psst"]
    sent = [event for event in table.events[0] if isinstance(event, Sent)]
    assert [(event.number, event.level, event.destinations) for event in sent] == [(1, CAUSAL, (table.processes[1],))]
    assert [event.private for event in table.events[1] if isinstance(event, Delivered)] == [True]


def test_7_2_also_if_a_copy_goes_astray() -> None:
    table = Table(3)
    table.send(0, b"psst", to=1)
    table.arrive(2, *table.take(0, 1))
    assert table.log[2] == []


def test_7_2_it_takes_its_number_from_the_senders_messages() -> None:
    table = Table(2)
    table.send(0, b"all")
    table.send(0, b"one", to=1)
    table.send(0, b"all")
    table.settle()
    assert table.log == [["p1#1", "p1#3"], ["p1#1", "private p1#2", "p1#3"]]


def test_7_2_it_carries_the_time_that_a_multicast_would() -> None:
    """p2 has m1 and writes to p3, who does not: p3 waits for m1."""
    table = Table(3)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    table.send(1, b"about m1", to=2)
    table.pass_on(1, 2)
    assert table.log[2] == []
    table.pass_on(0, 2)
    assert table.log[2] == ["p1#1", "private p2#1"]


def test_7_2_it_follows_its_senders_own_multicasts() -> None:
    table = Table(2)
    table.send(0, b"m1")
    first = table.take(0, 1)
    table.send(0, b"about m1", to=1)
    table.pass_on(0, 1)
    assert table.log[1] == []
    table.arrive(1, *first)
    assert table.log[1] == ["p1#1", "private p1#2"]


def test_7_2_it_does_not_raise_the_time_of_its_sender() -> None:
    """To p3 it is an internal event: the multicast after it waits for nothing."""
    table = Table(3)
    table.send(0, b"psst", to=1)
    table.pass_on(0, 1)
    table.pass_on(1, 0)
    table.send(0, b"m")
    packets = table.take_data(0, 2)
    assert [stamp_of(packet, 3) for packet in packets] == [None]
    table.arrive(2, *packets)
    assert table.log[2] == ["p1#2"]


def test_7_2_its_sender_starts_no_multicast_before_it_is_acknowledged() -> None:
    table = Table(3)
    table.send(0, b"psst", to=1)
    table.send(0, b"m")
    assert table.take_data(0, 2) == []
    table.pass_on(0, 1)
    table.pass_on(1, 0)
    assert len(table.take_data(0, 2)) == 1


def test_7_2_it_is_acknowledged_when_it_is_delivered() -> None:
    """p3 lacks m1, which p2's message follows: p2 goes on when p3 has delivered both."""
    table = Table(3)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    table.send(1, b"about m1", to=2)
    table.send(1, b"m2")
    table.pass_on(1, 2)
    table.pass_on(2, 1)
    assert table.take_data(1, 0) == []
    table.pass_on(0, 2)
    table.pass_on(2, 1)
    assert len(table.take_data(1, 0)) == 1


def test_7_2_nor_a_message_to_somebody_else_but_more_to_the_same_member() -> None:
    table = Table(3)
    table.send(0, b"to p2", to=1)
    table.send(0, b"to p2", to=1)
    table.send(0, b"to p3", to=2)
    assert len(private_packets(table.links.get((0, 1), []))) == 2
    assert private_packets(table.links.get((0, 2), [])) == []
    table.settle()
    assert table.log == [[], ["private p1#1", "private p1#2"], ["private p1#3"]]


def test_7_2_nor_anything_in_another_group_of_the_domain() -> None:
    table = Table(3, groups={"a": (0, 1), "b": (0, 2)})
    table.send(0, b"psst", group="a", to=1)
    table.send(0, b"m", group="b")
    assert table.take_data(0, 2) == []
    table.pass_on(0, 1)
    table.pass_on(1, 0)
    table.settle()
    assert table.log[2] == ["b:p1#1"]


@pytest.mark.parametrize("to", [0, 1])
def test_7_2_nor_more_to_the_same_member_or_to_oneself_if_another_group_comes_before(to: int) -> None:
    """The order of the calls holds for messages that follow a private one as well."""
    table = Table(2, groups={"a": (0, 1), "b": (0, 1)})
    table.play(260)
    table.drop_all()
    table.send(0, b"psst", to=1, group="a")
    table.send(0, b"m", group="b")
    table.send(0, b"psst again", to=to, group="a")
    assert len(private_packets(table.links.get((0, 1), []))) == 1
    assert table.log[0] == []
    table.play(200)
    assert table.log[to][-2:] == ["b:p1#1", "a:private p1#2"]


def test_7_2_so_nothing_that_follows_it_overtakes_it() -> None:
    """p1 writes to p2 and then multicasts; p3 answers the multicast. p2 gets the answer after the message."""
    table = Table(3)
    table.send(0, b"first", to=1)
    table.send(0, b"then")
    table.take(0, 1)
    table.settle()
    table.send(2, b"answer")
    table.settle()
    assert table.log[1] == ["private p1#1", "p1#2", "p3#1"]


def test_7_2_a_lost_one_is_sent_again_and_delivered_once() -> None:
    table = Table(2)
    table.send(0, b"psst", to=1)
    lost = table.take(0, 1)
    table.wait(Options().probe_interval_ns)
    again = private_packets(table.take(0, 1))
    assert again == lost
    table.arrive(1, *again, *again)
    table.arrive(1, *again)
    assert table.log[1] == ["private p1#1"]


def test_7_2_a_lost_acknowledgement_is_given_again() -> None:
    table = Table(2)
    table.send(0, b"psst", to=1)
    table.send(0, b"m")
    table.pass_on(0, 1)
    table.take(1, 0)
    table.wait(Options().probe_interval_ns)
    table.pass_on(0, 1)
    table.pass_on(1, 0)
    table.pass_on(0, 1)
    assert table.log[1] == ["private p1#1", "p1#2"]


@pytest.mark.parametrize("size", [0, 1_400, 300_000])
def test_7_2_it_may_be_of_any_size(size: int) -> None:
    table = Table(2)
    payload = bytes(i * 7 % 251 for i in range(size))
    table.send(0, b"before", payload, b"after", to=1)
    table.settle(rounds=200)
    assert table.payloads[1] == [b"before", payload, b"after"]


def test_7_2_one_to_oneself_comes_after_what_was_sent_before_it() -> None:
    """p2's ABCAST still waits for its place: the note to itself follows it."""
    table = Table(2)
    table.send(1, b"abcast", level=AGREED)
    table.send(1, b"note", to=1)
    assert table.log[1] == []
    table.settle()
    assert table.log == [["p2#1"], ["p2#1", "private p2#2"]]


def test_7_2_it_carries_the_times_of_other_groups() -> None:
    """m1 of a is in the past of a message to p3 inside b: p3, in both, waits for it."""
    groups = {"a": (0, 1, 2), "b": (1, 2, 3)}
    table = Table(4, groups=groups, domains=dict.fromkeys(groups, CausalityDomain(resilience=1)))
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"psst", group="b", to=2)
    table.pass_on(1, 2)
    assert table.log[2] == []
    table.pass_on(0, 2)
    assert table.log[2] == ["a:p1#1", "b:private p2#1"]


def test_7_2_one_that_a_view_left_unacknowledged_is_sent_again_in_the_next() -> None:
    table = Table(3, policy="primary")
    table.send(0, b"psst", to=1)
    table.take(0, 1)
    table.barrier(2)
    table.play(200)
    assert table.story[1] == ["1: p1 p2 p3", "barrier p3#1", "2: p1 p2 p3", "private p1#1"]


def test_7_2_one_that_arrived_is_not_delivered_again_in_the_next_view() -> None:
    """Only the acknowledgement was lost."""
    table = Table(3, policy="primary")
    table.send(0, b"psst", to=1)
    table.pass_on(0, 1)
    table.take(1, 0)
    table.barrier(2)
    table.play(200)
    assert table.log[1] == ["private p1#1", "barrier p3#1"]
    assert table.outstanding(0) == 0


def test_7_2_one_to_a_member_that_fails_holds_its_sender_up_until_the_next_view_only() -> None:
    table = Table(3, policy="primary")
    table.crash(1)
    table.send(0, b"psst", to=1)
    table.send(0, b"m")
    table.play(500)
    assert table.log[2] == []
    table.play(6_000)
    assert table.story[2] == ["1: p1 p2 p3", "2: p1 p3", "p1#2"]


# ---- 7.3 -----------------------------------------------------------------------------------------------------------


def test_7_3_between_domains_there_is_no_order() -> None:
    """Figure 4 with a domain for each group: p3 delivers m2 without m1, and p2 did not have to wait."""
    domains = {"a": CausalityDomain(name="one"), "b": CausalityDomain(name="two")}
    table = Table(4, groups={"a": (0, 1, 2), "b": (1, 2, 3)}, domains=domains)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    table.send(1, b"m2", group="b")
    table.pass_on(1, 2)
    assert table.log[2] == ["b:p2#1"]


def test_7_3_flush_before_the_change_of_domain_restores_it() -> None:
    """p2 waits until all that it has sent or delivered in the first domain is at all its members."""
    domains = {"a": CausalityDomain(name="one"), "b": CausalityDomain(name="two")}
    table = Table(4, groups={"a": (0, 1, 2), "b": (1, 2, 3)}, domains=domains)
    table.send(0, b"m1", group="a")
    table.pass_on(0, 1)
    late = table.take(0, 2)
    engine = table.engines[1]
    marks = engine.mark(engine.groups_of("one"))
    table.wait(ACK_NS)
    table.pass_on(2, 1)
    assert not engine.is_stable(marks)
    table.arrive(2, *late)
    table.settle()
    table.play(250)
    assert engine.is_stable(marks)
    table.send(1, b"m2", group="b")
    table.settle()
    assert table.log[2] == ["a:p1#1", "b:p2#1"]


# ---- 7.1, Table I --------------------------------------------------------------------------------------------------


def test_table_i_peer_group_no_more_entries_than_members() -> None:
    table = Table(5)
    for sender in range(1, 5):
        table.send(sender, b"m")
        table.pass_on(sender, 0)
    table.send(0, b"m")
    stamp = stamp_of(table.take_data(0, 1)[0], 5)
    assert stamp is not None
    assert len(stamp) <= 5


def test_table_i_diffusion_group_no_more_entries_than_broadcasters() -> None:
    """Of 30 members two send: the time of a message has one entry, for the other one."""
    table = Table(30)
    for round_ in range(3):
        for sender in (0, 1):
            table.send(sender, b"m")
            packets = table.take_data(sender, 1 - sender)
            stamps = [stamp_of(packet, 30) or [] for packet in packets]
            assert all(len(stamp) <= 1 for stamp in stamps), (round_, stamps)
            table.arrive(1 - sender, *packets)


def test_table_i_hierarchical_group_no_more_entries_than_the_subgroup_has_members() -> None:
    """Three subgroups under a group of their heads: once that is quiet, a message in one speaks of that one alone."""
    groups = {"top": (0, 3, 6), "x": (0, 1, 2), "y": (3, 4, 5), "z": (6, 7, 8)}
    table = Table(9, groups=groups)
    for member, group in ((0, "top"), (3, "top"), (4, "y"), (7, "z"), (1, "x")):
        table.send(member, b"m", group=group)
        table.play(300)
    table.send(2, b"m", group="x")
    packets = table.take_data(2, 0, "x")
    assert [stamp_of(packet, 3) for packet in packets] == [[(1, 1)]]


# ---- the cost of a change of view ----------------------------------------------------------------------------------


def membership_packets(members: int, joiners: int) -> int:
    """How many packets about membership a flush, or a join, costs on a calm network."""
    founders = members - joiners
    table = Table(members, policy="primary", groups={GROUP: tuple(range(founders))})
    for joiner in range(founders, members):
        table.come(joiner, GROUP, 0)
    if not joiners:
        table.barrier(0)
    count = 0
    for _ in range(150):
        for packets in table.links.values():
            count += sum(1 for packet in packets if unseal(packet)[0] == MEMBERSHIP)
        table.pass_all()
        table.wait(MILLISECOND_NS)
    assert all(table.views[member][GROUP].id == 2 for member in range(members))
    return count


def test_5_5_a_flush_costs_a_linear_number_of_messages() -> None:
    """Five steps of agreement between the coordinator and each of the others, where the paper's server needs two."""
    assert [membership_packets(members, 0) for members in (3, 6, 12)] == [5 * 2, 5 * 5, 5 * 11]


def test_7_4_a_join_costs_a_linear_number_of_messages() -> None:
    """The newcomer asks, once or twice until it is in, and is told; the members flush."""
    for members in (3, 6, 12):
        assert 5 * (members - 2) < membership_packets(members, 1) <= 5 * (members - 2) + 4


def test_5_5_a_stream_of_joins_keeps_nobody_waiting() -> None:
    """Somebody new every 30 ms: all get in, views are fewer than joins, and what a member sends meanwhile arrives."""
    table = Table(23, policy="primary", groups={GROUP: (0, 1, 2)})
    for joiner in range(3, 23):
        table.come(joiner, GROUP, joiner % 3)
        table.send(1, b"m")
        table.play(30)
        assert len(table.log[0]) >= joiner - 6, "what was sent a while ago is there"
    table.play(400)
    assert all(len(table.views[member][GROUP].members) == 23 for member in range(23))
    assert table.views[0][GROUP].id <= 15
    assert table.log[0] == table.log[1] == table.log[2] == [f"p2#{number}" for number in range(1, 21)]
