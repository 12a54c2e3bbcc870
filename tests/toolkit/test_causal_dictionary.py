"""Data that is updated asynchronously, on a group that does what the test says."""

import asyncio

import pytest

from antiphon import UsageError
from antiphon.toolkit import CausalDictionary, Tools
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause

Site = ToolSite[CausalDictionary]


def tiny(tools: Tools) -> CausalDictionary:
    return CausalDictionary(tools, keys_max=2)


@on_sites("ab", tiny)
async def test_an_update_is_complete_when_the_local_one_is(hub: Hub, a: Site, b: Site) -> None:
    a.member.is_held = b.member.is_held = True
    await a.tool.set("x", b"1")
    assert a.tool.get("x") == b"1"
    assert b.tool.get("x") is None
    a.member.release()
    b.member.release()
    await a.tool.settle()
    assert b.tool.get("x") == b"1"


@on_sites("ab", tiny)
async def test_copies_become_equal_whoever_wrote_at_once(hub: Hub, a: Site, b: Site) -> None:
    for _ in range(5):
        await asyncio.gather(a.tool.set("x", b"a"), b.tool.set("x", b"b"), b.tool.remove("y"), a.tool.set("y", b"1"))
        await pause()
        assert a.tool.export() == b.tool.export()
        assert a.tool.get("x") == b.tool.get("x") == b"b"
    await b.tool.set("x", b"c")
    await pause()
    await a.tool.remove("x")
    await pause()
    assert "x" not in b.tool
    assert list(a.tool) == list(b.tool)
    assert len(a.tool) == len(list(a.tool))


@on_sites("ab", tiny)
async def test_a_joiner_gets_what_was_delivered_and_no_more(hub: Hub, a: Site, b: Site) -> None:
    await a.tool.set("x", b"1")
    await a.tool.settle()
    a.member.is_held = b.member.is_held = True
    await a.tool.set("x", b"2")
    exported = a.tool.export()
    assert a.tool.get("x") == b"2"
    copy = CausalDictionary(Tools(b.member), "copy")
    copy.restore(exported)
    assert copy.get("x") == b"1", "the other is lost if its author fails now"
    a.member.release()
    b.member.release()
    c = await join(hub, "c", tiny)
    assert c.tool.get("x") == b"2"
    await c.close()


@on_sites("a", tiny)
async def test_the_limit_is_told(hub: Hub, a: Site) -> None:
    await a.tool.set("x", b"1")
    await a.tool.set("y", b"1")
    await a.tool.set("x", b"2")
    with pytest.raises(UsageError, match="has 2 keys"):
        await a.tool.set("z", b"1")
