"""How many flights a message takes in a group that is idle: one-way trips between members, one after the other.

Time stands still here, so that no timer goes off. What a message waits for is sent at once, or the message never comes:
so these are properties of the protocol, and no measurement. Under load, acks and places ride on data instead, and a
budget holds back those that would leave alone (parts/exchange.py).
"""

from random import Random

import pytest

from antiphon.kernel.levels import AGREED, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from tests.table import Table

FLIGHTS_MAX = 12
ARRIVALS_MAX = 300
REST_NS = 1000 * MILLISECOND_NS
FLIGHT_NS = 100_000
SAFE_AFTER_AGREED = {"label": 2}
"""Flights that safe takes beyond agreed, if not one. On `label` members vouch to the sender, which then releases the
message: the third phase of its paper (stacks/label/ordering.py)."""


def rested(members: int, stack: str) -> Table:
    """A group in which everything is settled, and has been for a while."""
    table = Table(members, stack=stack)
    for member in range(members):
        table.send(member, b"before")
    table.settle()
    rest(table)
    return table


def rest(table: Table) -> None:
    for _ in range(20):
        table.wait(REST_NS // 20)
        table.pass_all()
    for _ in range(FLIGHTS_MAX):
        table.pass_all()


def have(table: Table, members: int, count: int) -> bool:
    return all(len(log) == count for log in table.log[:members])


def flights(table: Table, members: int, sender: int, level: int) -> int:
    """How many flights it takes until all members have delivered one message, without any timer."""
    count = len(table.log[0])
    table.send(sender, b"now", level=level)
    taken = 0
    while not have(table, members, count + 1):
        taken += 1
        assert taken <= FLIGHTS_MAX, "it waits for a timer"
        table.pass_all()
    return taken


def most_flights(stack: str, members: int, level: int) -> int:
    """The same, whoever sends; the most of them."""
    return max(flights(rested(members, stack), members, sender, level) for sender in range(members))


@pytest.mark.parametrize("members", [2, 3, 5])
@pytest.mark.levels("agreed", "safe")
def test_safe_takes_one_flight_more_than_agreed(stack: str, members: int) -> None:
    more = SAFE_AFTER_AGREED.get(stack, 1)
    assert most_flights(stack, members, SAFE) <= most_flights(stack, members, AGREED) + more


@pytest.mark.parametrize("seed", range(6))
def test_no_message_waits_for_a_timer_whatever_arrives_first(stack: str, level: int, seed: int) -> None:
    """Packets overtake each other, and time stands still."""
    random = Random(seed)
    table = rested(3, stack)
    for number in range(1, 7):
        count = len(table.log[0])
        table.send(random.randrange(3), b"now", level=level)
        arrived = 0
        while not have(table, 3, count + 1) and (table.links or table.streams.under_way()):
            one_arrives(table, random)
            arrived += 1
            assert arrived < ARRIVALS_MAX, f"message {number} waits for a timer"
        assert have(table, 3, count + 1), f"message {number} waits for a timer: {table.log}"
        if number % 2:
            rest(table)


def one_arrives(table: Table, random: Random) -> None:
    """Any one packet or frame; frames of one stream stay in order."""
    links = [link for link, packets in table.links.items() if packets]
    streams = table.streams.under_way()
    place = random.randrange(len(links) + len(streams))
    if place >= len(links):
        link, to_client = streams[place - len(links)]
        table.streams.pass_on(link, to_client, 1)
        return
    source, destination = links[place]
    packets = table.links[source, destination]
    packet = packets.pop(random.randrange(len(packets)))
    if not packets:
        del table.links[source, destination]
    table.arrive(destination, packet)


def test_one_message_after_the_other_takes_no_longer(stack: str, level: int) -> None:
    """Messages that answer each other, so that acks of one are under way when the next is sent."""
    alone = max(flights(rested(3, stack), 3, sender, level) for sender in range(3))
    table = rested(3, stack)
    for number in range(40):
        count = len(table.log[0])
        table.send(number % 3, b"now", level=level)
        taken = 0
        while not have(table, 3, count + 1):
            taken += 1
            assert taken <= FLIGHTS_MAX
            table.pass_all()
            table.wait(FLIGHT_NS)
        assert taken <= alone, f"message {number}"
