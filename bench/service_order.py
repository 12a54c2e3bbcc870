"""Antiphon's sequencing service beside NATS JetStream, Redis streams and etcd: three clients that all send and read
one order, with equal windows of messages under way, and the latency of one message when nothing else happens.

    python -m bench.service_order [--durable] [--size 64,1000] [--repeats 3] [--seconds 2] [--json] [--systems A,B]

All clients of a system must have read the same order, or there is no result. bench/peers/services.py says how each
server runs. Exit status 2: something failed."""

import argparse
import asyncio
import json
import sys
from typing import Any, Final

from bench.peers.command import EXIT_FAILED, numbers, ratios, say
from bench.peers.driver import READY_S, Member, Run, free_ports, run_once
from bench.peers.plan import Case, Result, measure, table
from bench.peers.services import LATENCY, LOAD, systems
from bench.peers.system import Load, PeerError, System

CLIENTS: Final = 3
PINGS: Final = 500


def run_in_one_order(system: System, load: Load, limit_s: float) -> Run:
    """One run, whose clients must have read one order."""
    run = run_once(system, load, limit_s)
    if len({report["order"] for report in run.reports}) > 1:
        raise PeerError(f"{system.name}: the clients have not read the same order; the run does not count")
    return run


async def ping(system: System, size: int) -> dict[str, Any]:
    load = Load(members=1, size=size, warmup=PINGS // 5, count=PINGS)
    arguments = [LATENCY if one == LOAD else one for one in system.arguments(load, free_ports(1), 0)]
    member = await Member.start(f"{system.name}, alone,", arguments)
    try:
        for _ in ("warm-up", "run"):
            await member.ready(READY_S)
            member.go()
        return await member.report(READY_S)
    finally:
        await member.end()


def latency(system: System, size: int) -> dict[str, Any]:
    """Of one ordered message, idle: from sending it to reading it back."""
    with system.service():
        report = asyncio.run(ping(system, size))
    return {"system": system.name, "size": size, **{name: round(value) for name, value in report.items()}}


def show(results: list[Result], latencies: list[dict[str, Any]], as_json: bool) -> None:
    document = {
        "results": [{**result.row(), "workload": "three clients, one order"} for result in results],
        "ratios": ratios(results),
        "latency": latencies,
    }
    if as_json:
        print(json.dumps(document, indent=1))
        return
    if results:
        print(table(results))
    for row in latencies:
        print(f"{row['system']:26}{row['size']:>6} bytes, idle: p50 {row['p50_us']:,} µs, p99 {row['p99_us']:,} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--durable", action="store_true", help="with durability on all sides")
    parser.add_argument("--size", type=numbers, default=[64, 1000], metavar="N,M")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--systems", help="which; all if not given")
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [one for one in systems(options.durable) if not options.systems or one.name in options.systems.split(",")]
    try:
        cases = [Case(system, size, CLIENTS) for size in options.size for system in chosen]
        results = measure(cases, repeats=options.repeats, wanted_s=options.seconds, say=say, run=run_in_one_order)
        latencies = [] if options.no_latency else [latency(system, options.size[0]) for system in chosen]
        show(results, latencies, options.json)
    except PeerError as error:
        say(f"no result: {error}")
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
