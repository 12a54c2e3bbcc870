"""What a message costs beside many groups: those that were left, and those that are alive.

    python -m bench.many_groups [--left 10000] [--live 3000] [--json]
    ANTIPHON_PURE=1 python -m bench.many_groups --counts --left 300 --live 300

Two engines talk in one group, in process and without a network. One of them also creates and leaves groups of its own,
or stays in them, in the same causality domain. Figures are microseconds per message, and their ratios in one run: a
message after groups were left against one before, and one beside `--live` groups against one beside ten. Memory is
counted over the groups that were left.

With --counts a message costs the lines of Python that its steps execute, whatever else the machine does. That needs
plain Python: of compiled modules no lines are seen.
"""

import argparse
import gc
import json
import sys
import time
import tracemalloc
from functools import partial
from random import Random
from statistics import median

from antiphon._build import pure_forced
from antiphon.engine import Engine
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Create, Join, Leave, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PRIMARY
from bench.lab import LineCounter

GROUP = "talk"
MESSAGES = 400
ROUNDS = 7
COUNTED_MESSAGES = 20
STEP_NS = 1_000_000


class Pair:
    """Two engines in one group, whose packets arrive at once."""

    def __init__(self) -> None:
        self.processes = (ProcessId("one"), ProcessId("two"))
        self.engines = [Engine(process, Random(1), Options()) for process in self.processes]
        self.now_ns = 0
        self.counter: LineCounter | None = None
        view = View(1, self.processes, ("one", "two"))
        for engine in self.engines:
            engine.step(Join(group=GROUP, policy="static", view=view), 0)

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

    def message_lines(self) -> float:
        """Lines of Python that a message takes; the mean of some messages. Those before them set up what lasts, and do
        what is due in other groups by now."""
        for counter in (None, LineCounter()):
            self.counter = counter
            for _ in range(COUNTED_MESSAGES):
                self.step(0, Send(group=GROUP, payloads=[b"0123456789" * 10], level=CAUSAL))
        self.counter = None
        self.settle()
        assert counter is not None
        return counter.lines / COUNTED_MESSAGES

    def step(self, at: int, input: Send | Receive | Tick | Create | Leave) -> None:
        engine = self.engines[at]
        step = engine.step if self.counter is None else partial(self.counter.step, engine)
        effects = step(input, self.now_ns)
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

    def pass_through(self, count: int, first: int = 0) -> None:
        """Create so many groups and leave each again."""
        for number in range(first, first + count):
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


def count(left: int, live: int) -> dict[str, float]:
    """The figures that do not depend on what else the machine does."""
    pair = Pair()
    before = pair.message_lines()
    pair.pass_through(left)
    held = _tracked_objects()
    pair.pass_through(left, left)
    kept = _tracked_objects() - held
    after = pair.message_lines()
    few, many = Pair(), Pair()
    few.live_in(10)
    many.live_in(live)
    beside_few, beside_many = few.message_lines(), many.message_lines()
    return {
        "message_lines": before,
        "after_left_ratio": after / before,
        "objects_per_left_group": kept / left,
        "live_ratio": beside_many / beside_few,
    }


def _tracked_objects() -> int:
    """How many objects there are that can refer to others."""
    gc.collect()
    return len(gc.get_objects())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", type=int, default=10_000)
    parser.add_argument("--live", type=int, default=3_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--counts", action="store_true", help="count lines and objects; measure no time")
    arguments = parser.parse_args()
    if arguments.counts and not pure_forced():
        parser.error("no lines can be counted in the compiled core: set ANTIPHON_PURE=1")
    figures = (count if arguments.counts else measure)(arguments.left, arguments.live)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:26} {value:10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
