"""Throughput: real processes on loopback, all sending as fast as flow control lets them, all reading in batches.

    python bench/throughput.py                      delivered messages per second and member, as JSON
    python bench/throughput.py --profile            and where the time of one member goes
    ANTIPHON_PURE=1 python bench/throughput.py      the same without the compiled core

Each member counts what its application is handed, its own messages included, from the end of the warm-up on. The value
is the median of the rounds, each being the mean over the members; the spread is (greatest - least) / median of them.
"""

import argparse
import asyncio
import cProfile
import io
import json
import pstats
import statistics
import sys
import time
from pathlib import Path

from antiphon import Batch, Group, Node, _build
from antiphon.runtime.workers import Object, Parent, Workers

GROUP = "bench"
CHUNK = 256
"""Messages handed to one `send_many`."""
PROFILE_LINES = 25


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Delivered messages per second and member, on loopback.")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--size", type=int, default=64, help="payload bytes")
    parser.add_argument("--order", default="causal")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time per round")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="profile the first member (which slows it down)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


async def measure(arguments: argparse.Namespace) -> list[Object]:
    """One round: what each member measured."""
    names = [f"p{rank}" for rank in range(1, arguments.members + 1)]
    async with Workers([str(Path(__file__).resolve()), "--worker"], names) as workers:
        for rank, worker in enumerate(workers):
            worker.tell("settings", name=worker.name, profile=arguments.profile and rank == 0)
        members = {worker.name: (await worker.expect_soon("bound"))["address"] for worker in workers}
        for worker in workers:
            worker.tell("members", members=members)
        for worker in workers:
            await worker.expect_soon("joined")
        for worker in workers:
            worker.tell(
                "go",
                size=arguments.size,
                order=arguments.order,
                seconds=arguments.seconds,
                warmup=arguments.warmup,
            )
        measured = [await worker.expect("measured") for worker in workers]
        for worker in workers:
            worker.tell("close")
    return measured


class Member:
    """Sends without end and counts what comes."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.delivered = 0

    async def send(self, payload: bytes, order: str) -> None:
        chunk = [payload] * CHUNK
        while True:
            await self._group.send_many(chunk, order=order)

    async def read(self) -> None:
        async for event in self._group.batches():
            if isinstance(event, Batch):
                self.delivered += len(event.payloads)


async def work(parent: Parent) -> None:
    settings = await parent.expect("settings")
    async with Node(settings["name"], address="127.0.0.1:0", linger_s=0.0) as node:
        parent.tell("bound", address=node.address)
        group = await node.join(GROUP, members=(await parent.expect("members"))["members"])
        parent.tell("joined")
        go = await parent.expect("go")
        member = Member(group)
        tasks = [
            asyncio.create_task(member.send(bytes(go["size"]), go["order"])),
            asyncio.create_task(member.read()),
        ]
        await asyncio.sleep(go["warmup"])
        profile = cProfile.Profile() if settings["profile"] else None
        if profile is not None:
            profile.enable()
        begin_s, begin = time.perf_counter(), member.delivered
        await asyncio.sleep(go["seconds"])
        rate = (member.delivered - begin) / (time.perf_counter() - begin_s)
        if profile is not None:
            profile.disable()
        parent.tell("measured", rate=rate, statistics=node.statistics(), profile=render(profile))
        await parent.expect("close")
        for task in tasks:
            task.cancel()


def render(profile: cProfile.Profile | None) -> str | None:
    if profile is None:
        return None
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    return text.getvalue()


async def worker() -> None:
    await work(await Parent.connect())


def main() -> None:
    arguments = parse()
    if arguments.worker:
        asyncio.run(worker())
        return
    rates: list[float] = []
    for number in range(arguments.rounds):
        measured = asyncio.run(measure(arguments))
        rates.append(statistics.mean(member["rate"] for member in measured))
        print(f"round {number + 1}: {rates[-1]:,.0f} messages per second and member", file=sys.stderr)
        if arguments.profile:
            print(measured[0]["profile"], json.dumps(measured[0]["statistics"]), sep="\n", file=sys.stderr)
    value = statistics.median(rates)
    result = {
        "system": f"antiphon, {_build.describe()}",
        "workload": "all send, all receive",
        "order": arguments.order,
        "size": arguments.size,
        "members": arguments.members,
        "value": round(value),
        "unit": "delivered messages per second and member",
        "spread": round((max(rates) - min(rates)) / value, 3),
    }
    print(json.dumps({"results": [result]}))


if __name__ == "__main__":
    main()
