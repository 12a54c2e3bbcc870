"""What the members that are written in Python share: arguments, messages, clock and report.

Nothing but the standard library: the member of a peer runs in an environment of its own.
"""

import json
import resource
import signal
import sys
import time
from dataclasses import dataclass
from typing import Final

LIFE_S: Final = 300
NUMBERS: Final = 256


@dataclass(frozen=True)
class Seat:
    """One member's place in a run."""

    rank: int
    ports: list[int]
    size: int
    warmup: int
    count: int
    extra: list[str]

    @property
    def members(self) -> int:
        return len(self.ports)

    @property
    def others(self) -> list[int]:
        return [rank for rank in range(self.members) if rank != self.rank]

    def payloads(self) -> list[bytes]:
        """The messages of this member, which repeat after NUMBERS."""
        return [bytes((number, self.rank)).ljust(self.size, b".") for number in range(NUMBERS)]


def take_seat(argv: list[str]) -> Seat:
    """Read the arguments, and make sure that this process ends some day."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(LIFE_S)
    rank, ports, size, warmup, count, *extra = argv
    return Seat(int(rank), [int(port) for port in ports.split(",")], int(size), int(warmup), int(count), extra)


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Tally:
    """What came from the others in one phase."""

    def __init__(self, seat: Seat, count: int) -> None:
        self._rank = seat.rank
        self.left = count * (seat.members - 1)
        self.received = 0
        self.wrong = 0
        self.positions = [0] * seat.members
        """How many messages came of each member."""
        self._begin_s = time.perf_counter()
        self._begin_cpu_s = cpu_s()
        self._seconds = 0.0
        self._cpu_s = 0.0

    @property
    def is_complete(self) -> bool:
        return self.left <= 0

    def take(self, payloads: list[bytes], rank: int) -> None:
        """A batch of one sender; its first and last message are looked at."""
        if rank == self._rank:
            return
        count = len(payloads)
        first = self.positions[rank]
        self.positions[rank] = first + count
        if (payloads[0][0], payloads[-1][0]) != (first % NUMBERS, (first + count - 1) % NUMBERS):
            self.wrong += 1
        self.add(count)

    def add(self, count: int) -> None:
        """Messages of others that need no look."""
        self.received += count
        self.left -= count
        if self.left <= 0 and not self._seconds:
            self._seconds = time.perf_counter() - self._begin_s
            self._cpu_s = cpu_s() - self._begin_cpu_s

    def report(self, **more: object) -> None:
        document = {"received": self.received, "wrong": self.wrong, "seconds": self._seconds, "cpu_s": self._cpu_s}
        print(json.dumps({**document, **more}), flush=True)


def wait_for_go(warmup: Tally | None = None) -> None:
    """Say that this member is ready, and wait until all are. Without its parent it ends here."""
    if warmup is not None and warmup.wrong:
        sys.exit(f"{warmup.wrong} times in the warm-up a message was not the next of its sender")
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        sys.exit("the driver is gone")


def wait_for_end() -> None:
    sys.stdin.read()
