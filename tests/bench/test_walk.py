"""The walk of one message: it is seen end to end, and it does not grow unnoticed."""

import asyncio

import pytest

from antiphon import _build
from bench.walk import follow

CALLS_MAX = 120
FILES_MAX = 20


@pytest.mark.skipif(not _build.pure_forced(), reason="compiled functions are not seen: ANTIPHON_PURE=1")
def test_the_walk_leads_from_send_to_the_reader() -> None:
    walks = [asyncio.run(follow()).calls for _ in range(3)]
    calls = min(walks, key=len)  # in the others, timers have gone off
    functions = [function for _, _, function in calls]
    assert functions[0] == "Group.send"
    assert functions[-1] == "Stream._took"
    assert "Engine.step" in functions
    assert "UdpTransport._read" in functions
    assert len(calls) <= CALLS_MAX
    assert len({file for _, file, _ in calls}) <= FILES_MAX
