"""The time of single steps of the engine, without network and event loop: two members in one process.

    python -m bench.steps                        time per Receive of 1 and of 64 packets; 10 against 3,000 groups
    python -m bench.steps --messages 2000        send and receive so many and say nothing: for a counter around it

`bench.side_by_side` runs this under two checkouts. So it uses of Antiphon what both have, and nothing of the bench.
"""

import argparse
import gc
import json
import statistics
import time
from random import Random
from typing import Final

from antiphon.engine import Engine
from antiphon.kernel.effects import Delivered, Effects
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Input, Join, Receive, Send, Tick
from antiphon.kernel.levels import CAUSAL
from antiphon.kernel.options import Options

PAYLOAD: Final = b"x" * 64
PACKETS: Final = (1, 64)
GROUPS: Final = (10, 3000)
BLOCKS: Final = 20
ROUNDS: Final = 25
"""Rounds in a block; the time of a block is one value."""
GROUP_ROUNDS: Final = 10


class Pair:
    """Two members of so many static groups. What one sends waits until the other takes it."""

    def __init__(self, groups: int = 1) -> None:
        ids = (ProcessId("p1"), ProcessId("p2"))
        self.engines = [Engine(id, Random(rank), Options()) for rank, id in enumerate(ids)]
        self.waiting: list[list[bytes]] = [[], []]
        self.now_ns = 0
        view = View(1, ids, ("p1", "p2"))
        for group in range(groups):
            for rank in range(2):
                join = Join(group=f"g{group}", view=view, policy="static", address=f"p{rank + 1}")
                self.step(rank, join)
        self.exchange(20)

    def step(self, rank: int, input: Input) -> Effects:
        effects = self.engines[rank].step(input, self.now_ns)
        for transmit in effects.transmits:
            self.waiting[1 - rank] += transmit.packets
        return effects

    def take(self, rank: int) -> Effects:
        packets, self.waiting[rank] = self.waiting[rank], []
        return self.step(rank, Receive(packets))

    def exchange(self, milliseconds: int) -> None:
        """Let timers go off and packets arrive."""
        for _ in range(milliseconds):
            self.now_ns += 1_000_000
            for rank in range(2):
                if self.waiting[rank]:
                    self.take(rank)
                self.step(rank, Tick())


def delivered(effects: Effects) -> int:
    return sum(len(event.payloads) for event in effects.events if isinstance(event, Delivered))


def receive_ns(packets: int) -> float:
    """The time of one Receive of so many packets, each with one message: the median of the blocks."""
    pair = Pair()
    blocks = []
    for _ in range(BLOCKS):
        taken_ns = 0
        for _ in range(ROUNDS):
            for _ in range(packets):
                pair.step(0, Send(group="g0", payloads=[PAYLOAD], level=CAUSAL))
            arrived = pair.waiting[1]
            pair.waiting[1] = []
            assert len(arrived) == packets, f"{len(arrived)} packets were sent and not {packets}"
            begin_ns = time.perf_counter_ns()
            effects = pair.step(1, Receive(arrived))
            taken_ns += time.perf_counter_ns() - begin_ns
            assert delivered(effects) == packets
            pair.exchange(3)
        blocks.append(taken_ns / ROUNDS)
    return statistics.median(blocks)


def message_ns(groups: int) -> float:
    """The time to send a message in one of so many groups, to receive it, and to let a timer go off at each."""
    pair = Pair(groups)
    blocks = []
    got = 0
    for block in range(BLOCKS):
        group = f"g{block % groups}"
        begin_ns = time.perf_counter_ns()
        for _ in range(GROUP_ROUNDS):
            pair.step(0, Send(group=group, payloads=[PAYLOAD], level=CAUSAL))
            got += delivered(pair.take(1))
            pair.now_ns += 50_000
            pair.step(1, Tick())
            pair.take(0)
            pair.step(0, Tick())
        blocks.append((time.perf_counter_ns() - begin_ns) / GROUP_ROUNDS)
        got += delivered(pair.take(1))
        pair.exchange(3)
    assert got == BLOCKS * GROUP_ROUNDS, f"{got} messages were delivered and not {BLOCKS * GROUP_ROUNDS}"
    return statistics.median(blocks)


def send_and_receive(messages: int) -> None:
    """One message a packet, sixteen packets a Receive."""
    pair = Pair()
    got = 0
    for number in range(messages):
        pair.step(0, Send(group="g0", payloads=[PAYLOAD], level=CAUSAL))
        if number % 16 == 15:
            got += delivered(pair.take(1))
            pair.exchange(2)
    got += delivered(pair.take(1))
    assert got == messages, f"{got} of {messages} messages were delivered"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench steps", description="What single steps of the engine take.")
    parser.add_argument("--messages", type=int, default=0, help="send and receive so many, and measure nothing")
    arguments = parser.parse_args()
    gc.disable()
    if arguments.messages:
        send_and_receive(arguments.messages)
        return
    figures = {f"a Receive of {packets} packets": receive_ns(packets) for packets in PACKETS}
    figures |= {f"a message in one of {groups} groups": message_ns(groups) for groups in GROUPS}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
