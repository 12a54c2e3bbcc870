"""Sections 3.7 and 3.8 of isis-1987: checkpoints, the transfer of states, and figure 1 with clients outside the group;
on the stack `label`, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Literal

import pytest

import antiphon
from antiphon.faults import Delay
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.toolkit import Service

SECOND_NS = 1_000_000_000
SPEED = Delay(2_000_000, 6_000_000)
QUIET = FaultPlan(SPEED, [], heal_ns=SECOND_NS)
FOUNDERS = ("a", "b", "c")
CHUNKS = 40

Providers = Literal["oldest", "all"]


def stage(mains: dict[str, Any], plan: FaultPlan = QUIET) -> dict[str, Any]:
    result = simulate(mains, seed=1, faults=plan, may_stall=True)
    assert not result.problems, result.problems
    return dict(result.returned)


def others_of(host: Host) -> list[str]:
    return [address for name, address in host.members().items() if name in FOUNDERS]


def founders_of(host: Host) -> dict[str, str]:
    return {name: address for name, address in host.members().items() if name in FOUNDERS}


async def checkpoint(host: Host) -> list[tuple[str, ...]]:
    """A member whose state is what it has delivered; it makes a checkpoint when a GBCAST asks for one."""
    state: list[str] = []
    checkpoints: list[tuple[str, ...]] = []
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        group = await node.join("group", members=founders_of(host), policy="primary", stack="label")

        async def read() -> None:
            async for event in group:
                if isinstance(event, antiphon.Barrier):
                    checkpoints.append(tuple(sorted(state)))
                elif isinstance(event, antiphon.Message):
                    state.append(event.payload.decode())

        reading = asyncio.create_task(read())
        for number in range(12):
            label = ("red", "blue")[number % 2]
            await group.send(f"{host.name}{number}".encode(), order="abcast", label=label)
            await group.send(f"{host.name}{number}'".encode(), order="reliable", label=f"clock={number}")
            await asyncio.sleep(0.01)
            if number == 5:
                await group.barrier(b"checkpoint")
        await host.ending.wait()
        reading.cancel()
    return checkpoints


def test_3_7_checkpoints_that_a_gbcast_asks_for_are_of_one_instant() -> None:
    returned = stage(dict.fromkeys(FOUNDERS, checkpoint))
    assert returned["a"] == returned["b"] == returned["c"]
    assert len(returned["a"]) == 3
    assert 0 < len(returned["a"][0]) < 72


class Replica:
    """A member with a long state: what was delivered, and something to transfer slowly."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.state: list[str] = []
        self.restores = 0
        self.snapshots = 0
        self.restored_at_s = 0.0

    def snapshot(self) -> AsyncIterator[bytes]:
        self.snapshots += 1
        return self._chunks(list(self.state))

    async def _chunks(self, state: list[str]) -> AsyncIterator[bytes]:
        for _ in range(CHUNKS):
            await asyncio.sleep(0.05)
            yield b" " * 1000
        for text in state:
            yield text.encode() + b"\n"

    async def restore(self, chunks: AsyncIterator[bytes]) -> None:
        self.restores += 1
        whole = b"".join([chunk async for chunk in chunks])
        self.state = whole.decode().split()
        self.restored_at_s = asyncio.get_running_loop().time()


async def replicate(host: Host, providers: Providers, joins_at_s: float = 0.0) -> dict[str, Any]:
    replica = Replica(host)
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        if joins_at_s:
            await asyncio.sleep(joins_at_s)
            group = await node.join("group", contacts=others_of(host), stack="label")
        else:
            group = await node.join("group", members=founders_of(host), policy="primary", stack="label")
        async with Service(group, snapshot=replica.snapshot, restore=replica.restore, providers=providers) as service:

            async def read() -> None:
                async for event in service:
                    if isinstance(event, antiphon.Message):
                        replica.state.append(event.payload.decode())

            reading = asyncio.create_task(read())
            for number in range(100):
                if host.name in "bc":
                    await service.send(f"{host.name}{number}".encode(), order="causal")
                await asyncio.sleep(0.05)
            await host.ending.wait()
            reading.cancel()
    return {"state": sorted(replica.state), "restores": replica.restores, "snapshots": replica.snapshots}


def play_transfer(providers: Providers, plan: FaultPlan) -> dict[str, Any]:
    founder = partial(replicate, providers=providers)
    return stage(
        dict.fromkeys(FOUNDERS, founder) | {"d": partial(replicate, providers=providers, joins_at_s=1.0)}, plan
    )


@pytest.mark.parametrize("providers", ["oldest", "all"])
def test_3_7_a_joiner_gets_the_state_and_buffers_meanwhile(providers: Providers) -> None:
    """The transfer takes two seconds, in which the others go on; afterwards all states are equal."""
    returned = play_transfer(providers, QUIET)
    states = [one["state"] for one in returned.values()]
    assert states == [states[0]] * 4
    assert len(states[0]) == 200
    assert returned["d"]["restores"] == 1
    made = [returned[name]["snapshots"] for name in FOUNDERS]
    assert made == ([1, 0, 0] if providers == "oldest" else [1, 1, 1])


@pytest.mark.parametrize("providers", ["oldest", "all"])
def test_3_7_a_cohort_takes_over_when_the_coordinator_fails_in_the_middle(providers: Providers) -> None:
    """The oldest member, which transfers its state, is killed. If it is the only provider the next one restarts the
    transfer; if all have answered, the joiner has another answer already."""
    plan = FaultPlan(SPEED, [KillProgram("a", at_ns=2 * SECOND_NS)], heal_ns=3 * SECOND_NS)
    returned = play_transfer(providers, plan)
    states = [returned[name]["state"] for name in ("b", "c", "d")]
    assert states == [states[0]] * 3
    assert len(states[0]) == 200
    assert returned["d"]["restores"] == 2
    assert returned["b"]["snapshots"] == 1
    assert returned["c"]["snapshots"] == (providers == "all")


async def server(host: Host, joins_at_s: float = 0.0) -> list[str]:
    """A member of figure 1: what it sees, in order; the first in the view answers each request."""
    log: list[str] = []
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        if joins_at_s:
            await asyncio.sleep(joins_at_s)
            group = await node.join("group", contacts=others_of(host), stack="label")
        else:
            group = await node.join("group", members=founders_of(host), policy="primary", stack="label")

        def hear(event: object) -> None:
            if isinstance(event, antiphon.Batch):
                log.extend(payload.decode() for payload in event.payloads)
            elif isinstance(event, antiphon.ViewChange):
                log.append("view " + " ".join(member.name for member in event.view.members))

        group.listen(hear)
        await host.ending.wait()
    return log


async def client(host: Host) -> None:
    async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
        group = await node.reach("group", contacts=others_of(host), stack="label")
        for number in range(60):
            await group.send(f"{host.name}{number}".encode(), order="causal")
            await asyncio.sleep(0.05)
        await group.flush()
        await host.ending.wait()


def test_3_8_figure_1_two_clients_outside_a_group_that_loses_and_gains_a_member() -> None:
    """Requests of two clients, a failure and a join: each request comes before or after either event at all members
    alike, and the requests of one client come in their order."""
    plan = FaultPlan(SPEED, [KillProgram("b", at_ns=SECOND_NS)], heal_ns=2 * SECOND_NS)
    mains = dict.fromkeys(FOUNDERS, server) | {"d": partial(server, joins_at_s=2.0), "x": client, "y": client}
    returned = stage(mains, plan)
    views = [line for line in returned["a"] if line.startswith("view")]
    assert "view a c" in views
    assert views[-1] == "view a c d"
    for name in ("c", "d"):
        log = returned[name]
        first = log.index("view a c d")
        assert [line for line in log[first:] if line.startswith("view")] == [views[-1]]
        assert sorted(log[first:]) == sorted(returned["a"][returned["a"].index("view a c d") :])
    for name, log in returned.items():
        if name in ("a", "c"):
            assert sections(log) == sections(returned["a"])
            for sender in "xy":
                assert [line for line in log if line[0] == sender] == [f"{sender}{number}" for number in range(60)]


def sections(log: list[str]) -> list[tuple[str, ...]]:
    """What was delivered between two views, in no order."""
    found: list[list[str]] = [[]]
    for line in log:
        if line.startswith("view"):
            found.append([line])
        else:
            found[-1].append(line)
    return [tuple(sorted(part)) for part in found]


def test_4_2_a_join_is_not_starved_by_gbcasts_without_end() -> None:
    """All members have GBCASTs one after the other, and a process joins meanwhile: the view locks of both are one."""

    async def restless(host: Host) -> int:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            group = await node.join("group", members=founders_of(host), policy="primary", stack="label")
            group.listen(lambda event: None)
            until_s = asyncio.get_running_loop().time() + 4
            while asyncio.get_running_loop().time() < until_s:
                await group.barrier(b"again")
                await group.flush()
            await host.ending.wait()
            return group.view.id

    async def late(host: Host) -> float:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            await asyncio.sleep(1)
            began_s = asyncio.get_running_loop().time()
            group = await node.join("group", contacts=others_of(host), stack="label")
            took_s = asyncio.get_running_loop().time() - began_s
            group.listen(lambda event: None)
            await host.ending.wait()
            return took_s

    returned = stage(dict.fromkeys(FOUNDERS, restless) | {"d": late})
    assert returned["d"] < 0.5
    assert returned["a"] > 50
