"""A light trace of one member: each wake-up of its event loop and each step of its engine, with the packets that came
and left. For `bench.waterfall`, and to count what an idle round takes.

Times are of the monotonic clock, which all processes of a machine share, so that the traces of several members can be
laid beside each other. A packet is known by the CRC of its bytes: multicasts have the same at every member.
"""

import asyncio
import time
from collections import deque
from typing import Any, Final
from zlib import crc32

from antiphon import Node
from antiphon.engine import Engine
from antiphon.kernel import packet_kinds
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import NEVER, Delivered, Effects
from antiphon.kernel.inputs import Input, Receive, Send, Tick
from antiphon.runtime.workers import Object

ROWS_MAX: Final = 600
_KINDS: Final = {
    packet_kinds.DATA: "data",
    packet_kinds.STATUS: "ack",
    packet_kinds.REQUEST: "request",
    packet_kinds.PRIVATE: "private",
    packet_kinds.PRIVATE_ACK: "private ack",
}


def kind_of(packet: bytes) -> str:
    """In a word; a data packet of a member that has nothing to say but order is data, too."""
    return _KINDS.get(unseal(packet)[0], "other")


class TracedEngine:
    """An engine that writes down its steps; otherwise it is the one that it stands for."""

    def __init__(self, engine: Engine, rows: deque[Object], counts: dict[str, int]) -> None:
        self._engine = engine
        self._rows = rows
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self, input: Input, now_ns: int) -> Effects:
        begin_ns = time.monotonic_ns()
        effects = self._engine.step(input, now_ns)
        what = {Receive: "receive", Send: "send", Tick: "timer"}.get(type(input), "other")
        taken = input.datagrams if isinstance(input, Receive) else []
        left = [packet for transmit in effects.transmits for packet in transmit.packets]
        copies = sum(len(transmit.packets) * len(transmit.route.names()) for transmit in effects.transmits)
        delivered = [
            f"{event.sender.name}#{event.number}" for event in effects.events if isinstance(event, Delivered)
        ]  # fmt: skip
        for name, count in (
            (f"steps: {what}", 1), ("datagrams in", len(taken)), ("datagrams out", copies),
            ("deliveries", len(delivered)),
        ):  # fmt: skip
            self._counts[name] = self._counts.get(name, 0) + count
        self._rows.append(
            {
                "what": what,
                "begin_ns": begin_ns,
                "end_ns": time.monotonic_ns(),
                "in": [(crc32(packet), kind_of(packet)) for packet in taken],
                "out": [(crc32(packet), kind_of(packet)) for packet in left],
                "delivered": delivered,
                "due_ns": None if effects.deadline_ns == NEVER else effects.deadline_ns - now_ns,
            }
        )
        return effects


class Trace:
    """The trace of one node, from now on."""

    def __init__(self, node: Node) -> None:
        self.counts: dict[str, int] = {}
        self._rows: deque[Object] = deque(maxlen=ROWS_MAX)
        driver: Any = node._driver
        self._driver = driver
        self._plain = driver.engine
        driver.engine = TracedEngine(driver.engine, self._rows, self.counts)
        self._selector: Any = getattr(asyncio.get_running_loop(), "_selector", None)
        if self._selector is not None:  # uvloop has none
            self._select = self._selector.select
            self._selector.select = self._selecting

    def _selecting(self, timeout: float | None = None) -> Any:
        ready = self._select(timeout)
        self.counts["wake-ups"] = self.counts.get("wake-ups", 0) + 1
        if timeout is None or timeout > 0:
            why = "datagram" if ready else "timer"
            self._rows.append({"what": "wake", "begin_ns": time.monotonic_ns(), "why": why})
            self.counts["sleeps"] = self.counts.get("sleeps", 0) + 1
        return ready

    def end(self) -> Object:
        """Trace no more; what there is."""
        self._driver.engine = self._plain
        if self._selector is not None:
            self._selector.select = self._select
        return {"rows": list(self._rows), "counts": self.counts}
