"""Members that declare a group differently: refused by name, before anything goes wrong between them."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import MAIN
from antiphon.runtime import DeclarationError, Excluded, JoinError, Node
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK, Place, everyone, founded, talk

OTHERWISE = [
    CausalityDomain(name="other"),
    CausalityDomain(rule="conservative"),
    CausalityDomain(resilience=1),
    CausalityDomain(groups=("g", "h")),
    CausalityDomain(rule="epochs", groups=("g", "h"), overlaps=(("g", "h"),), excluded=("h",)),
]


async def started(names: str) -> list[Node]:
    nodes = [Node(name, address=LOOPBACK, incarnation=1, options=HASTY, linger_s=0.5) for name in names]
    for node in nodes:
        await node.start()
    return nodes


async def all_found(nodes: list[Node], domains: Mapping[str, CausalityDomain]) -> list[Place]:
    members = {node.process.name: node.address for node in nodes}
    return [
        Place(node, await node.join("g", members=members, domain=domains.get(node.process.name, MAIN)))
        for node in nodes
    ]


@pytest.mark.parametrize("domain", OTHERWISE, ids=repr)
def test_a_joiner_that_declares_the_group_differently_is_refused(domain: CausalityDomain) -> None:
    async def test() -> None:
        async with founded("ab") as places:
            (node,) = await started("c")
            with pytest.raises(JoinError) as raised:
                await node.join("g", contacts=[places[1].node.address], domain=domain)
            assert isinstance(raised.value, DeclarationError)
            told = str(raised.value)
            assert f"causality domain {domain.name!r}; rule {domain.rule}; resilience {domain.resilience}" in told
            assert "causality domain 'main'; rule carry; resilience 0" in told
            group = await node.join("g", contacts=[places[0].node.address])  # it is no worse for having been refused
            places.append(Place(node, group))
            await everyone(places, "a/1", "b/1", "c/1")
            await talk(places)

    run(test)


@pytest.mark.parametrize("known", [False, True])
def test_a_joiner_on_another_stack_is_refused(known: bool) -> None:
    """Whether the members run the other stack as well or not."""

    async def test() -> None:
        async with founded("ab") as places:
            (node,) = await started("c")
            if known:
                address = {"b": places[1].node.address}
                await places[1].node.join("elsewhere", members=address, stack="conversation")
            with pytest.raises(DeclarationError, match=r"stack conversation; .* has declared it as: stack vector; "):
                await node.join("g", contacts=[places[1].node.address], stack="conversation")
            await node.close()

    run(test)


def test_a_joiner_with_other_limits_is_refused() -> None:
    async def test() -> None:
        async with founded("ab") as places:
            options = replace(HASTY, window_packets=77)
            async with Node("c", address=LOOPBACK, incarnation=1, options=options) as node:
                with pytest.raises(DeclarationError, match="windows of 77 packets"):
                    await node.join("g", contacts=[places[1].node.address])

    run(test)


def test_a_refused_joiner_stays_in_its_other_groups() -> None:
    async def test() -> None:
        domain = CausalityDomain(name="d", rule="conservative")
        async with founded("ab") as places:
            (node,) = await started("c")
            other = Place(node, await node.join("h", members={"c": node.address}, domain=domain))
            with pytest.raises(DeclarationError):
                await node.join("g", contacts=[places[0].node.address], domain=domain)
            await other.view("c/1")
            await talk([other])
            await node.close()

    run(test)


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
def test_a_founder_that_declares_differently_from_two_others_is_refused(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        nodes = await started("abc")
        places = await all_found(nodes, {wrong: CausalityDomain(rule="conservative")})
        others = [place for place in places if place.process.name != wrong]
        (refused,) = [place for place in places if place.process.name == wrong]
        await refused.until(Excluded)
        with pytest.raises(DeclarationError, match=r"rule conservative(.|\n)*rule carry"):
            await refused.group.send(b"x")
        await everyone(others, *(f"{place.process.name}/1" for place in others))
        await talk(others)
        await asyncio.gather(*(node.close() for node in nodes))

    with caplog.at_level(logging.WARNING, "antiphon"):
        run(test)
    assert "goes on without" in caplog.text


@pytest.mark.parametrize("policy", ["primary", "static"])
def test_founders_that_all_declare_differently_are_all_refused(policy: str) -> None:
    async def test() -> None:
        nodes = await started("abc")
        members = {node.process.name: node.address for node in nodes}
        places = [
            Place(node, await node.join("g", members=members, policy=policy, domain=CausalityDomain(resilience=k)))  # type: ignore[arg-type]
            for k, node in enumerate(nodes)
        ]
        for place in places:
            await place.until(Excluded)
            with pytest.raises(DeclarationError):
                await place.group.send(b"x")
        await asyncio.gather(*(node.close() for node in nodes))

    run(test)


def test_a_misdeclared_ring_is_refused_by_each_member_of_two_of_its_groups() -> None:
    """Groups a, b, c overlap in a ring. Its members declare it as a line, or each member another line."""
    ring = {"p": "ab", "q": "bc", "r": "ca"}

    async def test(domains: Mapping[str, CausalityDomain]) -> int:
        nodes = {node.process.name: node for node in await started("pqr")}
        refused = 0
        for group in "abc":
            founders = [name for name, groups in ring.items() if group in groups]
            members = {name: nodes[name].address for name in founders}
            for name in founders:
                try:
                    joined = await nodes[name].join(group, members=members, domain=domains[name])
                except UsageError:  # no overlap of two of its groups is declared
                    refused += 1
                else:
                    place = Place(nodes[name], joined)
                    watching.append(asyncio.create_task(place.until(Excluded)))
        done, waiting = await asyncio.wait(watching, timeout=1.0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*(node.close() for node in nodes.values()))
        watching.clear()
        return refused + len(done)

    watching: list[asyncio.Task[object]] = []

    async def both() -> None:
        line = CausalityDomain(overlaps=(("a", "b"), ("b", "c")))
        assert await test(dict.fromkeys("pqr", line)) == 1, "r is in c and a, and no pair says so"
        lines = {
            "p": CausalityDomain(overlaps=(("a", "b"),)),
            "q": CausalityDomain(overlaps=(("b", "c"),)),
            "r": CausalityDomain(overlaps=(("c", "a"),)),
        }
        assert await test(lines) >= 3, "in each group two declarations meet, and at most one of them goes on"

    run(both)


@pytest.mark.parametrize("founds", [True, False])
def test_epochs_under_views_that_never_change_are_refused_at_the_join(founds: bool) -> None:
    """An epoch begins with a new view: such a group would stand still at its first message between groups."""

    async def test() -> None:
        (node,) = await started("a")
        members = {"a": node.address} if founds else {"a": node.address, "b": "127.0.0.1:1"}
        with pytest.raises(UsageError, match=r"rule `epochs` and the policy `static`.*choose the policy `primary`"):
            await node.join("g", members=members, policy="static", domain=CausalityDomain(rule="epochs"))
        await node.join("g", members={"a": node.address}, policy="primary", domain=CausalityDomain(rule="epochs"))
        await node.close()

    run(test)
