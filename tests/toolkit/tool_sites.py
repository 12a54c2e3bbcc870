"""Members with tools, on a group that does what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from antiphon.toolkit import Tools
from tests.runtime.cluster import run
from tests.toolkit.hub import Hub, Member

T = TypeVar("T")
Make = Callable[[Tools], T]


class ToolSite(Generic[T]):
    """One member with one tool."""

    def __init__(self, member: Member, make: Make[T]) -> None:
        self.member = member
        self.tools = Tools(member)
        self.tool = make(self.tools)

    async def open(self) -> "ToolSite[T]":
        await self.tools.__aenter__()
        await self.tools.live()
        return self

    async def close(self) -> None:
        self.member.end()
        await self.tools.close()


@asynccontextmanager
async def tool_sites(names: str, make: Make[T]) -> AsyncIterator[tuple[Hub, list[ToolSite[T]]]]:
    hub = Hub()
    sites = [ToolSite(member, make) for member in hub.found(names)]
    try:
        for site in sites:
            await site.open()
        yield hub, sites
    finally:
        for site in sites:
            await site.close()


async def join(hub: Hub, name: str, make: Make[T]) -> ToolSite[T]:
    (member,) = hub.join(name)
    return await ToolSite(member, make).open()


def on_sites(names: str, make: Make[Any]) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Run a test with these members, each with the tool that `make` makes."""

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def bounded() -> None:
            async def body() -> None:
                async with tool_sites(names, make) as (hub, sites):
                    await test(hub, *sites)

            run(body)

        bounded.__doc__ = test.__doc__
        return bounded

    return decorate


async def pause() -> None:
    """Let everything happen that can happen without time."""
    for _ in range(50):
        await asyncio.sleep(0)
