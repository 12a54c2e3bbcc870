"""Properties and rankings of a group, on a group that does what the test says."""

import asyncio

import pytest

from antiphon import ExcludedError, MessageTooLargeError, ProcessId, UsageError
from antiphon.toolkit import Properties, Tools
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause

Site = ToolSite[Properties]


def tiny(tools: Tools) -> Properties:
    return Properties(tools, keys_max=2)


@on_sites("ab", tiny)
async def test_a_change_is_made_when_it_has_been_delivered_here(hub: Hub, a: Site, b: Site) -> None:
    a.member.is_held = True
    setting = asyncio.create_task(a.tool.set("x", b"1"))
    await pause()
    assert not setting.done()
    assert "x" not in a.tool
    assert b.tool.get("x") == b"1"
    a.member.release()
    await setting
    assert (a.tool.get("x"), list(a.tool), len(a.tool)) == (b"1", ["x"], 1)
    await b.tool.remove("x")
    await pause()
    assert "x" not in a.tool


@on_sites("abc", tiny)
async def test_the_ranking_begins_with_those_named_and_goes_on_by_age(hub: Hub, a: Site, b: Site, c: Site) -> None:
    first, second, third = a.tools.view.members
    assert a.tool.ranking == (first, second, third)
    await a.tool.rank([third, second])
    await pause()
    assert a.tool.ranking == b.tool.ranking == c.tool.ranking == (third, second, first)
    d = await join(hub, "d", tiny)
    assert list(d.tool.ranking) == list(a.tool.ranking) == [third, second, first, d.tools.process]
    hub.install(tuple(member for member in hub.view.members if member != third))
    await pause()
    assert a.tool.ranking == (second, first, d.tools.process)
    with pytest.raises(UsageError, match="not a member"):
        await a.tool.rank([ProcessId("z")])
    await d.close()


@on_sites("ab", tiny)
async def test_a_joiner_gets_properties_and_ranking(hub: Hub, a: Site, b: Site) -> None:
    await a.tool.set("x", b"1")
    await b.tool.rank([b.tools.process])
    c = await join(hub, "c", tiny)
    assert c.tool.get("x") == b"1"
    assert c.tool.ranking == a.tool.ranking
    assert c.tool.ranking[0] == b.tools.process
    await c.close()


@on_sites("a", tiny)
async def test_limits_are_told_before_anything_is_sent(hub: Hub, a: Site) -> None:
    await a.tool.set("x", b"1")
    await a.tool.set("y", b"1")
    await a.tool.set("x", b"2")
    with pytest.raises(UsageError, match="has 2 properties"):
        await a.tool.set("z", b"1")
    a.member.barrier_bytes_max = 1000
    with pytest.raises(MessageTooLargeError):
        await a.tool.set("x", bytes(1000))
    assert a.tool.get("x") == b"2"


@on_sites("ab", tiny)
async def test_a_change_that_waits_is_told_of_the_exclusion(hub: Hub, a: Site, b: Site) -> None:
    a.member.is_held = True
    setting = asyncio.create_task(a.tool.set("x", b"1"))
    await pause()
    a.tool.suspend("excluded", True)
    with pytest.raises(ExcludedError):
        await setting
