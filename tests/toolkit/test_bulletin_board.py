"""Bulletin boards on a group that does what the test says."""

import asyncio

import pytest

from antiphon import UsageError
from antiphon.toolkit import BulletinBoard, Tools
from antiphon.toolkit.bulletin_board import WATCHED_MAX
from tests.toolkit.hub import Hub
from tests.toolkit.tool_sites import ToolSite, join, on_sites, pause

Site = ToolSite[BulletinBoard]


def small(tools: Tools) -> BulletinBoard:
    return BulletinBoard(tools, kept=3)


@on_sites("ab", small)
async def test_posts_are_on_all_boards_at_their_level(hub: Hub, a: Site, b: Site) -> None:
    for consistency in ("fifo", "causal", "agreed", "safe"):
        await a.tool.post("weather", consistency.encode(), consistency=consistency)
    await pause()
    assert a.tool.read("weather") == b.tool.read("weather")
    assert [(post.payload, post.consistency) for post in b.tool.read("weather")] == [
        (b"causal", "causal"),
        (b"agreed", "agreed"),
        (b"safe", "safe"),
    ], "the newest three"
    assert {post.author for post in b.tool.read("weather")} == {a.member.process}
    assert b.tool.subjects == ["weather"]
    with pytest.raises(UsageError, match="choose one of fifo"):
        await a.tool.post("weather", b"", consistency="reliable")


@on_sites("ab", small)
async def test_reading_the_latest_waits_for_what_was_posted_before(hub: Hub, a: Site, b: Site) -> None:
    b.member.is_held = True
    await a.tool.post("weather", b"rain", consistency="agreed")
    await pause()
    assert [post.payload for post in a.tool.read("weather")] == [b"rain"]
    assert b.tool.read("weather") == []
    reading = asyncio.create_task(b.tool.read_latest("weather"))
    await pause()
    assert not reading.done()
    b.member.release()
    assert [post.payload for post in await reading] == [b"rain"]


@on_sites("ab", small)
async def test_a_watcher_reads_what_comes_and_counts_what_it_missed(hub: Hub, a: Site, b: Site) -> None:
    watcher = b.tool.watch("news")
    for number in range(WATCHED_MAX + 2):
        await a.tool.post("news", b"%d" % number)
        if number % 100 == 0:
            await a.tool.settle()
    await a.tool.settle()
    assert watcher.missed == 2
    async for post in watcher:
        assert post.payload == b"2"
        break
    b.member.end()
    await pause()
    assert len([post async for post in watcher]) == WATCHED_MAX - 1


@on_sites("a", small)
async def test_a_joiner_gets_the_board(hub: Hub, a: Site) -> None:
    for text in (b"1", b"2", b"3", b"4"):
        await a.tool.post("weather", text)
    await pause()
    b = await join(hub, "b", small)
    assert b.tool.read("weather") == a.tool.read("weather")
    assert len(b.tool.read("weather")) == 3
    await b.close()
