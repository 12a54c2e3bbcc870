"""A receiver that stops reading while the others send as fast as they may: memory at every member, and nothing lost.

    python -m bench.stall                   30 s without reading; from the project's root
    python -m bench.stall --seconds 5       less

Three members, of which two send. After LEAD_S the third stops reading from its group, and after the stall it reads on.
Its queue fills, its engine stops consuming, the senders' windows close, and they wait. Memory is the resident size of
each process, from the operating system, every SAMPLE_S. Every message carries a number of its sender's: at the end,
each member must have been handed every one of them in order.

The bound is the sum of the limits that the documents state (kernel/options.py, runtime/node.py, runtime/outbox.py,
runtime/transport.py), each counted as if it were full, with what Python needs for a message as an object. What grows
beyond the size at the start must stay below it.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from antiphon import Node, Options
from antiphon.runtime import outbox, transport
from antiphon.runtime.workers import Object
from bench.crew import Members
from bench.figures import Report, Result, parser, progress, run, table

MEMBERS: Final = 3
STALLED: Final = MEMBERS - 1
LEAD_S: Final = 2.0
SAMPLE_S: Final = 0.25
CATCH_UP_S: Final = 2.0
"""The others go on sending for this long after the stall."""
MESSAGE_OBJECT_BYTES: Final = sys.getsizeof(b"") + 8 + 15
"""What Python needs for a message beside its payload: the bytes object, its place in a list, and rounding."""
PACKET_OBJECT_BYTES: Final = 1024
"""The same for a packet, the objects that describe it included."""
MIB: Final = 1024 * 1024
ROWS: Final = 12
"""Of the table of memory over time, or a few more."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Memory while a receiver does not read.")
    made.add_argument("--seconds", type=float, default=30.0, help="without reading")
    made.add_argument("--size", type=int, default=1000, help="payload bytes")
    made.add_argument("--order", default="causal")
    return made.parse_args(words)


# ---- the bound -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """One documented limit, in bytes of memory when it is reached."""

    name: str
    bytes: int


def messages_bytes(messages_max: int, bytes_max: int, size: int) -> int:
    """A queue with a limit on messages and one on payload bytes, full of messages of one size."""
    messages = min(messages_max, -(-bytes_max // size))
    return messages * (size + MESSAGE_OBJECT_BYTES)


def limits(options: Options, queue: tuple[int, int], members: int, size: int) -> list[Limit]:
    """All that one member may hold, in one group; `queue` is its limit in messages and in payload bytes."""
    packet_bytes = options.packet_bytes_max + PACKET_OBJECT_BYTES
    per_packet = max(1, options.packet_bytes_max // size) if size else options.packet_bytes_max
    window = options.window_packets * members * (packet_bytes + per_packet * MESSAGE_OBJECT_BYTES)
    pending = options.pending_bytes_max
    return [
        Limit("queue of the application", messages_bytes(*queue, size)),
        Limit("windows of all senders, as packets and as messages", 2 * window),
        Limit("accepted and not yet in packets", messages_bytes(pending, pending, size)),
        Limit("outbox", messages_bytes(outbox.MESSAGES_MAX, outbox.BYTES_MAX, size)),
        Limit("datagrams that wait for the socket", transport.QUEUE_DATAGRAMS_MAX * packet_bytes),
    ]


def queue_limits() -> tuple[int, int]:
    """What a node is made with unless it is told otherwise."""
    defaults = Node.__init__.__kwdefaults__
    assert defaults is not None
    return defaults["queue_messages_max"], defaults["queue_bytes_max"]


# ---- the run -------------------------------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


@dataclass(frozen=True)
class Sample:
    """The memory of all members at one time."""

    seconds: float
    bytes: tuple[int, ...]


class Watch:
    """Samples memory until it is stopped."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._begin_s = time.monotonic()
        self.samples: list[Sample] = []
        self.look()

    def look(self) -> None:
        resident = tuple(resident_bytes(pid) for pid in self._pids)
        self.samples.append(Sample(round(time.monotonic() - self._begin_s, 3), resident))

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            self.look()


@dataclass(frozen=True)
class Stall:
    """What one run has shown, after it was found complete."""

    samples: list[Sample]
    messages: int
    unread: int
    """At the stalled member, when it read on."""
    handed: tuple[int, int]
    """To the stalled member, when it stopped reading and when it read on: the same."""

    def growth(self, rank: int) -> int:
        """The greatest size above that at the start."""
        return max(sample.bytes[rank] for sample in self.samples) - self.samples[0].bytes[rank]


async def stall(arguments: argparse.Namespace) -> Stall:
    async with Members(MEMBERS) as members:
        await members.all("count", serials=True)
        watch = Watch(members.pids)
        watching = asyncio.create_task(watch.watch())
        try:
            lasts_s = LEAD_S + arguments.seconds + CATCH_UP_S
            sending = [asyncio.create_task(flood(members, rank, arguments, lasts_s)) for rank in range(STALLED)]
            await asyncio.sleep(LEAD_S)
            paused = await members.one(STALLED, "pause")
            progress(f"member {STALLED + 1} has stopped reading, for {arguments.seconds:g} s")
            await asyncio.sleep(arguments.seconds)
            resumed = await members.one(STALLED, "resume")
            progress(f"it reads on; {resumed['unread']:,} messages waited for it")
            messages = sum([(await sender)["sent"] for sender in sending])
            await members.complete(messages)
            watch.look()
        finally:
            watching.cancel()
    return Stall(watch.samples, messages, resumed["unread"], (paused["handed"], resumed["handed"]))


async def flood(members: Members, rank: int, arguments: argparse.Namespace, seconds: float) -> Object:
    return await members.one(
        rank,
        "flood",
        takes_s=seconds,
        order=arguments.order,
        size=arguments.size,
        warmup=0.0,
        seconds=seconds,
        sends=True,
        serials=True,
    )


# ---- the report ----------------------------------------------------------------------------------------------------


def words(shown: Stall, bound: list[Limit], size: int) -> str:
    total = sum(limit.bytes for limit in bound)
    rows: list[list[object]] = [[limit.name, round(limit.bytes / MIB, 1)] for limit in bound]
    rows.append(["the bound, for each member", round(total / MIB, 1)])
    parts = [table(["limits, full of messages of " + str(size) + " bytes", "MiB"], rows)]
    grown: list[list[object]] = []
    for rank in range(MEMBERS):
        sizes = [sample.bytes[rank] for sample in shown.samples]
        role = "stops reading" if rank == STALLED else "sends"
        verdict = "below the bound" if shown.growth(rank) <= total else "ABOVE THE BOUND"
        row = [round(value / MIB, 1) for value in (sizes[0], max(sizes), shown.growth(rank))]
        grown.append([f"p{rank + 1}, {role}", *row, verdict])
    parts.append(table(["resident size, MiB", "at the start", "greatest", "growth", ""], grown))
    parts.append(over_time(shown.samples))
    parts.append(
        f"{shown.messages:,} messages were sent, and every member was handed every one of them, in order; "
        f"{shown.unread:,} waited at the stalled member when it read on."
    )
    return "\n\n".join(parts)


def over_time(samples: list[Sample]) -> str:
    """Some of the samples, the first and the last among them."""
    stride = max(1, len(samples) // ROWS)
    chosen = [*samples[:-1:stride], samples[-1]]
    rows = [[f"{sample.seconds:.1f} s", *(round(value / MIB, 1) for value in sample.bytes)] for sample in chosen]
    return table(["resident size over time, MiB", *(f"p{rank + 1}" for rank in range(MEMBERS))], rows)


def results(shown: Stall, bound: list[Limit], arguments: argparse.Namespace) -> list[Result]:
    total = sum(limit.bytes for limit in bound)
    return [
        Result(
            workload=f"p{rank + 1} while p{STALLED + 1} does not read for {arguments.seconds:g} s",
            order=arguments.order,
            size=arguments.size,
            members=MEMBERS,
            value=shown.growth(rank),
            unit="bytes of memory above the start",
            spread=0.0,
            more={
                "bound": total,
                "below_bound": shown.growth(rank) <= total,
                "messages": shown.messages,
                "seconds": [sample.seconds for sample in shown.samples],
                "resident_bytes": [sample.bytes[rank] for sample in shown.samples],
            },
        )
        for rank in range(MEMBERS)
    ]


async def measure(arguments: argparse.Namespace) -> Report:
    bound = limits(Options(), queue_limits(), MEMBERS, arguments.size)
    shown = await stall(arguments)
    return Report("stall", results(shown, bound, arguments), words(shown, bound, arguments.size))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
