"""Links that work in one direction only, or between some members only, as a program on the public API meets them: the
others go on in bounded time, whoever is left out is told, and there is one view after the network has healed."""

import asyncio
import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pytest

import antiphon
from antiphon.faults import Delay, Partition
from antiphon.testing import FaultPlan, Host, NetworkFault, simulate

SECOND_NS: Final = 1_000_000_000
CUT_S: Final = 2.0
HEALED_S: Final = 12.0
PAUSE_S: Final = 0.25
BOUND_S: Final = 5.0
"""From the cut to the view of those that go on, and the longest that nothing is delivered to them."""


@dataclass
class Heard:
    """What one program was told, each with the time."""

    views: list[tuple[float, str]] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)


async def main(host: Host, stack: antiphon.StackName) -> Heard:
    """Send four times a second until all is calm, and keep what is read."""
    heard = Heard()
    loop = asyncio.get_running_loop()
    async with antiphon.Node(host.name, address=host.at(), incarnation=host.starts, rejoin=True) as node:
        group = await node.join("g", members=host.members(), stack=stack)

        async def send() -> None:
            while not host.calm.is_set():
                await group.send(host.name.encode(), order="agreed")
                await asyncio.sleep(PAUSE_S)

        async def read() -> None:
            async for event in node:
                if isinstance(event, antiphon.ViewChange):
                    heard.views.append((loop.time(), "".join(sorted(member.name for member in event.view.members))))
                elif isinstance(event, antiphon.Message):
                    heard.messages.append(loop.time())
                elif isinstance(event, antiphon.Stalled):
                    heard.stalls.append(loop.time())

        tasks = [asyncio.create_task(send()), asyncio.create_task(read())]
        await host.ending.wait()
        for task in tasks:
            task.cancel()
    return heard


def play(stack: antiphon.StackName, cuts: list[tuple[str, str]]) -> dict[str, Heard]:
    """Three programs; from CUT_S to HEALED_S nothing passes from the first to the second side of each cut."""
    faults = [
        NetworkFault(
            Partition(frozenset(source), frozenset(destination), int(CUT_S * SECOND_NS), int(HEALED_S * SECOND_NS))
        )
        for source, destination in cuts
    ]
    plan = FaultPlan(Delay(SECOND_NS // 1000, SECOND_NS // 1000), faults, heal_ns=int(HEALED_S * SECOND_NS))
    result = simulate(dict.fromkeys("abc", partial(main, stack=stack)), seed=1, faults=plan)
    assert result.kept, result.report("")
    heard: dict[str, Heard] = dict(result.returned)
    for one in heard.values():
        at_s, members = one.views[-1]
        assert members == "abc"
        assert HEALED_S < at_s < HEALED_S + BOUND_S
    return heard


def went_on(heard: Heard, members: str) -> bool:
    """Whether it was soon in a view of these members and stayed there, and messages came all the time."""
    times = [CUT_S, *(at_s for at_s in heard.messages if CUT_S < at_s < HEALED_S), HEALED_S]
    gap_s = max(later - earlier for earlier, later in itertools.pairwise(times))
    during = [(at_s, names) for at_s, names in heard.views if CUT_S < at_s < HEALED_S]
    return [names for _, names in during] == [members] and during[0][0] < CUT_S + BOUND_S and gap_s < BOUND_S


@pytest.mark.parametrize("stack", ["vector", "conversation"])
@pytest.mark.parametrize("deaf", ["c", "a"])
def test_a_member_that_hears_nobody_is_left_out_and_told_so(deaf: str, stack: antiphon.StackName) -> None:
    others = "".join(name for name in "abc" if name != deaf)
    heard = play(stack, [(others, deaf)])
    assert [name for name in others if not went_on(heard[name], others)] == []
    assert heard[deaf].stalls
    assert heard[deaf].stalls[0] < CUT_S + BOUND_S
    assert not any(heard[name].stalls for name in others)


@pytest.mark.parametrize("stack", ["vector", "conversation"])
def test_two_members_that_do_not_hear_each_other_part_and_the_third_goes_on_with_one(stack: antiphon.StackName) -> None:
    heard = play(stack, [("a", "b"), ("b", "a")])
    assert [name for name in "ac" if not went_on(heard[name], "ac")] == []
    assert not any(at_s < HEALED_S and names != "abc" for at_s, names in heard["b"].views)
