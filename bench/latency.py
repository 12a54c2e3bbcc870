"""Latency on loopback: round trips beside a raw echo, and one way, idle and at half of the greatest load.

    python -m bench.latency             the tables; from the project's root
    python -m bench.latency --json      one JSON document
    python -m bench.latency --idle | --counts | --waterfall FILE     see bench/idle_rounds.py

Round trip: one member multicasts, the two others answer, and it waits for both. They answer by multicasts of their
own: with readers, with listeners, with listeners over IP multicast, and with listeners on uvloop instead of asyncio's
event loop; or, with listeners on either, by messages to the asker alone. The echo sends to two processes over
asyncio's plain datagram endpoints, whose protocols answer, and waits for both. All in turn, BLOCK rounds each: the
ratios are of one repeat, and the value is their median over the repeats.

One way: the time of the call travels in the message (all processes of one machine share one monotonic clock), and is
compared when the application of another member is handed it. Idle: every member sends IDLE_RATE messages a second.
Half load: first all send as fast as they may; then each sends at half the rate that it had, each millisecond what is
due.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any, Final

from bench.crew import ECHO, Crew, Members, mean_rate, together
from bench.figures import (
    PERCENTILES,
    IncompleteError,
    Report,
    Result,
    median_of,
    parser,
    percentile,
    progress,
    run,
    table,
)
from bench.idle_rounds import counts, idle, waterfall

MEMBERS: Final = 3
SIZE: Final = 64
BLOCK: Final = 250
ORDERS: Final = ("fifo", "causal", "agreed", "safe")
IDLE_RATE: Final = 100.0
SAMPLES_MAX: Final = 20_000
"""Ages that one member keeps of one run; of more messages, each so-many-th is looked at."""
REACHED_MIN: Final = 0.9
"""A run in which less than this share of the half load was sent has not measured half load."""
UNIT: Final = "microseconds"
READERS: Final = "antiphon"
LISTENERS: Final = "antiphon, listeners"
MULTICAST: Final = "antiphon, listeners, multicast"
UVLOOP: Final = "antiphon, listeners, uvloop"
TO_ASKER: Final = "antiphon, listeners, to the asker"
TO_ASKER_UVLOOP: Final = "antiphon, listeners, to the asker, uvloop"
MULTICAST_ADDRESS: Final = "239.255.74.1:7401"

Times = dict[str, list[float]]
"""Microseconds, by system."""


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Round trips beside a raw echo, and one-way latency, on loopback.")
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--rounds", type=int, default=5000, help="round trips of each system in one repeat")
    made.add_argument("--seconds", type=float, default=3.0, help="of each one-way measurement")
    made.add_argument("--order", choices=ORDERS, action="append", help="one-way at these levels only")
    made.add_argument("--stack", action="append", help="with --idle, --counts and --waterfall: on these stacks only")
    made.add_argument("--idle", action="store_true", help="round trips of each level and stack, and nothing else")
    made.add_argument("--counts", action="store_true", help="count what one idle round takes, and nothing else")
    made.add_argument("--waterfall", metavar="FILE", help="draw one idle message as SVG, and nothing else")
    made.add_argument("--poll-us", type=int, default=0, help="with --idle: members poll so long before they sleep")
    return made.parse_args(words)


def name(percent: float) -> str:
    return f"p{percent:g}"


# ---- round trips ---------------------------------------------------------------------------------------------------


async def round_trips(rounds: int) -> Times:
    """One repeat: new processes, both systems in turn."""
    times_ns: dict[str, list[int]] = {}
    async with (
        Members(MEMBERS) as members,
        Members(MEMBERS) as listeners,
        Members(MEMBERS, multicast=MULTICAST_ADDRESS) as multicasters,
        Members(MEMBERS, uvloop=True) as listeners_uvloop,
        Members(MEMBERS) as private,
        Members(MEMBERS, uvloop=True) as private_uvloop,
        Crew(ECHO, [f"e{rank}" for rank in range(1, MEMBERS + 1)]) as echoes,
    ):
        serving = await together(echoes.one(rank, "serve", wire="udp") for rank in range(1, MEMBERS))
        ports = [served["port"] for served in serving]
        for rank in range(1, MEMBERS):
            await members.one(rank, "answer", all="causal")
            await listeners.one(rank, "answer_listening")
            await multicasters.one(rank, "answer_listening")
            await listeners_uvloop.one(rank, "answer_listening")
            await private.one(rank, "answer_listening", private=True)
            await private_uvloop.one(rank, "answer_listening", private=True)
        for number in range(-(-rounds // BLOCK) + 1):
            question: dict[str, Any] = {"count": BLOCK, "size": SIZE, "order": "causal", "answers": MEMBERS - 1}
            done = {
                READERS: await members.one(0, "ask", **question),
                LISTENERS: await listeners.one(0, "ask_listening", **question),
                MULTICAST: await multicasters.one(0, "ask_listening", **question),
                UVLOOP: await listeners_uvloop.one(0, "ask_listening", **question),
                TO_ASKER: await private.one(0, "ask_listening", **question),
                TO_ASKER_UVLOOP: await private_uvloop.one(0, "ask_listening", **question),
                "echo": await echoes.one(0, "ask", wire="udp", ports=ports, count=BLOCK, size=SIZE, successive=False),
            }
            for system, answered in done.items():
                if number:  # the first is for warming up
                    times_ns.setdefault(system, []).extend(answered["times_ns"])
    return {system: [time_ns / 1000 for time_ns in taken] for system, taken in times_ns.items()}


def round_trip_results(repeats: list[Times]) -> list[Result]:
    """Percentiles of both, and their ratios, repeat by repeat."""
    results = []
    for percent in PERCENTILES:
        of = {system: [percentile(times[system], percent) for times in repeats] for system in repeats[0]}
        rows = [("asyncio udp echo", of["echo"], UNIT)]
        for system in [system for system in of if system != "echo"]:
            ratios = [ours / echo for ours, echo in zip(of[system], of["echo"], strict=True)]
            rows += [(system, of[system], UNIT), (f"{system} / echo", ratios, "ratio")]
        for system, values, unit in rows:
            value, spread = median_of(values)
            results.append(
                Result(
                    system=system,
                    workload=f"round trip, idle, {name(percent)}",
                    order="none" if system == "asyncio udp echo" else "causal",
                    size=SIZE,
                    members=MEMBERS,
                    value=value,
                    unit=unit,
                    spread=spread,
                )
            )
    return results


# ---- one way -------------------------------------------------------------------------------------------------------


async def paced(members: Members, order: str, rate: float, seconds: float) -> list[float]:
    """Every member sends `rate` messages a second; how old they were at the others, in microseconds."""
    stride = max(1, int(rate * seconds * (MEMBERS - 1) / SAMPLES_MAX))
    await members.all("count", stride=stride)
    sent = await together(
        members.one(
            rank,
            "pace",
            takes_s=seconds,
            order=order,
            size=SIZE,
            rate=rate,
            seconds=seconds,
            offset=rank / MEMBERS / rate,
        )
        for rank in range(MEMBERS)
    )
    total = sum(member["sent"] for member in sent)
    if total < REACHED_MIN * rate * seconds * MEMBERS:
        raise IncompleteError(
            f"only {total / seconds:,.0f} of {rate * MEMBERS:,.0f} messages a second could be sent at level {order}; "
            "leave the machine to this program alone"
        )
    came = await members.all("complete", messages=total)
    return [age_ns / 1000 for member in came for age_ns in member["ages_ns"]]


async def one_way(order: str, seconds: float) -> tuple[list[float], list[float], float]:
    """One repeat: ages when idle, ages at half load, and the half load in messages per second and member."""
    async with Members(MEMBERS) as members:
        idle = await paced(members, order, IDLE_RATE, seconds)
        flooded = await members.flood(order, SIZE, seconds=seconds / 2)
        half = mean_rate(flooded) / 2
        return idle, await paced(members, order, half / MEMBERS, seconds), half


def one_way_results(order: str, load: str, repeats: list[list[float]], rate: float) -> list[Result]:
    results = []
    for percent in PERCENTILES:
        value, spread = median_of([percentile(ages, percent) for ages in repeats])
        results.append(
            Result(
                workload=f"one way, {load}, {name(percent)}",
                order=order,
                size=SIZE,
                members=MEMBERS,
                value=value,
                unit=UNIT,
                spread=spread,
                more={"messages_per_second": round(rate)},
            )
        )
    return results


# ---- all -----------------------------------------------------------------------------------------------------------


def words(results: list[Result]) -> str:
    """Percentiles side by side."""
    lines: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        workload, _, _ = result.workload.rpartition(", ")
        lines.setdefault((workload, result.system, result.order), []).append(result)
    rows = []
    for (workload, system, order), of in lines.items():
        cells = [f"{result.value:.4g} (±{result.spread:.0%})" for result in of]
        rows.append([workload, system, order, *cells, of[0].more.get("messages_per_second", "")])
    head = ["", "system", "order", *(f"{name(percent)} µs" for percent in PERCENTILES), "messages/s"]
    return table(head, rows) + "\n\nMedian of the repeats, and (greatest - least) / median of them."


async def measure(arguments: argparse.Namespace) -> Report:
    trips = []
    for number in range(1, arguments.repeats + 1):
        trips.append(await round_trips(arguments.rounds))
        ours, echo = (percentile(trips[-1][system], 50) for system in ("antiphon", "echo"))
        progress(f"round trip, repeat {number}: p50 {ours:.0f} µs, echo {echo:.0f} µs, ratio {ours / echo:.2f}")
    results = round_trip_results(trips)
    orders = arguments.order or ORDERS
    ways: dict[str, list[tuple[list[float], list[float], float]]] = {order: [] for order in orders}
    for number in range(1, arguments.repeats + 1):
        for order in orders:
            ways[order].append(await one_way(order, arguments.seconds))
            idle, loaded, rate = ways[order][-1]
            progress(
                f"one way, {order}, repeat {number}: p50 {percentile(idle, 50):.0f} µs idle, "
                f"{percentile(loaded, 50):.0f} µs at {rate:,.0f} messages/s"
            )
    for order, repeats in ways.items():
        results += one_way_results(order, "idle", [idle for idle, _, _ in repeats], IDLE_RATE * MEMBERS)
        half = statistics.median(rate for _, _, rate in repeats)
        results += one_way_results(order, "half load", [loaded for _, loaded, _ in repeats], half)
    return Report("latency", results, words(results))


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    if arguments.waterfall:
        return run(waterfall, arguments)
    return run(counts if arguments.counts else idle if arguments.idle else measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
