"""`flush` waits for delivery (isis-1991, section 7.3): what follows it in another causality domain comes after."""

import asyncio

import pytest

from antiphon import CausalityDomain, Node, Order
from tests.runtime.cluster import bad_network, run, until
from tests.runtime.test_outbox_order import listen

ROUNDS = 30


@pytest.mark.parametrize("order", ["causal", "agreed", "safe"])
def test_what_follows_a_flush_in_another_domain_is_delivered_after_it(order: Order) -> None:
    async def test() -> None:
        nodes = [Node(name, address="127.0.0.1:0", incarnation=1, faults=bad_network(), seed=7) for name in "pqr"]
        for node in nodes:
            await node.start()
        members = {node.process.name: node.address for node in nodes}
        groups = [
            [
                await node.join(name, members=members, policy="static", domain=CausalityDomain(name=f"domain {name}"))
                for name in "ab"
            ]
            for node in nodes
        ]
        heard = [listen(group) for group in groups]
        await groups[2][0].send(b"the total order is told by its first sender", order=order)
        for number in range(ROUNDS):
            await groups[0][0].send(b"before %d" % number, order=order)
            await nodes[0].flush("domain a")
            await groups[0][1].send(b"after %d" % number)
        await until(lambda: all(len(each) == 2 * ROUNDS + 1 for each in heard))
        for each in heard:
            for number in range(ROUNDS):
                assert each.index(b"before %d" % number) < each.index(b"after %d" % number)
        await asyncio.gather(*(node._close(False, 0.0) for node in nodes))

    run(test)
