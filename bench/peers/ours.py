"""Antiphon itself, in each order, read in batches or message by message."""

import importlib.util
import sys
from functools import cache
from typing import Final

from antiphon import _build
from bench.peers.system import System

ORDERS: Final = ("fifo", "causal", "agreed", "safe")
BATCHES: Final = "batches"
MESSAGES: Final = "messages"
PLAIN: Final = "plain"
"""Sent and read one by one, without own messages."""
MULTICAST: Final = "multicast"
"""Packets for all leave by IP multicast."""


@cache
def event_loop() -> str:
    """uvloop where it is installed (the extra `speed` brings it), else asyncio's own."""
    return "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"


def version() -> str:
    return f"{_build.describe()}, {event_loop()}"


def nothing() -> None:
    return


def antiphon(order: str, reading: str = BATCHES, *more: str) -> System:
    """A system called `antiphon-causal` when it reads batches, `antiphon-causal-messages` else, and so on; the plain
    program is `antiphon-plain`, or `antiphon-plain-agreed`."""
    marks = [order, *([reading] if reading != BATCHES else []), *([MULTICAST] if MULTICAST in more else [])]
    if reading == PLAIN:
        marks = [PLAIN, *([order] if order != "causal" else [])]
    return System(
        name="-".join(["antiphon", *marks]),
        order=order,
        version=version,
        prepare=nothing,
        command=lambda: [sys.executable, "-m", "bench.peers.antiphon_member"],
        extra=lambda: [order, reading, event_loop(), *more],
    )
