"""Idle round trips of each level and stack beside the echo, what one of them takes, and the picture of one message.

    python -m bench.latency --idle                     p50 and p99 of each level and stack, as ratios to the echo
    python -m bench.latency --counts                   counted per idle round: steps, wake-ups, timers, datagrams, calls
    python -m bench.latency --waterfall FILE.svg       one idle message, drawn from a recorded run

One member multicasts, both others answer at the same level by listeners, and it waits for both, as in bench.latency.
System calls are counted by strace where that is installed, in a run of its own, which is slower by far.
"""

import argparse
import asyncio
import shutil
import signal
import statistics
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from antiphon.stacks.registry import founding_stacks, offer
from bench.crew import ECHO, Crew, Members, together
from bench.figures import Report, Result, median_of, percentile, progress, table
from bench.stacks import service
from bench.waterfall import draw

MEMBERS: Final = 3
SIZE: Final = 64
BLOCK: Final = 200
ORDERS: Final = ("causal", "agreed", "safe")
STACKS: Final = ("vector", "conversation", "domain", "label", "sequencer")
Repeats = dict[tuple[str, str], list[list[float]]]
"""Microseconds, by system and order, repeat by repeat."""
TRACED: Final = 20
CALLED: Final = ("epoll_wait", "recvmsg", "sendto", "sendmsg", "sched_yield")


def orders_of(stack: str) -> list[str]:
    """Those levels that the stack offers."""
    return [order for order in ORDERS if order in offer(stack).levels]


@asynccontextmanager
async def contacts_of(stack: str) -> AsyncIterator[list[str]]:
    """Where the groups of this stack live, on one whose members do not found them."""
    if stack in founding_stacks():
        yield []
        return
    async with service() as address:
        yield [address]


async def rounds_of(members: Members, order: str, count: int) -> list[float]:
    """So many round trips at this level, in microseconds."""
    for rank in range(1, MEMBERS):
        await members.one(rank, "answer_listening", order=order)
    question: dict[str, Any] = {"count": count, "size": SIZE, "order": order, "answers": MEMBERS - 1}
    answered = await members.one(0, "ask_listening", **question)
    return [time_ns / 1000 for time_ns in answered["times_ns"]]


async def idle(arguments: argparse.Namespace) -> Report:
    """Round trips of all levels and stacks, in turn with the echo."""
    stacks = arguments.stack or STACKS
    times: Repeats = {}
    poll_us = arguments.poll_us
    for repeat in range(arguments.repeats):
        async with Crew(ECHO, [f"e{rank}" for rank in range(MEMBERS)]) as echoes:
            served = await together(echoes.one(rank, "serve", wire="udp") for rank in range(1, MEMBERS))
            ports = [each["port"] for each in served]
            for stack in stacks:
                async with (
                    contacts_of(stack) as contacts,
                    Members(MEMBERS, stack=stack, contacts=contacts, poll_us=poll_us) as members,
                ):
                    await one_stack(stack, members, echoes, ports, arguments.rounds, times)
        last = [f"{system} {order} {percentile(of[-1], 50):.0f}" for (system, order), of in times.items()]
        progress(f"repeat {repeat + 1}, p50 in µs: {', '.join(last)}")
    return Report("idle", *results_of(times))


async def one_stack(stack: str, members: Members, echoes: Crew, ports: list[int], rounds: int, times: Repeats) -> None:
    """One repeat of one stack, in turn with the echo."""
    taken: dict[tuple[str, str], list[float]] = {}
    for block in range(max(1, rounds // BLOCK) + 1):
        echo = await echoes.one(0, "ask", wire="udp", ports=ports, count=BLOCK, size=SIZE, successive=False)
        fresh = {("echo", stack): [time_ns / 1000 for time_ns in echo["times_ns"]]}
        for order in orders_of(stack):
            fresh[stack, order] = await rounds_of(members, order, BLOCK)
        for key, values in fresh.items():
            if block:  # the first is for warming up
                taken.setdefault(key, []).extend(values)
    for key, values in taken.items():
        times.setdefault(key, []).append(values)


def results_of(times: Repeats) -> tuple[list[Result], str]:
    results, rows = [], []
    for (stack, order), repeats in times.items():
        p50 = [percentile(values, 50) for values in repeats]
        p99 = [percentile(values, 99) for values in repeats]
        echo = [percentile(values, 50) for values in times["echo", order if stack == "echo" else stack]]
        ratio = statistics.median(ours / base for ours, base in zip(p50, echo, strict=True))
        shown = f"beside {order}" if stack == "echo" else order
        rows.append([stack, shown, *(statistics.median(values) for values in (p50, p99)), ratio])
        for name, values in (("p50", p50), ("p99", p99)):
            value, spread = median_of(values)
            results.append(
                Result(
                    system=stack, workload=f"round trip, idle, {name}", order=shown, size=SIZE, members=MEMBERS,
                    value=value, unit="microseconds", spread=spread, more={"times_echo": round(ratio, 2)},
                )
            )  # fmt: skip
    return results, table(["stack", "order", "p50 µs", "p99 µs", "p50 / echo"], rows)


# ---- counting ------------------------------------------------------------------------------------------------------


async def counts(arguments: argparse.Namespace) -> Report:
    """What one idle round takes, all three members together."""
    results, rows = [], []
    for stack in arguments.stack or ["vector"]:
        async with contacts_of(stack) as contacts, Members(MEMBERS, stack=stack, contacts=contacts) as members:
            for order in orders_of(stack):
                await rounds_of(members, order, BLOCK)
                await members.all("trace")
                await rounds_of(members, order, BLOCK)
                total: Counter[str] = Counter()
                for traced in await members.all("traced"):
                    total.update(traced["counts"])
                total.update(await called(members, order))
                rows.append([f"{stack}, {order}", *(round(total[name] / BLOCK, 2) for name in COLUMNS)])
                results += [
                    Result(
                        system=stack, workload=f"idle round, {name}", order=order, size=SIZE, members=MEMBERS,
                        value=round(total[name] / BLOCK, 3), unit="per round", spread=0.0,
                    )
                    for name in COLUMNS
                ]  # fmt: skip
    return Report("counts", results, table(["per round, all members", *COLUMNS], rows))


COLUMNS: Final = (
    "datagrams out", "datagrams in", "deliveries", "steps: send", "steps: receive", "steps: timer", "wake-ups",
    "sleeps", *CALLED,
)  # fmt: skip


async def called(members: Members, order: str) -> Counter[str]:
    """System calls of all members over BLOCK rounds, by name; none where there is no strace."""
    strace = shutil.which("strace")
    if strace is None:
        return Counter()
    tracing = [
        await asyncio.create_subprocess_exec(
            strace, "-f", "-c", "-U", "name,calls", "-p", str(pid), stderr=asyncio.subprocess.PIPE
        )
        for pid in members.pids
    ]
    try:
        await asyncio.sleep(0.5)
        await rounds_of(members, order, BLOCK)
    finally:
        for process in tracing:
            process.send_signal(signal.SIGINT)
    total: Counter[str] = Counter()
    for process in tracing:
        _, told = await process.communicate()
        for line in told.decode(errors="replace").splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit():
                total[words[0]] += int(words[1])
    return total


# ---- the picture ---------------------------------------------------------------------------------------------------


async def waterfall(arguments: argparse.Namespace) -> Report:
    """Record some idle messages and draw the last of them."""
    [stack] = arguments.stack or ["vector"]
    [order] = arguments.order or ["safe"]
    async with contacts_of(stack) as contacts, Members(MEMBERS, stack=stack, contacts=contacts) as members:
        await members.all("count")
        await members.all("trace")
        for _ in range(TRACED):
            await members.one(1, "say", order=order, size=SIZE)
            await asyncio.sleep(0.05)
        lanes = await members.all("traced")
    path = Path(arguments.waterfall)
    path.write_text(draw(lanes, 1, f"{stack}, {order}, idle"))
    return Report("waterfall", [], f"{path}: one idle {order} message of p2 on {stack}")
