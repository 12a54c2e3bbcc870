"""What a run is held to: groups that stand still, and what the audit leaves undecided, count as not kept."""

import asyncio
from functools import partial
from typing import Final

import antiphon
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.testing.fault_plan import SECOND_NS, draw_plan

NAMES: Final = ("a", "b", "c")
DELAY: Final = draw_plan("none", NAMES, 1, 1).delay
LOSES_MAJORITY: Final = FaultPlan(
    DELAY, [KillProgram("b", SECOND_NS), KillProgram("c", SECOND_NS)], heal_ns=2 * SECOND_NS
)


async def talk(host: Host, recovers: bool) -> None:
    async with antiphon.Node(host.name, address=host.at(), incarnation=1, options=antiphon.Options.fast()) as node:
        group = await node.join("group", members=host.members())
        await group.send(b"one")
        async for event in group:
            if isinstance(event, antiphon.Stalled) and recovers:
                await group.recover(confirm="group")
                await group.send(b"two")
            elif isinstance(event, antiphon.Message) and event.payload == b"two":
                await host.ending.wait()
                return


def test_a_group_that_stands_still_to_the_end_breaks_rest() -> None:
    result = simulate(dict.fromkeys(NAMES, partial(talk, recovers=False)), seed=1, faults=LOSES_MAJORITY)
    assert result.problems[0].startswith("rest broken: group group lost its majority and stands still to the end at a/")


def test_unless_the_caller_says_that_it_may() -> None:
    programs = dict.fromkeys(NAMES, partial(talk, recovers=False))
    assert simulate(programs, seed=1, faults=LOSES_MAJORITY, may_stall=True).problems == ()


def test_or_the_program_recovers_it() -> None:
    programs = dict.fromkeys(NAMES, partial(talk, recovers=True))
    assert simulate(programs, seed=1, faults=LOSES_MAJORITY).problems == ()


async def stop_early(host: Host) -> None:
    """Member c of a static group is closed while the others go on."""
    async with antiphon.Node(host.name, address=host.at(), incarnation=1) as node:
        group = await node.join("group", members=host.members(), policy="static")
        group.listen(lambda event: None)
        await group.send(host.name.encode())
        if host.name == "c":
            return
        await asyncio.sleep(3.0)
        await group.send(b"c is gone")
        await host.ending.wait()


def test_what_is_undecided_is_not_kept_unless_the_caller_names_it() -> None:
    strict = simulate(dict.fromkeys(NAMES, stop_early), seed=1, faults="none")
    assert any(problem.startswith("settled unknown") for problem in strict.problems), strict.problems
    undecided = {problem.split()[0] for problem in strict.problems if " unknown: " in problem}
    named = simulate(dict.fromkeys(NAMES, stop_early), seed=1, faults="none", may_be_unknown=undecided)
    assert not any(" unknown: " in problem for problem in named.problems)
    assert {text.split()[0] for text in named.unknown} == undecided


def test_a_program_that_stops_reading_is_not_taken_to_have_broken_anything() -> None:
    """b and c read a little and then no more; they alone are in view 2, and a comes back into view 3."""

    async def reader(host: Host) -> None:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            group = await node.join("g", members=host.members())
            talking = asyncio.create_task(send_on(group, host))
            reading = asyncio.create_task(read_on(group))
            await host.ending.wait()
            talking.cancel()
            reading.cancel()

    async def send_on(group: antiphon.Group, host: Host) -> None:
        while not host.calm.is_set():
            await group.send(b"x", order="safe")
            await asyncio.sleep(0.1)

    async def read_on(group: antiphon.Group) -> None:
        async for _ in group:
            pass

    async def quitter(host: Host) -> None:
        async with antiphon.Node(host.name, address=host.at(), options=antiphon.Options.fast()) as node:
            group = await node.join("g", members=host.members())
            seen = 0
            async for _ in group:
                seen += 1
                if seen > 10:
                    break
            await asyncio.sleep(4)

    plan = FaultPlan(DELAY, [KillProgram("a", SECOND_NS, restart_ns=SECOND_NS)], 2 * SECOND_NS)
    result = simulate({"a": reader, "b": quitter, "c": quitter}, seed=1, faults=plan, may_be_unknown=["primary"])
    assert result.kept, result.report("…")
    assert "of which its application was not told" in result.unknown[0]
