"""The walk of one message: it is seen end to end, and it does not grow unnoticed."""

import asyncio

import pytest

from antiphon import _build
from bench.walk import follow


@pytest.mark.skipif(not _build.pure_forced(), reason="compiled functions are not seen: ANTIPHON_PURE=1")
def test_the_walk_leads_from_send_to_the_reader() -> None:
    calls = asyncio.run(follow()).calls
    functions = [function for _, _, function in calls]
    assert functions[0] == "Group.send"
    assert functions[-1] == "Stream._took"
    assert "Engine.step" in functions
    assert "UdpTransport._read" in functions
    assert len(calls) <= 215
