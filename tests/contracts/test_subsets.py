"""What a stack that delivers to chosen members owes its callers: each level holds among a message's destinations."""

from random import Random

import pytest

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.levels import AGREED, CAUSAL, COMMON_LEVELS, FIFO, SAFE
from tests.runtime.cluster import bad_network, run
from tests.runtime.places import founded
from tests.table import Table

pytestmark = pytest.mark.capable("subsets")


def test_only_its_destinations_are_handed_a_message(stack: str, level: int) -> None:
    """The sender is among them or not."""
    table = Table(4, stack=stack)
    table.send(0, b"a", level=level, to=(1, 3))
    table.send(2, b"b", level=level, to=(2, 3))
    table.settle()
    assert table.log[:3] == [[], ["private p1#1"], ["private p3#1"]]
    assert sorted(table.log[3]) == ["private p1#1", "private p3#1"]


def test_all_named_is_all(stack: str, level: int) -> None:
    table = Table(3, stack=stack)
    table.send(0, b"a", level=level, to=(2, 1, 0))
    table.settle()
    assert table.log == [["p1#1"], ["p1#1"], ["p1#1"]]


def test_a_message_longer_than_a_packet_reaches_its_destinations(stack: str, level: int) -> None:
    table = Table(3, stack=stack)
    table.send(0, bytes(5_000), level=level, to=(1,))
    table.send(0, b"to all", level=level)
    table.settle()
    assert table.payloads == [[b"to all"], [bytes(5_000), b"to all"], [b"to all"]]


def test_subsets_that_overlap_agree_on_one_order(stack: str) -> None:
    """Agreed and safe messages to all kinds of subsets, on a network that reorders: where two members are handed both
    of two messages, they are handed them in one order."""
    for seed in range(6):
        random = Random(seed)
        table = Table(4, stack=stack)
        for _ in range(20):
            to = tuple(random.sample(range(4), random.randint(1, 4)))
            table.send(random.randrange(4), b"m", level=random.choice((AGREED, SAFE)), to=to)
            links = [link for link in table.links if table.links[link]]
            for source, destination in random.sample(links, len(links) // 2):
                table.pass_on(source, destination)
        table.settle()
        for one in range(4):
            for other in range(one):
                mine, theirs = [[name.split()[-1] for name in table.log[place]] for place in (one, other)]
                assert [name for name in mine if name in theirs] == [name for name in theirs if name in mine]
        assert sum(map(len, table.log)) > 20


@pytest.mark.levels("fifo", "causal", "agreed", "safe")
def test_a_sender_s_messages_come_in_order_whatever_their_destinations(stack: str, level: int) -> None:
    table = Table(3, stack=stack)
    for number in range(12):
        table.send(0, b"m", level=FIFO if number % 3 else level, to=((1,), (1, 2), (0, 1, 2), (2,))[number % 4])
    table.settle()
    for log in table.log:
        numbers = [int(name.split("#")[1]) for name in log]
        assert numbers == sorted(numbers)
    assert [len(log) for log in table.log] == [3, 9, 9]


@pytest.mark.parametrize("first", [CAUSAL, AGREED, SAFE])
def test_causal_order_holds_through_a_member_that_is_no_destination(stack: str, first: int) -> None:
    """p1 tells p3 something, then p2 something else; as soon as p2 has that, it tells p3. However slow the first is, it
    comes first. (Where p1 and p2 wait for others before p2 is handed anything, these come along.)"""
    table = Table(5, stack=stack)
    table.send(0, b"first", level=first, to=(2,))
    table.send(0, b"second", level=CAUSAL, to=(1,))
    held = table.take(0, 2)
    for _ in range(40):
        if table.log[1]:
            break
        table.pass_on(0, 1)
        table.pass_on(1, 0)
        held += table.take(0, 2)
        table.wait(1_000_000)
    assert table.log[1] or first != CAUSAL
    if not table.log[1]:
        table.arrive(2, *held)
        table.settle()
        held = []
    table.send(1, b"third", level=CAUSAL, to=(2,))
    table.pass_on(1, 2)
    table.arrive(2, *held)
    table.settle()
    assert table.log[2] == ["private p1#1", "private p2#1"]


def test_who_is_gone_when_a_message_leaves_is_left_out(stack: str) -> None:
    table = Table(4, stack=stack, policy="primary")
    table.crash(3)
    table.play(4_000)
    assert ProcessId("p4") not in table.views[0]["g"].members
    table.send(0, b"m", level=AGREED, to=(1, 3))
    table.send(0, b"m", level=AGREED, to=(3,))
    table.send(0, b"m", level=AGREED)
    table.settle()
    assert [log[-2:] for log in table.log[:3]] == [["p1#3"], ["private p1#1", "p1#3"], ["p1#3"]]


def test_many_messages_to_a_subset_in_one_call(stack: str) -> None:
    async def test() -> None:
        async with founded(stack=stack) as places:
            a, b, c = places
            await a.group.send_many([b"1", b"2"], order="agreed", to=[b.process, c.process])
            await a.group.send_many([b"3", b"4"], order="agreed")
            assert [await a.message() for _ in range(2)] == [b"3", b"4"]
            for place in (b, c):
                assert [await place.message() for _ in range(4)] == [b"1", b"2", b"3", b"4"]

    run(test)


@pytest.mark.levels(*COMMON_LEVELS)
def test_subsets_at_all_levels_over_a_bad_network(stack: str) -> None:
    async def test() -> None:
        async with founded(stack=stack, faults=bad_network()) as places:
            a, b, c = places
            for order in COMMON_LEVELS:
                await a.group.send(b"bc " + order.encode(), order=order, to=[b.process, c.process])
                await b.group.send(b"ab " + order.encode(), order=order, to=(a.process, b.process))
                await c.group.send(b"a " + order.encode(), order=order, to=a.process)
            wanted = {a: (b"ab", b"a"), b: (b"bc", b"ab"), c: (b"bc",)}
            for place, kinds in wanted.items():
                heard = [await place.message() for _ in range(len(kinds) * len(COMMON_LEVELS))]
                assert sorted(heard) == sorted(
                    kind + b" " + order.encode() for kind in kinds for order in COMMON_LEVELS
                )

    run(test)
