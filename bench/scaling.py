"""How throughput and processor time grow with members, with the size of messages, and with groups.

    python -m bench.scaling                     everything; from the project's root
    python -m bench.scaling --members 2 3       fewer members, and likewise --sizes, --orders, --groups
    python -m bench.scaling --json              one JSON document

All members send as fast as they may. Delivered messages per second and member, the sender's own included; processor
seconds of one member per delivered message.

With n members each message is sent n - 1 times. Work in proportion to the copies would leave rate * (n - 1) the same;
the *share* is that product over the one for the fewest members, in the same repeat, so 1 means in proportion, and more
is better.

By groups: the same three processes in 1, 4 and 16 groups at once, sending in all of them. Once all groups are in one
causality domain, the default, where a process that turns from one group to another waits until what it has sent is
stable; and once each group has a domain of its own.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from antiphon.runtime.workers import Object
from bench.crew import Members, mean_rate
from bench.figures import Report, Result, median_of, parser, progress, run, spread, table
from bench.plots import Panel, Series, draw

ORDERS: Final = ("fifo", "causal", "agreed", "safe")
SIZES: Final = (64, 1000, 16 * 1024)
MEMBERS: Final = (2, 3, 5, 8)
GROUPS: Final = (1, 4, 16)
GROUP_MEMBERS: Final = 3
GROUP_SIZE: Final = 64
GROUP_ORDER: Final = "causal"
DOMAINS: Final = {"one domain": False, "a domain each": True}
UNIT: Final = "delivered messages per second and member"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Throughput and processor time by members, sizes, orders and groups.")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument(
        "--seconds", type=float, default=2.0, help="measured time of each run, after half as long to warm up"
    )
    made.add_argument("--members", type=int, nargs="*", default=list(MEMBERS))
    made.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="payload bytes")
    made.add_argument("--orders", nargs="*", choices=ORDERS, default=list(ORDERS))
    made.add_argument("--groups", type=int, nargs="*", default=list(GROUPS))
    return made.parse_args(words)


@dataclass(frozen=True)
class Run:
    """One run: means over the members."""

    rate: float
    cpu_s: float
    """Of one member, per delivered message."""


def run_of(measured: list[Object]) -> Run:
    return Run(
        mean_rate(measured),
        statistics.mean(member["cpu_s"] for member in measured),
    )


def shares(rates: list[float], members: list[int]) -> list[float]:
    """Each rate times copies, over that of the first."""
    products = [rate * (count - 1) for rate, count in zip(rates, members, strict=True)]
    return [product / products[0] for product in products]


Key = tuple[str, int]
ByMembers = dict[Key, dict[int, list[Run]]]
"""By order and size, then by members, one run per repeat."""
ByGroups = dict[str, dict[int, list[Run]]]


# ---- members -------------------------------------------------------------------------------------------------------


async def by_members(arguments: argparse.Namespace) -> ByMembers:
    found: ByMembers = {
        (order, size): {count: [] for count in arguments.members}
        for size in arguments.sizes
        for order in arguments.orders
    }
    for number in range(1, arguments.repeats + 1):
        for count in arguments.members:
            progress(f"repeat {number} of {arguments.repeats}: {count} members")
            async with Members(count) as members:
                for order, size in found:
                    made = run_of(
                        await members.flood(order, size, seconds=arguments.seconds, warmup=arguments.seconds / 2)
                    )
                    found[order, size][count].append(made)
    return found


def member_results(found: ByMembers) -> list[Result]:
    made = []
    for (order, size), by_count in found.items():
        counts = list(by_count)
        repeats = [shares([run.rate for run in runs], counts) for runs in zip(*by_count.values(), strict=True)]
        for place, (count, runs) in enumerate(by_count.items()):
            value, spread_ = median_of([run.rate for run in runs], 0)
            share, share_spread = median_of([repeat[place] for repeat in repeats])
            made.append(
                Result(
                    workload="all send, all receive",
                    order=order,
                    size=size,
                    members=count,
                    value=value,
                    unit=UNIT,
                    spread=spread_,
                    more={
                        "share_of_proportion": share,
                        "share_spread": share_spread,
                        "cpu_us_per_message": round(statistics.median(run.cpu_s for run in runs) * 1e6, 3),
                    },
                )
            )
    return made


def words_of_members(results: list[Result]) -> str:
    head = ["order, bytes", "members", "messages/s", "spread", "share", "spread", "cpu, µs per message"]
    rows = [
        [
            f"{result.order}, {result.size}",
            result.members,
            result.value,
            f"±{result.spread:.0%}",
            result.more["share_of_proportion"],
            f"±{result.more['share_spread']:.0%}",
            result.more["cpu_us_per_message"],
        ]
        for result in results
    ]
    return table(head, rows)


def plot_members(found: ByMembers) -> str:
    """A panel per size, a line per order."""
    panels = []
    for size in dict.fromkeys(size for _, size in found):
        series = [
            Series(order, list(by_count), [statistics.median(run.rate for run in runs) for runs in by_count.values()])
            for (order, of), by_count in found.items()
            if of == size
        ]
        panels.append(Panel(f"{size:,} bytes", "members", series))
    return draw("Delivered messages per second and member", panels)


# ---- groups --------------------------------------------------------------------------------------------------------


async def by_groups(arguments: argparse.Namespace) -> ByGroups:
    found: ByGroups = {domains: {count: [] for count in arguments.groups} for domains in DOMAINS}
    for number in range(1, arguments.repeats + 1):
        for domains, own in DOMAINS.items():
            for count in arguments.groups:
                progress(f"repeat {number} of {arguments.repeats}: {count} groups, {domains}")
                async with Members(GROUP_MEMBERS, groups=count, own_domains=own) as members:
                    flooded = await members.flood(
                        GROUP_ORDER, GROUP_SIZE, seconds=arguments.seconds, warmup=arguments.seconds / 2
                    )
                found[domains][count].append(run_of(flooded))
    return found


def group_results(found: ByGroups) -> list[Result]:
    made = []
    for domains, by_count in found.items():
        for count, runs in by_count.items():
            rates = [run.rate for run in runs]
            made.append(
                Result(
                    workload=f"{count} groups of the same members, {domains}",
                    order=GROUP_ORDER,
                    size=GROUP_SIZE,
                    members=GROUP_MEMBERS,
                    value=round(statistics.median(rates)),
                    unit=UNIT,
                    spread=spread(rates),
                    more={"cpu_us_per_message": round(statistics.median(run.cpu_s for run in runs) * 1e6, 3)},
                )
            )
    return made


def words_of_groups(results: list[Result]) -> str:
    rows = [
        [result.workload, result.value, f"±{result.spread:.0%}", result.more["cpu_us_per_message"]]
        for result in results
    ]
    return table(["", "messages/s", "spread", "cpu, µs per message"], rows)


async def measure(arguments: argparse.Namespace) -> Report:
    members = await by_members(arguments)
    groups = await by_groups(arguments)
    of_members, of_groups = member_results(members), group_results(groups)
    words = words_of_members(of_members) + "\n\n" + words_of_groups(of_groups)
    return Report("scaling", of_members + of_groups, words, {"scaling": plot_members(members)})


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
