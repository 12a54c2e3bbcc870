"""Conversations over a bad network: everybody gets the same graph, in an order of the context, and the same waves."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.waves import Waves
from tests.stacks.conversation.net import Net


def talk(seed: int, participants: int, steps: int = 60) -> Net:
    """A random conversation with losses, and a sound end."""
    random = Random(seed)
    net = Net(participants, random, loss=random.choice([0, 0.1, 0.4]), doubling=random.choice([0, 0.2]))
    net.send(0, b"first")
    for step in range(steps):
        rank = random.randrange(participants)
        if random.random() < 0.7:
            net.receive_all(rank)
        if net.received[rank] or rank == 0:  # only the first may speak before it has heard anything
            net.send(rank, b"%d" % step)
        net.run(random.randrange(4 * MILLISECOND_NS))
    net.settle()
    for rank in range(participants):
        net.receive_all(rank)
    return net


@pytest.mark.parametrize("seed", range(60))
def test_all_images_become_equal(seed: int) -> None:
    net = talk(seed, 2 + seed % 5)
    first = net.hosts[0].replica.graph
    assert all(host.replica.graph.last == first.last for host in net.hosts)
    assert all(host.replica.held() == 0 for host in net.hosts)
    for rank in range(net.count):
        assert len(net.received[rank]) == sum(first.last) - first.last[rank]


@pytest.mark.parametrize("seed", range(60))
def test_messages_are_received_in_an_order_of_the_context(seed: int) -> None:
    net = talk(seed, 2 + seed % 5)
    for got in net.received:
        nodes = [node for node, _ in got]
        for place, node in enumerate(nodes):
            assert not any(later.precedes(node) for later in nodes[place + 1 :])


@pytest.mark.parametrize("seed", range(40))
def test_waves_come_in_one_order_everywhere(seed: int) -> None:
    net = talk(seed, 2 + seed % 5)
    for rank in range(net.count):  # so that all before becomes stable
        net.send(rank, b"end")
    net.settle()
    orders = []
    for host in net.hosts:
        waves = Waves(host.replica.graph)
        for node in host.replica.graph.in_order():
            waves.add(node)
        orders.append([node.mid() for node in waves.take()])
    assert all(order == orders[0] for order in orders)
    assert len(orders[0]) > net.count
