"""A sample of runs of three domains in a line (transis-1992, section 4)."""

import asyncio
from typing import Any

import pytest

import antiphon
from antiphon.domain import CommunicationDomain, DomainMessage
from antiphon.faults import Delay, Partition
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.domain.export import CAUSAL_EXPORT, OUTBOX_MAX
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate
from tests.domain.relays import DOMAINS, LINK_PORT, SECOND_NS, kills, run


@pytest.mark.parametrize("seed", [0, 3])  # 3: a local message overtook a causal one that stood in line
def test_relays_are_killed_and_replaced_under_load(seed: int) -> None:
    program = run(seed, 8, kills(seed))
    assert {told.domain for told in program.told if told.complete and told.ended} == set(DOMAINS)
    assert any(not told.ended for told in program.told)


def test_three_domains_in_a_line() -> None:
    program = run(1, 6, [])
    sent = {name: to for told in program.told for kind, name, _, to in told.events if kind == "sent"}
    for told in program.told:
        got = {name for kind, name, _, _ in told.events if kind == "got"}
        assert got == {name for name, to in sent.items() if told.domain in to}


CUT_NS = SECOND_NS // 2
TALKERS = ("a1", "b1", "b2", "b3")


async def speak_past_a_cut_off_relay(host: Host) -> list[float]:
    """a1 has links to b1 and b2. When b1 has been cut off from b2 and b3 for a while, a1 sends."""
    domain = host.name[0].upper()
    members = {name: f"{host.addresses[name]}:7400" for name in TALKERS if name[0] == host.name[0]}
    got: list[float] = []
    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join(domain, members=members, stack="domain")
        links = {"B": [f"{host.addresses[name]}:{LINK_PORT}" for name in ("b1", "b2")]} if domain == "A" else None
        listen = host.at(LINK_PORT) if host.name in ("b1", "b2") else None
        async with CommunicationDomain(group, domain, ("A", "B"), listen=listen, links=links) as everywhere:
            reading = asyncio.create_task(read_times(everywhere, got))
            if domain == "A":
                await asyncio.sleep(3 * CUT_NS / SECOND_NS)
                for order in ("causal", "agreed", "safe"):
                    await everywhere.send(b"x", to=["B"], order=order)
            await host.ending.wait()
            reading.cancel()
    return got


async def read_times(everywhere: CommunicationDomain, got: list[float]) -> None:
    async for event in everywhere:
        if isinstance(event, DomainMessage):
            got.append(asyncio.get_running_loop().time())


def test_a_relay_that_is_cut_off_from_its_own_domain_swallows_nothing() -> None:
    """Its links work: what it does not acknowledge goes to the other relay of its domain."""
    one, others = frozenset({"b1"}), frozenset({"b2", "b3"})
    cuts = [
        NetworkFault(Partition(sources, destinations, CUT_NS, 12 * CUT_NS))
        for sources, destinations in ((one, others), (others, one))
    ]
    plan = FaultPlan(Delay(MILLISECOND_NS, MILLISECOND_NS), cuts, heal_ns=12 * CUT_NS)
    result = simulate(dict.fromkeys(TALKERS, speak_past_a_cut_off_relay), seed=1, faults=plan, may_stall=True)
    for name in ("a1", "b2", "b3"):
        times = result.returned[name]
        assert len(times) == 3
        assert max(times) < 9 * CUT_NS / SECOND_NS, name  # while the cut lasts


async def send_while_full(host: Host) -> list[bytes]:
    got: list[bytes] = []
    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join("g", members=host.members(), stack="domain")
        async with CommunicationDomain(group, "A", ["A", "B"]) as domain:
            for _ in range(OUTBOX_MAX):
                domain.exports.submit("a/1", 1, CAUSAL_EXPORT, ("A", "B"), b"")
            domain.exports.delivered = []
            sends = [
                asyncio.create_task(domain.send(b"first", to=["B"], order="causal")),
                asyncio.create_task(domain.send(b"second", order="causal")),
            ]
            await asyncio.sleep(0.2)
            assert not any(send.done() for send in sends)
            domain.exports.acknowledge("B", OUTBOX_MAX)
            await asyncio.gather(*sends)
            async for event in domain:
                if isinstance(event, DomainMessage):
                    got.append(event.payload)
                    if len(got) == 2:
                        break
            await host.ending.wait()
    return got


def test_a_call_that_waits_is_not_overtaken_by_the_next_one() -> None:
    result = simulate({"a": send_while_full}, seed=1, faults="none", active_s=1)
    assert result.kept, result.report("")
    assert result.returned["a"] == [b"first", b"second"]


async def call_wrongly(host: Host) -> list[str]:
    told: list[str] = []
    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join("g", members=host.members(), stack="domain")
        for wrong in ({"links": {"C": [host.at(7500)]}}, {"routes": {"B": "C"}}):
            with pytest.raises(antiphon.UsageError, match="name 'C', which is not of `domains`"):
                CommunicationDomain(group, "A", ["A", "B"], **wrong)
        async with CommunicationDomain(group, "A", ["A", "B"]) as domain:
            calls: list[tuple[Any, Any]] = [("text", []), (None, ["B"]), (7, []), (bytearray(b"x"), ["B"]), (b"x", "B")]
            for payload, to in calls:
                with pytest.raises(antiphon.UsageError) as refused:
                    await domain.send(payload, to=to, order="agreed")
                told.append(str(refused.value))
            await host.ending.wait()
    return told


def test_what_cannot_be_sent_is_refused_at_the_call() -> None:
    result = simulate({"a": call_wrongly}, seed=1, faults="none", active_s=1)
    assert result.kept, result.report("")
    kinds = ["str", "NoneType", "int", "bytearray"]
    assert result.returned["a"] == [
        *[f"a payload is bytes, not {kind}; encode it first" for kind in kinds],
        "`to` is a list of domains, not a text; write to=['B']",
    ]
