"""Members of two releases in one group: packets bear the highest version that all read, and nothing is lost.

A node with `Options(wire_version=VERSION_MIN)` is what the release before was: it drops packets of newer versions, and
tells nobody that it could read them."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

import antiphon
from antiphon.engine import Engine
from antiphon.faults import Delay
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import packet_kind, packet_version, seal, stamp_of, unseal, view_tag
from antiphon.kernel.declaration import Declaration, declare
from antiphon.kernel.effects import Installed
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId, View, wire_id
from antiphon.kernel.inputs import Create, Join, Receive, Send
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import DATA, MEMBERSHIP
from antiphon.kernel.wire_versions import VERSION, VERSION_MIN
from antiphon.parts.membership.messages import INSTALL, STATE, MembershipMessage, Proposal
from antiphon.parts.membership.requests import MembershipRequests
from antiphon.parts.membership.rounds import Round
from antiphon.parts.membership.session import ViewEnd
from antiphon.testing import FaultPlan, Host, Result, simulate
from antiphon.testing.fault_plan import SECOND_NS

STACKS = ("vector", "conversation", "domain", "label")
CALM = FaultPlan(Delay(200_000, 300_000), [], 12 * SECOND_NS)


def packet(version: int, sealed: bool = False) -> bytes:
    return seal(stamp_of(1, version, sealed), DATA, 2, 3, 4, 5, 6, [b"body"])


def test_versions_in_reach_are_read_and_others_are_dropped() -> None:
    for version in (VERSION_MIN, VERSION):
        assert packet_version(packet(version)) == version
        assert unseal(packet(version)) == (DATA, 2, 3, 4, 5, 6)
    for version in (VERSION_MIN - 1, VERSION + 1):
        unknown = bytearray(packet(VERSION))
        unknown[5] = version
        with pytest.raises(MalformedError, match="version"):
            unseal(bytes(unknown))
    with pytest.raises(MalformedError, match="version"):
        unseal(packet(VERSION), newest=VERSION_MIN)


def test_under_a_seal_the_newest_version_has_no_checksum_and_else_it_has() -> None:
    assert packet(VERSION, sealed=True)[:4] == bytes(4)
    assert unseal(packet(VERSION, sealed=True), sealed=True) == (DATA, 2, 3, 4, 5, 6)
    with pytest.raises(MalformedError, match="checksum"):
        unseal(packet(VERSION, sealed=True))
    assert packet(VERSION_MIN, sealed=True) == packet(VERSION_MIN)
    spoiled = packet(VERSION_MIN)[:-1] + b"?"
    with pytest.raises(MalformedError, match="checksum"):
        unseal(spoiled, sealed=True)


def test_the_tag_tells_views_of_different_versions_apart() -> None:
    members = (ProcessId("a"),)
    tags = [view_tag(View(1, members, (), version), Options()) for version in (VERSION_MIN, VERSION)]
    assert tags[0] != tags[1]


def versions_sent(kinds: Sequence[int], transmits: Any) -> set[int]:
    packets = [packet for transmit in transmits for packet in transmit.packets]
    return {packet_version(packet) for packet in packets if packet_kind(packet) in kinds}


def rolled(stack: Any, names: Sequence[str], sealed: bool) -> Any:
    """A program that first runs as the release before, then, one host after the other, as this one."""

    async def life(host: Host, version: int, until: asyncio.Event | None, seen: list[tuple[int, int]]) -> int:
        turn = names.index(host.name)
        options = antiphon.Options(wire_version=version)
        async with antiphon.Node(host.name, address=host.at(), options=options, insecure=not sealed) as node:
            group = await node.join("g", contacts=host.all_at(), stack=stack, found_after_s=0.5, timeout_s=60)
            reading = asyncio.create_task(read(group, seen))
            number = 0
            left_s = 2.0 + turn if version == VERSION_MIN else 2.0 + len(names) - turn
            end_s = asyncio.get_running_loop().time() + left_s
            while asyncio.get_running_loop().time() < end_s:
                await group.send(b"%s %d %d" % (host.name.encode(), version, number), order="agreed")
                number += 1
                await asyncio.sleep(0.1)
            if until is not None:
                await until.wait()
            reading.cancel()
            return node.statistics().get("dropped_version", 0)

    async def main(host: Host) -> tuple[int, list[tuple[int, int]]]:
        seen: list[tuple[int, int]] = []
        dropped = await life(host, VERSION_MIN, None, seen)
        dropped += await life(host, VERSION, host.ending, seen)
        return dropped, seen

    return main


async def read(group: antiphon.Group, seen: list[tuple[int, int]]) -> None:
    async for event in group:
        if isinstance(event, antiphon.ViewChange):
            seen.append((event.view.id, event.view.version))


def roll(stack: str, sealed: bool, seed: int) -> Result:
    names = ("a", "b", "c")
    return simulate({name: rolled(stack, names, sealed) for name in names}, seed=seed, faults=CALM)


@pytest.mark.parametrize(
    ("stack", "sealed"), [*((stack, True) for stack in STACKS), ("vector", False)], ids=[*STACKS, "vector, plain"]
)
def test_a_rolling_upgrade_loses_nothing_and_ends_in_the_new_version(stack: str, sealed: bool) -> None:
    result = roll(stack, sealed, seed=1)
    assert not result.problems
    for name, (dropped, seen) in result.returned.items():
        assert dropped == 0, f"{name} was sent packets that it could not read"
        versions = dict(seen)
        assert VERSION_MIN in versions.values(), "no view of the former version was seen"
        assert versions[max(versions)] == VERSION


def test_a_process_alone_speaks_its_own_version() -> None:
    for version in (VERSION_MIN, VERSION):
        engine = Engine(ProcessId("a"), Random(1), Options(wire_version=version))
        effects = engine.step(Create(group="g", stack="vector", policy="primary", address="a"), 0)
        (installed,) = [event for event in effects.events if hasattr(event, "view")]
        assert installed.view.version == version
        effects = engine.step(Send(group="g", payloads=[b"x"], level=CAUSAL), 1)
        assert not versions_sent((MEMBERSHIP,), effects.transmits) - {VERSION_MIN}


def next_version(read: dict[int, int], leavers: Sequence[int] = (), joiner: int = 0, version: int = VERSION_MIN) -> int:
    """The version of the view after one of three members, of which these answered with the version that they read."""
    members = tuple(ProcessId(name) for name in "abc")
    view = View(1, members, ("A", "B", "C"), version)
    round = Round(1, 0, 2)
    for rank, reads in read.items():
        round.states[rank] = MembershipMessage(STATE, members[rank], "", 1, version=reads)
    requests = MembershipRequests()
    requests.leavers.update(members[rank] for rank in leavers)
    if joiner:
        assert requests.let_in(ProcessId("d"), "D", 10, joiner)
    return round.make_proposal(view, ViewEnd(), requests, {1, 2}).view.version


def test_the_version_of_the_next_view_is_read_by_all() -> None:
    new, old = VERSION, VERSION_MIN
    assert next_version({0: new, 1: new, 2: new}) == new
    assert next_version({0: new, 1: old, 2: new}) == old
    assert next_version({0: new, 1: new, 2: new}, joiner=new) == new
    assert next_version({0: new, 1: new, 2: new}, joiner=old, version=new) == old


def test_whoever_goes_counts_too() -> None:
    """It may coordinate another round, and must be able to propose the same view; so does one that was not heard."""
    new, old = VERSION, VERSION_MIN
    assert next_version({0: new, 1: old, 2: new}, leavers=[1]) == old
    assert next_version({0: new, 2: new}) == old
    assert next_version({0: new, 2: new}, version=new) == new


def join_late(version: int) -> Any:
    async def main(host: Host) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        if version == VERSION_MIN:
            await asyncio.sleep(2.0)
        options = antiphon.Options(wire_version=version)
        async with antiphon.Node(host.name, address=host.at(), options=options) as node:
            group = await node.join("g", contacts=host.all_at(), found_after_s=0.5, timeout_s=60)
            reading = asyncio.create_task(read(group, seen))
            await group.send(host.name.encode())
            await host.ending.wait()
            reading.cancel()
        return seen

    return main


def test_a_group_goes_back_when_somebody_of_the_former_release_joins() -> None:
    programs = {"a": join_late(VERSION), "b": join_late(VERSION), "c": join_late(VERSION_MIN)}
    result = simulate(programs, seed=3, faults=FaultPlan(Delay(200_000, 300_000), [], 4 * SECOND_NS))
    assert not result.problems
    versions = [version for _, version in result.returned["a"]]
    assert VERSION in versions
    joined = [version for _, version in result.returned["c"]]
    assert joined[0] == VERSION_MIN


def test_a_view_that_cannot_be_read_is_not_entered() -> None:
    old = Engine(ProcessId("c"), Random(1), Options(wire_version=VERSION_MIN))
    old.step(Join(group="g", stack="vector", policy="primary", address="c", contacts=("a",)), 0)
    view = View(2, (ProcessId("a"), ProcessId("c")), ("a", "c"), VERSION)
    declared = Declaration(declare("vector", "primary", CausalityDomain(), Options())).id
    install = MembershipMessage(
        INSTALL, ProcessId("a"), "a", 1, accepted=Proposal(view, [], [], [], [], [], b""), version=VERSION
    )
    packets = install.encode(1, wire_id("g"), declared, 1400)
    effects = old.step(Receive(packets), 1)
    assert not [event for event in effects.events if isinstance(event, Installed)]
    assert old.statistics()["dropped_version"] == 1
