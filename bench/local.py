"""The time of the engine's steps for a request and its reply: two engines in one process, without network and event
loop.

The levels to compare take turns, BLOCK requests each; every packet that one engine sends reaches the other at once.
"""

import statistics
import time
from random import Random
from typing import Final

from antiphon.engine import Engine
from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL, FIFO
from antiphon.kernel.options import Options
from antiphon.kernel.policies import STATIC
from bench.figures import IncompleteError

BLOCK: Final = 100
GROUP: Final = "g"
STEPS: Final = ("send", "receive", "reply", "receive the reply")


class Pair:
    """Two members of one static group."""

    def __init__(self) -> None:
        ids = (ProcessId("p1"), ProcessId("p2"))
        self._engines = [Engine(id, Random(rank), Options()) for rank, id in enumerate(ids)]
        self._waiting: list[list[bytes]] = [[], []]
        for rank in range(2):
            self._do(rank, Join(group=GROUP, view=View(1, ids), policy=STATIC))

    def _do(self, rank: int, input: Input) -> tuple[int, Effects]:
        """One step, and how long it took; what it sends waits at the other."""
        begin_ns = time.perf_counter_ns()
        effects = self._engines[rank].step(input, begin_ns)
        took_ns = time.perf_counter_ns() - begin_ns
        for transmit in effects.transmits:
            self._waiting[1 - rank] += transmit.packets
        return took_ns, effects

    def _take(self, rank: int) -> tuple[int, Effects]:
        packets, self._waiting[rank] = self._waiting[rank], []
        return self._do(rank, Receive(packets))

    def round_ns(self, level: int) -> list[int]:
        """A request and its reply: the time of each step."""
        sent_ns, _ = self._do(0, Send(group=GROUP, payloads=[b"?"], level=level))
        received_ns, received = self._take(1)
        replied_ns, _ = self._do(1, Send(group=GROUP, payloads=[b"!"], level=level))
        answered_ns, answered = self._take(0)
        for effects in (received, answered):
            if not any(isinstance(event, Delivered) for event in effects.events):
                raise IncompleteError("a message between two engines in one process was not delivered at once")
        return [sent_ns, received_ns, replied_ns, answered_ns]

    def rest(self) -> None:
        """Let timers go off, as they would in between."""
        for rank in range(2):
            self._do(rank, Tick())
            self._take(1 - rank)


def steps_us(loops: int) -> dict[str, tuple[float, float]]:
    """Median time of each step, at level causal and at level fifo, in microseconds."""
    pair = Pair()
    taken: dict[int, list[list[int]]] = {CAUSAL: [], FIFO: []}
    for _ in range(-(-loops // BLOCK)):
        for level, rounds in taken.items():
            rounds += [pair.round_ns(level) for _ in range(BLOCK)]
            pair.rest()
    medians = {
        level: [statistics.median(step) / 1000 for step in zip(*rounds, strict=True)] for level, rounds in taken.items()
    }
    return {step: (medians[CAUSAL][place], medians[FIFO][place]) for place, step in enumerate(STEPS)}
