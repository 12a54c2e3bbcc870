"""The live page in a real browser: its script runs without complaint, and shows members as they come and go."""

import asyncio
import time
from typing import Any

import pytest

from antiphon.observe import Observer
from tests.report.browser import CHROMIUM, Browser, browser
from tests.runtime.cluster import run
from tests.runtime.places import LOOPBACK, Place, founded

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]

WAIT_S = 15.0
MEMBERS = "[...document.querySelectorAll('svg.members text.name')].map((name) => name.textContent)"
GONE = "[...document.querySelectorAll('svg.members text.gone')].map((name) => name.textContent)"
HEALTH = "document.getElementById('health').textContent"
CHARTS = "[...document.querySelectorAll('path.delivered')].map((line) => line.getAttribute('d').includes('NaN'))"


def until(page: Browser, expression: str, wanted: Any) -> None:
    """Look at the page until an expression has this value there."""
    deadline_s = time.monotonic() + WAIT_S
    while (found := page.evaluate(expression)) != wanted:
        assert time.monotonic() < deadline_s, f"{expression} is {found}, not {wanted}; {page.complaints}"
        time.sleep(0.05)


async def talk_on(places: list[Place]) -> None:
    """Send and read until cancelled."""

    async def read(place: Place) -> None:
        async for _ in place.group:
            pass

    async def send(place: Place) -> None:
        while True:
            await place.group.send(b"x", order="agreed")
            await asyncio.sleep(0.02)

    await asyncio.gather(*map(read, places), send(places[0]))


def test_the_page_shows_members_and_the_death_of_one() -> None:
    async def test(page: Browser) -> None:
        async with founded("abc") as places:
            observer = Observer(places[0].node, LOOPBACK, page=True)
            await observer.start()
            url = f"http://{observer.address}"
            talking = asyncio.create_task(talk_on(places))
            await asyncio.to_thread(page.visit, f"{url}/")
            await asyncio.to_thread(until, page, MEMBERS, ["a", "b", "c"])
            await asyncio.to_thread(until, page, HEALTH, "ready")
            await asyncio.to_thread(until, page, CHARTS, [False])
            places[2].kill()
            await asyncio.to_thread(until, page, GONE, ["c"])
            events = await asyncio.to_thread(page.text, "ol")
            assert ": a, b; failed: c/1" in events, events  # whichever number the view has
            assert page.complaints == []
            assert set(page.requests) == {f"{url}/", f"{url}/status", f"{url}/history"}
            await observer.close()
            await asyncio.to_thread(until, page, HEALTH, "unreachable")
            assert await asyncio.to_thread(page.evaluate, MEMBERS) == ["a", "b", "c"], "the last that was known stays"
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)

    with browser() as page:
        run(lambda: test(page))
