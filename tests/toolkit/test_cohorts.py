"""Coordinators and cohorts on a group that does what the test says."""

import asyncio

import pytest

from antiphon import ClosedError, ExcludedError, ProcessId, View
from antiphon.toolkit import Cohorts, Tools, WorkError
from antiphon.toolkit.cohorts import choose_coordinator
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause


class Bench:
    """Where the work of one member is done: it waits until the test opens the gate."""

    def __init__(self, tools: Tools) -> None:
        self.done: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.tools = tools
        self.cohorts = Cohorts(tools, self.work)

    async def work(self, payload: bytes) -> bytes:
        await self.gate.wait()
        self.done.append(payload)
        if payload == b"bad":
            raise ValueError("no such thing")
        return payload + b" by " + self.tools.process.name.encode()


Site = ToolSite[Bench]


@pytest.mark.parametrize(
    ("members", "caller", "place", "expected"),
    [("abc", "b", 1, "b"), ("abc", "x", 1, "b"), ("abc", "x", 7, "c"), ("ac", "b", 1, "c"), ("a", "x", 3, "a")],
)
def test_the_nearest_member_coordinates(members: str, caller: str, place: int, expected: str) -> None:
    view = View(1, tuple(ProcessId(name) for name in members))
    assert choose_coordinator(view, ProcessId(caller), place) == ProcessId(expected)


@on_sites("abc", Bench)
async def test_the_caller_does_its_own_work(hub: Hub, a: Site, b: Site, c: Site) -> None:
    assert await b.tool.cohorts.ask(b"sum") == b"sum by b"
    await pause()
    assert (a.tool.done, b.tool.done, c.tool.done) == ([], [b"sum"], [])
    assert not a.tool.cohorts.open


@on_sites("abc", Bench)
async def test_a_cohort_takes_over_when_the_coordinator_fails(hub: Hub, a: Site, b: Site, c: Site) -> None:
    b.tool.gate.clear()
    asking = asyncio.create_task(b.tool.cohorts.ask(b"sum"))
    await pause()
    assert len(a.tool.cohorts.open) == len(c.tool.cohorts.open) == 1
    hub.fail("b")
    await pause()
    assert (a.tool.done, c.tool.done) == ([], [b"sum"]), "the nearest of the others by rank"
    assert (a.tool.cohorts.taken_over, c.tool.cohorts.taken_over) == (0, 1)
    assert not a.tool.cohorts.open
    with pytest.raises(ClosedError):
        await asking


@on_sites("abc", Bench)
async def test_a_result_that_came_is_not_worked_for_again(hub: Hub, a: Site, b: Site, c: Site) -> None:
    await b.tool.cohorts.ask(b"sum")
    hub.fail("b")
    await pause()
    assert (a.tool.done, c.tool.done) == ([], [])


@on_sites("ab", Bench)
async def test_what_the_work_raises_is_told(hub: Hub, a: Site, b: Site) -> None:
    with pytest.raises(WorkError, match="ValueError: no such thing"):
        await a.tool.cohorts.ask(b"bad")
    a.tool.gate.clear()
    with pytest.raises(TimeoutError):
        await a.tool.cohorts.ask(b"slow", timeout_s=0.01)


@on_sites("ab", Bench)
async def test_a_joiner_stands_by_for_what_was_asked_before(hub: Hub, a: Site, b: Site) -> None:
    a.tool.gate.clear()
    b.tool.gate.clear()
    asking = asyncio.create_task(a.tool.cohorts.ask(b"sum"))
    await pause()
    c = await join(hub, "c", Bench)
    assert len(c.tool.cohorts.open) == 1
    hub.fail("a", "b")
    await pause()
    assert c.tool.done == [b"sum"]
    with pytest.raises(ClosedError):
        await asking
    await c.close()


@on_sites("ab", Bench)
async def test_a_caller_that_was_excluded_is_told(hub: Hub, a: Site, b: Site) -> None:
    a.tool.gate.clear()
    asking = asyncio.create_task(a.tool.cohorts.ask(b"sum"))
    await pause()
    hub.expel("a")
    with pytest.raises(ExcludedError):
        await asking
    await pause()
    assert b.tool.done == [b"sum"]
    assert a.tool.done == []
