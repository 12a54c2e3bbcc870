"""What a stack owes its callers that lacks what others have: it says so when it is asked, and nothing has changed."""

import sys

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import seal
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import View, wire_id
from antiphon.kernel.inputs import Join
from antiphon.kernel.packet_kinds import KIND_NAMES
from antiphon.stacks.registry import offer
from tests.contracts.capabilities import NEEDS
from tests.runtime.cluster import run
from tests.runtime.places import founded
from tests.table import Table


def goes_on(table: Table) -> bool:
    """Whether a message is delivered to all as if nothing had happened."""
    table.send(0, b"next")
    table.settle()
    return all(log == ["p1#1"] for log in table.log)


def test_each_need_has_a_reason_and_a_contract_for_those_that_lack_it() -> None:
    tests = [made for name, made in vars(sys.modules[__name__]).items() if name.startswith("test_")]
    marks = [mark for test in tests for mark in getattr(test, "pytestmark", [])]
    assert {name for mark in marks if mark.name == "lacking" for name in mark.args} == set(NEEDS)
    assert all(need.why_not.endswith(".") for need in NEEDS.values())


@pytest.mark.lacking("private")
def test_destinations_are_refused(stack: str) -> None:
    table = Table(2, stack=stack)
    with pytest.raises(UsageError, match=f"'{stack}' sends every message to all members; name no destination"):
        table.send(0, b"", to=1)
    assert goes_on(table)


@pytest.mark.lacking("private")
def test_destinations_are_refused_at_the_call(stack: str) -> None:
    async def test() -> None:
        async with founded(stack=stack) as places:
            with pytest.raises(UsageError, match=f"'{stack}' sends every message to all members"):
                await places[0].group.send(b"psst", to=places[1].process)

    run(test)


@pytest.mark.lacking("subsets")
def test_several_destinations_are_refused(stack: str) -> None:
    table = Table(3, stack=stack)
    with pytest.raises(UsageError, match=r"name no destination|sends to all members or to one, not to 2"):
        table.send(0, b"", to=(1, 2))
    assert goes_on(table)


@pytest.mark.lacking("causality_domains")
def test_a_causality_domain_is_refused(stack: str) -> None:
    table = Table(2, stack=stack)
    with pytest.raises(UsageError, match=r"group 'h' cannot be in .*; name no causality domain"):
        table.found(0, "h", domain=CausalityDomain(name="of its own"))
    assert goes_on(table)


@pytest.mark.lacking("crosses_groups")
def test_causal_order_is_promised_for_one_group(stack: str) -> None:
    assert offer(stack).scope("causal") == "group"


@pytest.mark.lacking("barriers")
def test_a_barrier_is_refused(stack: str) -> None:
    table = Table(2, stack=stack)
    with pytest.raises(UsageError, match=f"'{stack}' has no barriers"):
        table.barrier(0)
    assert goes_on(table)


@pytest.mark.lacking("founding")
def test_a_first_view_is_refused(stack: str) -> None:
    table = Table(1, stack=stack)
    join = Join(group="h", policy=offer(stack).policies[0], view=View(1, (table.processes[0],)), stack=stack)
    with pytest.raises(UsageError, match="to join group 'h', name the address"):
        table.engines[0].step(join, table.now_ns)
    assert goes_on(table)


@pytest.mark.lacking("static")
def test_the_policy_static_is_refused(stack: str) -> None:
    table = Table(2, stack=stack)
    with pytest.raises(UsageError, match=f"'{stack}' has no policy 'static'; choose one of:"):
        table.found(0, "h", policy="static")
    assert goes_on(table)


@pytest.mark.lacking("datagrams")
def test_nothing_leaves_as_a_packet_and_packets_are_dropped(stack: str) -> None:
    """Whatever comes as a packet, in the name of the stack, is counted and does nothing."""
    table = Table(2, stack=stack)
    table.send(0, b"sent")
    assert table.links == {}
    assert table.streams.under_way()
    for place in range(len(table.names)):
        for group in (wire_id("g"), wire_id("h")):
            for kind in KIND_NAMES:
                table.arrive(place, seal(offer(stack).number, kind, group, 1, 0, 0, 0, [b"of no stack"]))
        dropped = [count for name, count in table.statistics(place).items() if name.startswith("dropped")]
        assert sum(dropped) == 2 * len(KIND_NAMES)
    table.settle()
    assert table.links == {}
    assert table.log == [["p1#1"], ["p1#1"]]
