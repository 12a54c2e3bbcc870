"""Members that all leave at the same time leave in good order, none by waiting in vain, in virtual time."""

import asyncio
from typing import Any

import pytest

import antiphon
from antiphon.faults import Delay
from antiphon.testing import FaultPlan, Host, simulate
from antiphon.testing.fault_plan import SECOND_NS

NAMES = ("a", "b", "c")


def program(stack: Any, later_ms: int) -> Any:
    async def main(host: Host) -> tuple[bool, float]:
        node = antiphon.Node(host.name, address=host.at())
        await node.start()
        group = await node.join("g", contacts=host.all_at(), stack=stack, found_after_s=0.5)
        reading = asyncio.create_task(read(group))
        loop = asyncio.get_running_loop()
        while len(group.view.members) < len(NAMES):
            await asyncio.sleep(0.01)
        await group.send(host.name.encode())
        await host.ending.wait()
        if group.view.members[0] == node.process:  # it coordinates, and comes last
            await asyncio.sleep(later_ms / 1000)
        began_s = loop.time()
        settled = await node.close()
        reading.cancel()
        return settled, loop.time() - began_s

    return main


async def read(group: antiphon.Group) -> None:
    async for _ in group:
        pass


@pytest.mark.parametrize(("stack", "later_ms"), [*(("vector", ms) for ms in (0, 2, 4, 6, 8, 10)), ("domain", 4)])
def test_all_leave_at_once(stack: str, later_ms: int) -> None:
    calm = FaultPlan(Delay(200_000, 3_000_000), [], 2 * SECOND_NS)
    result = simulate({name: program(stack, later_ms) for name in NAMES}, seed=1, faults=calm)
    assert not result.problems
    for name, (settled, took_s) in result.returned.items():
        assert settled, f"{name} has not left in good order"
        assert took_s < 1.5, f"{name} took {took_s:.1f} s to leave"
