"""What a message costs beside many groups: those that were left, and those that are alive.

    python -m bench.many_groups [--left 10000] [--live 3000] [--json]

Two engines talk in one group, in process and without a network. One of them also creates and leaves groups of its own,
or stays in them, in the same causality domain. Figures are microseconds per message, and their ratios in one run: a
message after groups were left against one before, and one beside `--live` groups against one beside ten. Memory is
counted over the groups that were left.
"""

import argparse
import json
import sys
import time
import tracemalloc
from random import Random
from statistics import median

from antiphon.engine import Engine
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Create, Join, Leave, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY

GROUP = "talk"
MESSAGES = 400
ROUNDS = 7
STEP_NS = 1_000_000


class Pair:
    """Two engines in one group, whose packets arrive at once."""

    def __init__(self) -> None:
        self.processes = (ProcessId("one"), ProcessId("two"))
        self.engines = [Engine(process, Random(1), Options()) for process in self.processes]
        self.now_ns = 0
        view = View(1, self.processes, ("one", "two"))
        for engine in self.engines:
            engine.step(Join(group=GROUP, view=view), 0)

    def message_us(self) -> float:
        """Microseconds that a message takes until both know that it is everywhere; the median of some rounds."""
        rounds: list[float] = []
        for _ in range(ROUNDS):
            started_s = time.perf_counter()
            for _ in range(MESSAGES):
                self.step(0, Send(group=GROUP, payloads=[b"0123456789" * 10], level=CAUSAL))
            rounds.append((time.perf_counter() - started_s) / MESSAGES * 1e6)
            self.settle()
        return median(rounds)

    def step(self, at: int, input: Send | Receive | Tick | Create | Leave) -> None:
        effects = self.engines[at].step(input, self.now_ns)
        packets = [packet for transmit in effects.transmits for packet in transmit.packets]
        if packets:
            self.step(1 - at, Receive(packets))

    def settle(self) -> None:
        """Let acks come and queues run empty."""
        for _ in range(400):
            self.tick(1)
            if not any(engine.outstanding(GROUP) for engine in self.engines):
                return

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.now_ns += STEP_NS
            for at in (0, 1):
                self.step(at, Tick())

    def live_in(self, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.step(0, Create(group=f"g{number}", policy=PRIMARY, address="one"))

    def pass_through(self, count: int) -> None:
        """Create so many groups and leave each again."""
        for number in range(count):
            self.step(0, Create(group=f"g{number}", policy=PRIMARY, address="one"))
            self.step(0, Leave(f"g{number}"))
            if number % 50 == 0:
                self.tick(20)
        self.tick(200)


def measure(left: int, live: int) -> dict[str, float]:
    """The figures."""
    pair = Pair()
    before_us = pair.message_us()
    pair.pass_through(min(left, 200))
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    pair.pass_through(left)
    kept = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    after_us = pair.message_us()
    few, many = Pair(), Pair()
    few.live_in(10)
    many.live_in(live)
    few_us, many_us = few.message_us(), many.message_us()
    return {
        "message_us": before_us,
        "message_after_left_us": after_us,
        "after_left_ratio": after_us / before_us,
        "bytes_per_left_group": kept / left,
        "message_beside_10_us": few_us,
        "message_beside_live_us": many_us,
        "live_ratio": many_us / few_us,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", type=int, default=10_000)
    parser.add_argument("--live", type=int, default=3_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.left, arguments.live)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:26} {value:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
