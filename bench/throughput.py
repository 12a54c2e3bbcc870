"""Throughput of Antiphon itself: real processes on loopback, all send as fast as flow control lets them, all receive.

    python -m bench.throughput                                         each order, 64 bytes, 3 members
    python -m bench.throughput --order causal --size 64,1000,16384 --members 2,3,5,8
    python -m bench.throughput --order causal --read batches,messages  what `async for` costs beside `batches()`
    python -m bench.throughput --order causal --profile                where the time of one member goes
    ANTIPHON_PURE=1 python -m bench.throughput                         the same without the compiled core

Members, clock and rules are those of bench/peers, where other systems can be measured beside it.
"""

import argparse
import sys
from collections.abc import Sequence

from bench.peers.command import EXIT_FAILED, add_measuring, numbers, say, show
from bench.peers.driver import run_once
from bench.peers.ours import BATCHES, MESSAGES, ORDERS, antiphon
from bench.peers.plan import Case, calibrate, measure
from bench.peers.system import PeerError


def words(text: str) -> list[str]:
    return text.split(",")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench throughput", description="Throughput of Antiphon, on loopback.")
    parser.add_argument(
        "--order", type=words, default=list(ORDERS), metavar="A,B", help=f"of {', '.join(ORDERS)} (all)"
    )
    parser.add_argument(
        "--read", type=words, default=[BATCHES], metavar="A,B", help=f"{BATCHES} ({BATCHES}), {MESSAGES}"
    )
    parser.add_argument("--size", type=numbers, default=[64], metavar="N,M", help="payload bytes (64)")
    parser.add_argument("--members", type=numbers, default=[3], metavar="N,M", help="how many (3)")
    parser.add_argument("--profile", action="store_true", help="one run of each, and the profile of its first member")
    add_measuring(parser)
    return parser.parse_args(argv)


def chosen(arguments: argparse.Namespace) -> list[Case]:
    for what, given, known in (("order", arguments.order, ORDERS), ("read", arguments.read, (BATCHES, MESSAGES))):
        for word in given:
            if word not in known:
                raise PeerError(f"--{what}: there is no {word!r}; choose from {', '.join(known)}")
    if min(arguments.size) < 2 or min(arguments.members) < 2:
        raise PeerError("a message has at least 2 bytes, and a group 2 members")
    more = ["profile"] if arguments.profile else []
    return [
        Case(antiphon(order, reading, *more), size, members)
        for size in arguments.size
        for members in arguments.members
        for order in arguments.order
        for reading in arguments.read
    ]


def profile(cases: list[Case], wanted_s: float) -> None:
    """One run of each case; what it says is for people."""
    for case in cases:
        run = run_once(case.system, case.load(calibrate(case, wanted_s, run_once)))
        print(f"{case}: {run.rate:,.0f} messages per second and member, while its first member was being profiled")
        print(run.reports[0]["profile"], run.reports[0]["statistics"], sep="\n")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse(argv)
    try:
        if arguments.profile:
            profile(chosen(arguments), arguments.seconds)
        else:
            results = measure(chosen(arguments), repeats=arguments.repeats, wanted_s=arguments.seconds, say=say)
            show(arguments, results, [])
    except PeerError as error:
        say(f"no result: {error}")
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
