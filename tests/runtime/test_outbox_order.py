"""What a process sends leaves in the order of its calls, whatever the groups of a causality domain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Batch, CausalityDomain, Group, Node, Options, Order, Policy, StackName
from antiphon.runtime.events import BatchEvent
from tests.runtime.cluster import run, until

RULES = ("carry", "conservative", "epochs")


@asynccontextmanager
async def two_groups(
    domains: tuple[CausalityDomain, CausalityDomain],
    stack: StackName = "vector",
    policy: Policy = "static",
    **settings: Any,
) -> AsyncIterator[tuple[list[Group], list[Group], list[Node]]]:
    """Two nodes that are both in the groups "a" and "b": the two groups at the first, the two at the second."""
    nodes = [Node(name, address="127.0.0.1:0", incarnation=1, **settings) for name in ("p", "q")]
    for node in nodes:
        await node.start()
    members = {node.process.name: node.address for node in nodes}
    named = list(zip("ab", domains, strict=True))
    joined = await asyncio.gather(
        *(
            asyncio.gather(
                *(node.join(name, members=members, domain=each, stack=stack, policy=policy) for name, each in named)
            )
            for node in nodes
        )
    )
    try:
        yield joined[0], joined[1], nodes
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


def listen(groups: list[Group]) -> list[bytes]:
    """All payloads that are delivered in these groups, in the order of their delivery."""
    heard: list[bytes] = []

    def hear(event: BatchEvent) -> None:
        if isinstance(event, Batch):
            heard.extend(event.payloads)

    for group in groups:
        group.listen(hear)
    return heard


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ["reliable", "fifo", "causal", "agreed", "safe"])
def test_sends_to_two_groups_by_turns_arrive_in_the_order_of_the_calls(rule: str, order: Order) -> None:
    """Below causal that is promised to nobody, and so it is on a healthy network."""

    async def test() -> None:
        domain = CausalityDomain(rule=rule)
        async with two_groups((domain, domain), policy="primary") as (sending, hearing, _):
            heard = listen(hearing)
            for number in range(5):
                await sending[number % 2].send(b"%d" % number, order=order)
            await until(lambda: len(heard) == 5)
            assert heard == [b"%d" % number for number in range(5)]

    run(test)


def test_sends_to_two_groups_keep_their_order_under_back_pressure() -> None:
    async def test() -> None:
        options = Options(pending_bytes_max=2000, window_packets=8, packet_bytes_max=1400)
        async with two_groups((CausalityDomain(), CausalityDomain()), options=options) as (sending, hearing, _):
            heard = listen(hearing)
            count = 300
            for number in range(count):
                size = 900 if number % 3 else 10
                await sending[number % 2].send((b"%d " % number).ljust(size))
            await until(lambda: len(heard) == count)
            assert [int(payload.split()[0]) for payload in heard] == list(range(count))

    run(test)


def test_a_full_group_holds_up_its_own_domain_alone() -> None:
    async def test() -> None:
        options = Options(pending_bytes_max=2000, window_packets=4, packet_bytes_max=1400)
        domains = (CausalityDomain(name="one"), CausalityDomain(name="two"))
        async with two_groups(domains, options=options, queue_messages_max=4) as (sending, hearing, _):
            heard = listen([hearing[1]])
            listen(sending)
            sent = 0
            while sending[0].send_now(bytes(1300)):  # nobody reads "a" at q
                sent += 1
                await asyncio.sleep(0)
                assert sent < 10_000
            await sending[1].send(b"of another domain")
            await until(lambda: heard == [b"of another domain"])

    run(test)
