"""The command line of the comparison.

    python -m bench.peers                                       all systems, 64 bytes, 3 members
    python -m bench.peers --systems antiphon-causal,zeromq --size 1000 --members 5 --plot peers.svg
    python -m bench.peers --must                                the ratios that Antiphon is held to, and their targets

Results go to standard output, progress to standard error. Exit status 2: something failed, and there is no result.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.peers import corosync, jgroups, limits, must, picture, zeromq
from bench.peers.ours import BATCHES, MESSAGES, MULTICAST, ORDERS, PLAIN, antiphon
from bench.peers.plan import Case, Result, measure, ratio, table
from bench.peers.system import PeerError, System

REPEATS: Final = 5
SECONDS: Final = 3.0
EXIT_FAILED: Final = 2
SYSTEMS: Final = {
    system.name: system
    for system in (
        antiphon("causal"),
        antiphon("causal", MESSAGES),
        antiphon("causal", PLAIN),
        antiphon("agreed", PLAIN),
        antiphon("causal", BATCHES, MULTICAST),
        antiphon("causal", MESSAGES, MULTICAST),
        *(antiphon(order) for order in ORDERS if order != "causal"),
        zeromq.ZEROMQ,
        corosync.CPG,
        jgroups.UDP,
        jgroups.SEQUENCER,
        limits.BARE_LOOP,
        limits.RAW_UDP_GSO,
        limits.RAW_UDP,
        limits.RAW_TCP,
    )
}


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench peers",
        description="Antiphon beside other systems, under the same load.",
        epilog=f"Systems: {', '.join(SYSTEMS)}.",
    )
    parser.add_argument("--systems", metavar="A,B", help="which; all if not given, compared with the first")
    parser.add_argument("--size", type=numbers, default=[64], metavar="N,M", help="payload bytes (64)")
    parser.add_argument("--members", type=numbers, default=[3], metavar="N,M", help="how many (3)")
    parser.add_argument("--must", action="store_true", help="the comparisons that have targets, and nothing else")
    add_measuring(parser)
    return parser.parse_args(argv)


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """What all measurements of throughput let you choose."""
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"runs of each ({REPEATS}); their median counts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"about how long a run takes ({SECONDS:g})")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--save", type=Path, metavar="FILE.json", help="write that document to a file, too")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw it, too")


def named(name: str) -> System:
    if name not in SYSTEMS:
        raise PeerError(f"there is no system {name!r}; choose from {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def chosen(arguments: argparse.Namespace) -> list[Case]:
    if arguments.must:
        return must.cases(named)
    if min(arguments.size) < 2 or min(arguments.members) < 2:
        raise PeerError("a message has at least 2 bytes, and a group 2 members")
    names = arguments.systems.split(",") if arguments.systems else list(SYSTEMS)
    loads = [(size, members) for size in arguments.size for members in arguments.members]
    cases = [Case(named(name), size, members) for size, members in loads for name in names]
    if arguments.systems:
        return cases
    return [case for case in cases if case.size <= case.system.size_max]


def ratios(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Of the first system to each other one, under each load."""
    first = {(result.case.size, result.case.members): result for result in reversed(results)}
    rows = []
    for result in results:
        reference = first[result.case.size, result.case.members]
        if reference is not result:
            times, low, high = ratio(reference, result)
            rows.append(
                {
                    "over": reference.case.system.name,
                    "under": result.case.system.name,
                    "size": result.case.size,
                    "members": result.case.members,
                    "ratio": round(times, 3),
                    "least": round(low, 3),
                    "greatest": round(high, 3),
                }
            )
    return rows


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def show(arguments: argparse.Namespace, results: list[Result], judged: list[must.Outcome]) -> None:
    if arguments.plot is not None:
        arguments.plot.write_text(picture.draw(results))
        say(f"the plot is in {arguments.plot}")
    document = json.dumps(
        {
            "results": [result.row() for result in results],
            "ratios": [outcome.row() for outcome in judged] or ratios(results),
            "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        },
        indent=1,
    )
    if arguments.save is not None:
        arguments.save.write_text(document + "\n")
        say(f"the figures are in {arguments.save}")
    if arguments.json:
        print(document)
        return
    print(table(results))
    if judged:
        print(f"\n{must.table(judged)}")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse(argv)
    try:
        results = measure(chosen(arguments), repeats=arguments.repeats, wanted_s=arguments.seconds, say=say)
        show(arguments, results, must.judge(results) if arguments.must else [])
    except PeerError as error:
        say(f"no result: {error}")
        sys.exit(EXIT_FAILED)
