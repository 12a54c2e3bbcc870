"""The directory of groups: on a group that does what the test says, and on sockets."""

import asyncio

import pytest

from antiphon import Node
from antiphon.toolkit import Directory, Tools
from tests.runtime.cluster import run
from tests.runtime.places import HASTY, LOOPBACK
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause

Site = ToolSite[Directory]


@on_sites("abc", Directory)
async def test_a_group_is_known_as_long_as_somebody_offers_it(hub: Hub, a: Site, b: Site, c: Site) -> None:
    waiting = asyncio.create_task(c.tool.wait("prices"))
    a.tool.offer("prices", "10.0.0.1:7400", "label")
    b.tool.offer("prices", "10.0.0.2:7400", "label")
    await waiting
    await pause()
    entry = c.tool.find("prices")
    assert entry is not None
    assert entry.contacts == ("10.0.0.1:7400", "10.0.0.2:7400")
    assert (entry.registrants, entry.stack) == ((a.member.process, b.member.process), "label")
    a.tool.withdraw("prices")
    await pause()
    entry = c.tool.find("prices")
    assert entry is not None
    assert entry.contacts == ("10.0.0.2:7400",)
    hub.fail("b")
    await pause()
    assert c.tool.groups == []
    with pytest.raises(TimeoutError, match="nobody has registered group 'prices'"):
        await c.tool.wait("prices", timeout_s=0.01)


@on_sites("ab", Directory)
async def test_a_process_that_comes_back_offers_again(hub: Hub, a: Site, b: Site) -> None:
    a.tool.offer("prices", "10.0.0.1:7400", "label")
    await pause()
    hub.expel("a")
    await pause()
    assert b.tool.groups == []
    hub.readmit(a.member)
    entry = await b.tool.wait("prices", timeout_s=5)
    assert entry.registrants == (a.member.process,)


@on_sites("a", Directory)
async def test_a_joiner_gets_the_directory(hub: Hub, a: Site) -> None:
    a.tool.offer("prices", "10.0.0.1:7400", "label")
    await pause()
    b = await join(hub, "b", Directory)
    assert b.tool.find("prices") == a.tool.find("prices") is not None
    await b.close()


def test_a_group_is_joined_by_its_name_alone() -> None:
    async def test() -> None:
        async with (
            Node("a", address=LOOPBACK, options=HASTY, linger_s=0.5) as one,
            Node("b", address=LOOPBACK, options=HASTY, linger_s=0.5) as other,
        ):
            public = await one.join("directory", members={"a": one.address}, policy="primary")
            hidden = await one.join("prices", members={"a": one.address}, policy="primary", stack="label")
            first = Directory(Tools(public))
            second = Directory(Tools(await other.join("directory", contacts=[one.address])))
            async with first.tools, second.tools:
                await first.tools.live()
                first.register(hidden)
                found = await second.join(other, "prices", timeout_s=10)
                assert found.stack == "label"
                assert [member.name for member in found.view.members] == ["a", "b"]

    run(test)
