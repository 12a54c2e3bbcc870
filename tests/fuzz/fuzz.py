"""Datagrams that nobody should send, into engines that are at work.

    python -m tests.fuzz.fuzz --datagrams 1000000 --seed 0

*spoiled*: random bytes, and real packets of the group cut, flipped, spliced or repeated on the way. The group must go
on. *forged*: real packets changed inside and sealed again with a right checksum, as only an enemy would. A group
without keys may be misled by those; but nothing may raise, and memory must stay within the limits.
"""

import argparse
import json
import resource
import sys
from random import Random
from zlib import crc32

from antiphon.kernel.inputs import Receive
from antiphon.kernel.levels import CAUSAL, COMMON_LEVELS
from antiphon.kernel.options import Options
from tests.table import Table

MEMBERS = 3
GROUPS = {"g": (0, 1, 2), "h": (0, 1, 2)}
OPTIONS = Options(window_packets=32, packet_bytes_max=600, message_bytes_max=100_000)
SAMPLES_MAX = 500


class Fuzzer:
    """Two groups of the same members at work, and somebody who throws things at them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.table = Table(MEMBERS, OPTIONS, groups=GROUPS)
        self.samples: list[bytes] = []
        self.due = [0] * MEMBERS
        self.delivered = [0] * MEMBERS

    def work(self) -> None:
        """The groups do a bit of their own, and their packets become samples."""
        table = self.table
        member = self.random.randrange(MEMBERS)
        payloads = [bytes(self.random.randrange(40)) for _ in range(self.random.randrange(1, 4))]
        if self.random.random() < 0.1:
            payloads.append(bytes(2_000))
        group = self.random.choice(list(GROUPS))
        if self.random.random() < 0.2:
            to = self.random.randrange(MEMBERS)
            table.send(member, *payloads, level=CAUSAL, group=group, to=to)
            self.due[to] += len(payloads)
        else:
            table.send(member, *payloads, level=self.random.randrange(len(COMMON_LEVELS)), group=group)
            self.due = [due + len(payloads) for due in self.due]
        table.wait(3_000_000)
        for link, packets in list(table.links.items()):
            self.samples += packets
            table.links[link] = [packet for packet in packets if self.random.random() < 0.9]
        self.samples = self.samples[-SAMPLES_MAX:]
        for source, destination in list(table.links):
            table.pass_on(source, destination)

    def spoiled(self) -> bytes:
        choice = self.random.random()
        if choice < 0.2 or not self.samples:
            return self.random.randbytes(self.random.randrange(120))
        data = bytearray(self.random.choice(self.samples))
        if choice < 0.4:
            return bytes(data[: self.random.randrange(len(data))])
        if choice < 0.5:
            other = self.random.choice(self.samples)
            return bytes(data[: self.random.randrange(len(data))]) + other[self.random.randrange(len(other)) :]
        if choice < 0.6:
            return bytes(data)
        for _ in range(self.random.randrange(1, 5)):
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return bytes(data)

    def forged(self) -> bytes:
        data = bytearray(self.random.choice(self.samples) if self.samples else bytes(40))
        for _ in range(self.random.randrange(1, 4)):
            # The group and view stay: a packet for somebody else would not get far enough to do harm.
            position = self.random.choice((7, *range(24, len(data)))) if len(data) > 24 else 0
            data[position] = self.random.choice((0, 1, 2, 255, self.random.randrange(256)))
        if self.random.random() < 0.2:
            del data[self.random.randrange(28, len(data) + 1) :]
        return crc32(data[4:]).to_bytes(4, "little") + bytes(data[4:])

    def throw(self, datagrams: int, forge: bool) -> None:
        """Throw so many, in lots, with work in between."""
        thrown = 0
        while thrown < datagrams:
            self.work()
            for member in range(MEMBERS):
                lot = [self.forged() if forge else self.spoiled() for _ in range(min(64, datagrams - thrown))]
                thrown += len(lot)
                # What an enemy makes the members say to each other is not what is tested here.
                self.table.step(member, Receive(lot))
            held = max(self.table.statistics(member)["packets_held"] for member in range(MEMBERS))
            assert held <= len(GROUPS) * MEMBERS * OPTIONS.numbers_max(), f"{held} packets held"
            self._count_deliveries()

    def _count_deliveries(self) -> None:
        """Counts are kept, what was delivered is not: memory shall show what the engines hold."""
        for member in range(MEMBERS):
            self.delivered[member] += len(self.table.log[member])
            self.table.log[member].clear()
            self.table.story[member].clear()
            self.table.events[member].clear()
            self.table.payloads[member].clear()

    def finish(self) -> dict[str, object]:
        """Let the group come to rest; everybody must have everything, once. A turn from group to group takes an ack's
        delay, and the work was given faster than that: much of it waits."""
        self.table.settle(rounds=5000)
        self.table.play(300)
        self._count_deliveries()
        assert self.delivered == self.due, f"{self.delivered} of {self.due} messages delivered"
        assert all(self.table.outstanding(member) == 0 for member in range(MEMBERS))
        return {"messages": self.due, "statistics": self.table.statistics(0)}


def peak_memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datagrams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tenth = max(1, arguments.datagrams // 10)
    fuzzer = Fuzzer(arguments.seed)
    memory_mib = []
    for _ in range(10):
        fuzzer.throw(tenth, forge=False)
        memory_mib.append(round(peak_memory_mib(), 1))
        print(f"{tenth * len(memory_mib)} spoiled, peak {memory_mib[-1]} MiB", file=sys.stderr)
    result = fuzzer.finish()
    for round_ in range(10):
        enemy = Fuzzer(arguments.seed + 1 + round_)
        enemy.throw(tenth // 10, forge=True)
        memory_mib.append(round(peak_memory_mib(), 1))
    print(json.dumps({"spoiled": 10 * tenth, "forged": tenth, "peak_mib": memory_mib, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
