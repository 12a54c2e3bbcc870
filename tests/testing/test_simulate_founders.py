"""Founders that are listed by name, in virtual time: killed at any moment, also while they found, and started again by
the same call, with incarnations from the hosts' clocks."""

import asyncio
from itertools import pairwise
from typing import Final

import pytest

import antiphon
from antiphon.faults import Delay
from antiphon.testing import FaultPlan, Host, KillProgram, simulate

MILLISECOND_NS: Final = 1_000_000
NAMES: Final = ("a", "b", "c")


async def member(host: Host) -> tuple[str, ...]:
    """Join, send now and then, and return the names of the last view's members."""
    async with antiphon.Node(host.name, address=host.at()) as node:
        group = await node.join("group", members=host.members(), timeout_s=60)

        async def listen() -> None:
            async for event in group:
                if isinstance(event, antiphon.Excluded):
                    raise antiphon.ExcludedError(group.name, node.process)

        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(listen())
            for number in range(5):
                await group.send(b"%d" % number)
                await asyncio.sleep(0.2)
            await host.ending.wait()
            listening.cancel()
        return tuple(sorted(process.name for process in group.view.members))


PROGRAMS: Final = dict.fromkeys(NAMES, member)


@pytest.mark.parametrize("program", ["a", "b"])
@pytest.mark.parametrize("at_ms", [0, 20, 60, 110, 200, 1500])
def test_a_founder_that_is_killed_and_started_again_at_once_comes_back(program: str, at_ms: int) -> None:
    for calls in (0, 2, 5, 9):
        kill = KillProgram(program, at_ms * MILLISECOND_NS, calls=calls, restart_ns=30 * MILLISECOND_NS)
        plan = FaultPlan(Delay(MILLISECOND_NS, 5 * MILLISECOND_NS), [kill], heal_ns=3000 * MILLISECOND_NS)
        result = simulate(PROGRAMS, seed=at_ms, faults=plan)
        assert result.kept, result.report("")
        assert set(result.returned.values()) == {NAMES}


@pytest.mark.parametrize("seed", range(8))
def test_founders_meet_on_a_bad_network(seed: int) -> None:
    result = simulate(PROGRAMS, seed=seed, faults="network")
    assert result.kept, result.report("")


SENDS_UNTIL_S: Final = 20.0


async def named_member(host: Host) -> list[float]:
    """Join in the same incarnation in each life; only b sends. When each message was delivered."""
    seen: list[float] = []
    loop = asyncio.get_running_loop()
    async with antiphon.Node(host.name, address=host.at(), incarnation=1, linger_s=0.2) as node:
        group = await node.join("group", members=host.members())

        async def send() -> None:
            while host.name == "b" and loop.time() < SENDS_UNTIL_S:
                await group.send(b"again", order="agreed")
                await asyncio.sleep(0.2)

        async def listen() -> None:
            async for event in group:
                if isinstance(event, antiphon.Message):
                    seen.append(loop.time())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            listening = tasks.create_task(listen())
            await host.ending.wait()
            listening.cancel()
    return seen


@pytest.mark.parametrize("program", ["a", "c"])
@pytest.mark.parametrize("after_ms", [0, 100, 1000])
def test_a_founder_that_begins_again_with_the_same_incarnation_stalls_nobody(program: str, after_ms: int) -> None:
    """It had sent nothing. If it is the oldest, those who do not know better hold on to it rather than to b."""
    kill = KillProgram(program, 3000 * MILLISECOND_NS, restart_ns=after_ms * MILLISECOND_NS)
    heals_ns = int(SENDS_UNTIL_S * 1000) * MILLISECOND_NS
    plan = FaultPlan(Delay(MILLISECOND_NS, MILLISECOND_NS), [kill], heal_ns=heals_ns)
    result = simulate(dict.fromkeys(NAMES, named_member), seed=1, faults=plan)
    for name in {"a", "b", "c"} - {program}:
        times = [0.0, *result.returned[name], SENDS_UNTIL_S]
        assert max(later - earlier for earlier, later in pairwise(times)) < 5
