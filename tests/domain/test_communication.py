"""A sample of runs of three domains in a line (transis-1992, section 4)."""

from typing import Any

import pytest

import antiphon
from antiphon.domain import CommunicationDomain
from antiphon.testing import Host, simulate
from tests.domain.relays import DOMAINS, kills, run


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
