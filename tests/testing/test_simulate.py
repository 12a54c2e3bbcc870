"""Whole nodes in virtual time: kept under faults, one trace from one seed, failures that shrink and repeat."""

import asyncio
import os
import subprocess
import sys
from typing import Final

import pytest

import antiphon
from antiphon.faults import Delay, Flapping, Partition
from antiphon.simulator.fault_schedule import Until
from antiphon.testing import FaultPlan, Host, KillProgram, NetworkFault, PauseProgram, Result, simulate
from antiphon.testing.fault_plan import SimulationFault, draw_plan
from antiphon.testing.shrink import find_failure
from antiphon.testing.simulate import run_plan
from antiphon.testing.verdict import Expectations

NAMES: Final = ("a", "b", "c")
WITHOUT_END: Final = 60


async def talk(host: Host) -> list[bytes]:
    """Joins a group, sends ten messages, and returns what it read."""
    read: list[bytes] = []
    async with antiphon.Node(host.name, address=host.at(), incarnation=host.starts) as node:
        if host.starts == 1:
            group = await node.join("group", members=host.members(), policy="primary")
        else:
            others = [address for address in host.all_at() if address != host.at()]
            group = await node.join("group", contacts=others, timeout_s=WITHOUT_END)

        async def listen() -> None:
            async for event in group:
                if isinstance(event, antiphon.Message):
                    read.append(event.payload)
                elif isinstance(event, antiphon.Excluded):
                    raise antiphon.ExcludedError(group.name, node.process)

        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(listen())
            for number in range(10):
                await group.send(f"{host.name} {number}".encode(), order="agreed")
                await asyncio.sleep(0.3)
            await host.ending.wait()
            listening.cancel()
    return read


TALK: Final = dict.fromkeys(NAMES, talk)


def test_a_healthy_network_brings_everything_to_everybody() -> None:
    result = simulate(TALK, seed=0, faults="none")
    assert result.kept, result.report("")
    assert [len(result.returned[name]) for name in NAMES] == [30, 30, 30]
    assert result.returned["a"] == result.returned["b"] == result.returned["c"]


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_kept_under_faults(seed: int) -> None:
    result = simulate(TALK, seed=seed)
    assert result.kept, result.report("")


@pytest.mark.processes
def test_a_seed_gives_one_trace_whatever_the_hash_seed() -> None:
    text = "from tests.testing.test_simulate import *; print([simulate(TALK, seed=s).digest for s in (3, 4)])"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip() == str([simulate(TALK, seed=s).digest for s in (3, 4)])
    assert simulate(TALK, seed=3).digest != simulate(TALK, seed=4).digest


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_a_kill_may_strike_at_any_call_of_an_adapter(calls: int) -> None:
    delay = draw_plan("none", NAMES, 1, 1).delay
    kill = KillProgram("b", at_ns=500_000_000, calls=calls, restart_ns=100_000_000)
    result = simulate(TALK, seed=calls, faults=FaultPlan(delay, [kill], heal_ns=4_000_000_000))
    assert result.kept, result.report("")
    ends = [rows[-1] for rows in result.rows if rows[-1].process == "b"]
    assert [row.kind for row in ends] == ["crash", "stop"]


@pytest.mark.parametrize(
    "fault",
    [
        NetworkFault(Partition(frozenset("a"), frozenset("x"), 0, 1)),
        NetworkFault(Until(Flapping(frozenset("x"), frozenset("b"), 0, 1, 1, 1), 1)),
        KillProgram("x", 1),
        PauseProgram("x", 1, 1),
    ],
    ids=str,
)
def test_a_fault_of_a_host_that_is_not_there_is_refused(fault: SimulationFault) -> None:
    with pytest.raises(antiphon.UsageError, match="names 'x', but the programs are: a, b"):
        simulate(dict.fromkeys("ab", talk), seed=1, faults=FaultPlan(Delay(1, 1), [fault], heal_ns=1))


def disagree(result: Result) -> None:
    assert set(result.returned) == set(result.programs), "somebody did not come to its end"


def test_a_failure_shrinks_to_what_matters_and_repeats() -> None:
    """The check fails whenever somebody was killed and not started again; everything else is left out."""
    seed = next(seed for seed in range(50) if _kills_for_good(seed))
    result = find_failure(TALK, seed=seed, expected=Expectations(disagree))
    assert len(result.faults) == 1
    assert "kill of" in result.faults[0] or "power loss of" in result.faults[0]
    kept = int(result.faults[0].split(":")[0])
    chosen = dict.fromkeys(result.programs, talk)
    again = run_plan(chosen, draw_plan("all", NAMES, 6_000_000_000, seed).only([kept]), seed, Expectations(disagree))
    assert again.problems == result.problems
    assert "repeat it: make it so" in result.report("make it so")


def _kills_for_good(seed: int) -> bool:
    plan = draw_plan("all", NAMES, 6_000_000_000, seed)
    return any(isinstance(fault, KillProgram) and fault.restart_ns is None for fault in plan.faults)
