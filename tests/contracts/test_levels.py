"""What every stack owes its callers, whatever it is made of. One suite; each stack runs through it."""

from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import MessageTooLargeError, UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join, Pause, Resume, Send
from antiphon.kernel.levels import AGREED, CAUSAL, CAUSAL_TOTAL, FIFO, LEVELS, RELIABLE, SAFE
from antiphon.kernel.options import Options
from antiphon.stacks.registry import offer
from tests.table import GROUP, Table

ORDERED = [AGREED, SAFE, CAUSAL_TOTAL]
"""Levels whose messages come in one order at all members of a group, one with the other."""


@pytest.mark.parametrize("members", [1, 2, 5])
def test_everybody_delivers_everything_once(stack: str, level: int, members: int) -> None:
    table = Table(members, stack=stack)
    for member in range(members):
        for number in range(5):
            table.send(member, f"{member}.{number}".encode(), level=level)
    table.settle()
    expected = sorted(f"p{member + 1}#{number + 1}" for member in range(members) for number in range(5))
    assert all(sorted(log) == expected for log in table.log)


@pytest.mark.parametrize("size", [0, 1, 1300, 1400, 5_000, 300_000])
def test_payloads_arrive_as_they_were_sent(stack: str, level: int, size: int) -> None:
    table = Table(3, stack=stack)
    payload = bytes(i * 7 % 251 for i in range(size))
    table.send(0, b"before", payload, b"after", level=level)
    table.settle()
    assert all(sorted(payloads) == sorted([b"before", payload, b"after"]) for payloads in table.payloads)


def test_a_message_of_16_mib_arrives(stack: str) -> None:
    table = Table(2, stack=stack)
    payload = bytes(range(256)) * (64 * 1024)
    table.send(0, payload)
    table.settle(rounds=400)
    assert table.payloads[1] == [payload]


@pytest.mark.capable("datagrams")
@pytest.mark.levels("reliable")
def test_reliable_messages_arrive_in_whatever_order_their_packets_do(stack: str) -> None:
    table = Table(2, stack=stack)
    table.send(0, b"1", level=RELIABLE)
    table.send(0, b"2", level=RELIABLE)
    first, second = table.take_data(0, 1)
    table.arrive(1, second)
    table.arrive(1, first, second)
    table.settle()
    assert sorted(table.log[1]) == ["p1#1", "p1#2"]


@pytest.mark.capable("datagrams")
@pytest.mark.levels("fifo")
def test_fifo_messages_wait_for_earlier_ones_of_their_sender(stack: str) -> None:
    table = Table(3, stack=stack)
    table.send(0, b"1", level=FIFO)
    table.send(0, b"2", level=FIFO)
    first, second = table.take_data(0, 2)
    table.arrive(2, second)
    assert table.log[2] == []
    table.arrive(2, first)
    assert table.log[2] == ["p1#1", "p1#2"]


@pytest.mark.capable("datagrams")
def test_duplicates_are_delivered_once(stack: str) -> None:
    table = Table(2, stack=stack)
    table.send(0, b"1", b"2")
    packets = table.take_data(0, 1)
    table.arrive(1, *packets, *packets)
    table.arrive(1, *packets)
    assert table.log[1] == ["p1#1", "p1#2"]
    assert table.statistics(1)["duplicates"] == 2


def test_a_sender_waits_while_nothing_arrives_and_nothing_is_lost(stack: str, level: int) -> None:
    """Up to some limit, which is the stack's own, messages are taken; then the sender waits, until it is told."""
    table = Table(2, Options(window_packets=4, pending_bytes_max=50_000), stack=stack)
    accepted = 0
    for _ in range(40):
        accepted += table.send(0, bytes(50_000), level=level).accepted
    assert accepted < 40
    assert not table.writable(0)
    table.settle(rounds=100)
    assert table.writable(0)
    assert len(table.log[0]) == len(table.log[1]) == accepted


@pytest.mark.capable("datagrams")
def test_a_full_window_makes_the_sender_wait_and_loses_nothing(stack: str) -> None:
    table = Table(2, Options(window_packets=4, pending_bytes_max=50), stack=stack)
    accepted = 0
    for _ in range(40):
        effects = table.send(0, b"0123456789")
        accepted += effects.accepted
    assert len(table.take_data(0, 1)) == 4
    assert accepted < 40
    assert not table.writable(0)
    table.settle()
    assert table.writable(0)
    assert len(table.log[1]) == accepted


def test_a_paused_application_holds_its_senders_up_at_last(stack: str, level: int) -> None:
    """What is sent to it is kept for it up to some limit; at that limit senders wait, and nothing is lost."""
    table = Table(2, Options(window_packets=4, pending_bytes_max=50_000), stack=stack)
    table.step(1, Pause(GROUP))
    accepted = 0
    for _ in range(150):
        accepted += table.send(0, bytes(50_000), level=level).accepted
        table.play(1)
    assert accepted < 150
    assert table.log[1] == []
    table.step(1, Resume(GROUP))
    table.settle(rounds=100)
    assert sorted(table.log[1]) == sorted(table.log[0])
    assert len(table.log[1]) == accepted


@pytest.mark.capable("datagrams")
def test_a_paused_application_gets_nothing_and_holds_its_senders_up(stack: str) -> None:
    table = Table(2, Options(window_packets=4), stack=stack)
    table.step(1, Pause(GROUP))
    for _ in range(20):
        table.send(0, b"m")
    table.settle()
    assert table.log[1] == []
    assert len(table.log[0]) == 4
    assert table.statistics(1)["packets_held"] == 4
    table.step(1, Resume(GROUP))
    table.settle()
    assert table.log[1] == table.log[0] == [f"p1#{number}" for number in range(1, 21)]


def test_messages_that_came_during_a_pause_are_delivered_after_it(stack: str, level: int) -> None:
    table = Table(2, stack=stack)
    table.step(1, Pause(GROUP))
    for _ in range(3):
        table.send(0, b"", level=level)
    table.settle()
    assert table.log[1] == []
    table.step(1, Resume(GROUP))
    table.settle()
    assert sorted(table.log[1]) == ["p1#1", "p1#2", "p1#3"]


@pytest.mark.levels("agreed", "safe", "causal-total", "abcast")
@pytest.mark.parametrize("seed", range(20))
def test_ordered_levels_are_delivered_in_one_order_everywhere(stack: str, level: int, seed: int) -> None:
    random = Random(seed)
    table = Table(4, stack=stack)
    for number in range(25):
        table.send(random.randrange(4), b"%d" % number, level=level)
        table.pass_some(random, random.randrange(12))
    table.settle(rounds=400)
    assert len(table.log[0]) == 25
    assert all(log == table.log[0] for log in table.log)


@pytest.mark.parametrize("seed", range(20))
def test_levels_mix_freely(stack: str, seed: int) -> None:
    """All levels at once: everything arrives once, and what is ordered in one order."""
    random = Random(seed)
    table = Table(4, stack=stack)
    levels = [LEVELS[name] for name in offer(stack).levels]
    ordered: set[str] = set()
    numbers = [0] * 4
    for _ in range(40):
        sender, level = random.randrange(4), random.choice(levels)
        numbers[sender] += 1
        if level in ORDERED:
            ordered.add(f"p{sender + 1}#{numbers[sender]}")
        table.send(sender, b"", level=level)
        table.pass_some(random, random.randrange(12))
    table.settle(rounds=400)
    orders = [[message for message in log if message in ordered] for log in table.log]
    assert len(orders[0]) == len(ordered)
    assert all(order == orders[0] for order in orders)
    assert all(sorted(log) == sorted(table.log[0]) and len(log) == 40 for log in table.log)


@pytest.mark.levels("agreed")
def test_agreed_messages_that_came_during_a_pause_are_delivered_after_it_in_order(stack: str) -> None:
    table = Table(3, stack=stack)
    table.step(2, Pause(GROUP))
    for sender in (0, 1, 0, 1):
        table.send(sender, b"", level=AGREED)
    table.settle()
    assert table.log[2] == []
    table.step(2, Resume(GROUP))
    table.settle()
    assert table.log[2] == table.log[0]
    assert len(table.log[0]) == 4


def test_a_message_that_is_too_large_is_refused_and_changes_nothing(stack: str) -> None:
    table = Table(2, Options(message_bytes_max=10), stack=stack)
    with pytest.raises(MessageTooLargeError, match="11 bytes"):
        table.send(0, b"fits", b"x" * 11)
    table.settle()
    assert table.log[1] == []
    table.send(0, b"fits")
    table.settle()
    assert table.log[1] == ["p1#1"]


def test_misuse_is_refused_in_words(stack: str) -> None:
    table = Table(2, stack=stack)
    engine = table.engines[0]
    with pytest.raises(UsageError, match="not a member of group 'other'; join it first"):
        engine.step(Send(group="other", payloads=[], level=CAUSAL), table.now_ns)
    with pytest.raises(UsageError, match="already"):
        table.found(0, GROUP)
    with pytest.raises(UsageError, match="no stack 'best'"):
        engine.step(Join(group="h", policy="static", view=table.view, stack="best"), table.now_ns)


@pytest.mark.capable("founding", "static")
def test_misuse_of_first_views_and_of_barriers_is_refused_in_words(stack: str) -> None:
    table = Table(2, stack=stack)
    with pytest.raises(UsageError, match="p1/1 is not a member"):
        table.engines[0].step(Join(group="h", policy="static", view=View(1, (ProcessId("x"),)), stack=stack), 0)
    with pytest.raises(UsageError, match="static; join with `primary`"):
        table.barrier(0, b"")


@pytest.mark.capable("private")
@pytest.mark.levels("agreed")
def test_messages_to_one_member_are_causal_where_not_all_levels_have_them(stack: str) -> None:
    table = Table(2, stack=stack)
    if offer(stack).subsets:
        table.send(0, b"", level=AGREED, to=1)
        table.settle()
        assert (table.log[0], table.log[1]) == ([], ["private p1#1"])
        return
    with pytest.raises(UsageError, match="a message to one member is `causal`; 'agreed' is for multicasts"):
        table.send(0, b"", level=AGREED, to=1)


@pytest.mark.capable("causality_domains")
def test_a_domain_is_declared_alike_in_all_its_groups(stack: str) -> None:
    table = Table(2, stack=stack)
    join = Join(group="h", policy="static", view=table.view, stack=stack, domain=CausalityDomain(rule="conservative"))
    with pytest.raises(UsageError, match="declare it alike"):
        table.engines[0].step(join, 0)


def test_causality_domains_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="no rule 'none' for causality domains; choose one of: carry"):
        CausalityDomain(rule="none")
    with pytest.raises(UsageError, match="the resilience of domain 'd' is -1"):
        CausalityDomain(name="d", resilience=-1)
    with pytest.raises(UsageError, match="the overlaps of domain 'd' matter under the rules `carry` and `epochs`"):
        CausalityDomain(name="d", rule="conservative", overlaps=(("a", "b"),))
    with pytest.raises(UsageError, match="excluded groups matter under the rule `epochs` only"):
        CausalityDomain(name="d", excluded=("a",))


@pytest.mark.capable("datagrams")
def test_packets_of_other_groups_views_and_set_ups_are_dropped_and_counted(stack: str) -> None:
    table = Table(2, stack=stack)
    other = Table(2, Options(window_packets=5), stack=stack)
    other.send(0, b"")
    table.arrive(1, *other.take_data(0, 1))
    assert table.log[1] == []
    assert table.statistics(1)["dropped_view"] == 1
