"""The stack `domain` measured: how early agreed messages come, and what many senders get through (transis-1992, 3.3).

    python -m bench.domain                          both tables; from the project's root
    python -m bench.domain --members 3 --latency    one of them, for these numbers of members
    python -m bench.domain --throughput --hosts     on hosts of their own, as root: IP multicast and fan-out
    python -m bench.domain --json                   one JSON document

Latency: the age of an agreed message when the application of another member is handed it, by early delivery (votes),
by all-ack (the same stack, which waits until all members have been heard), and by the token of `vector`; idle, every
member sending IDLE_RATE messages a second, and loaded, with LOAD_SHARE of what the slowest of the three gets through.
Beside it, how many members had been heard when a message got its place, at the mean; the best case is n/2 + 1.

Throughput: all members send as fast as they may; delivered messages per second and member, the sender's own included,
on `domain` and `vector`, and over a mesh of TCP circuits (bench/mesh.py). On loopback, with unicast fan-out, or with
--hosts each member in a network namespace of its own, all on one bridge (tests/networks/network.py), by fan-out and by
IP multicast. The more members, the more processes share the processors, so compare systems with as many members; to
see how each one falls as members are added, `busy` has the rate times the members that share the processors, over the
same with the fewest.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from antiphon.runtime.workers import Object
from bench.crew import Crew, Members, Place, mean_rate, together
from bench.figures import Report, Result, median_of, parser, percentile, progress, run, table
from bench.namespaces import NAMESPACES
from tests.networks.network import Network

SIZE: Final = 64
IDLE_RATE: Final = 20.0
LOAD_SHARE: Final = 0.25
SAMPLES_MAX: Final = 20_000
LATENCY_MEMBERS: Final = (3, 5, 8)
THROUGHPUT_MEMBERS: Final = (2, 3, 4, 6, 8, 10)
EARLY: Final = "domain"
ALL_ACK: Final = "domain, all-ack"
TOKEN: Final = "vector"
TCP: Final = "TCP mesh"
MULTICAST: Final = ", IP multicast"
GROUP_ADDRESS: Final = "239.255.77.1:7401"
MESH: Final = ("-m", "bench.mesh")
SYSTEMS: Final[dict[str, tuple[str, dict[str, int]]]] = {
    EARLY: ("domain", {}),
    ALL_ACK: ("domain", {"domain.early_order": 0}),
    TOKEN: ("vector", {}),
}


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Agreed latency by early delivery, and throughput by members, of the stack domain.")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    made.add_argument("--members", type=int, nargs="*", default=[], help="only these numbers of members")
    made.add_argument("--latency", action="store_true", help="latency only")
    made.add_argument("--throughput", action="store_true", help="throughput only")
    made.add_argument("--hosts", action="store_true", help="throughput between network namespaces on a bridge, as root")
    return made.parse_args(words)


def crew_of(system: str, members: int, places: Sequence[Place] = ()) -> Members:
    stack, options = SYSTEMS[system.removesuffix(MULTICAST)]
    multicast = GROUP_ADDRESS if system.endswith(MULTICAST) else None
    return Members(members, stack=stack, of_stack=options, multicast=multicast, places=places)


# ---- latency -------------------------------------------------------------------------------------------------------


async def paced(members: Members, rate: float, seconds: float) -> tuple[list[float], float]:
    """Every member sends `rate` agreed messages a second: their ages in microseconds, and how many members had been
    heard at the mean when one of them got its place (0 where that is not counted)."""
    stride = max(1, int(rate * seconds * (len(members) - 1) / SAMPLES_MAX))
    before = await members.all("statistics")
    await members.all("count", stride=stride)
    sent = await together(
        members.one(
            rank, "pace", takes_s=seconds, order="agreed", size=SIZE, rate=rate, seconds=seconds,
            offset=rank / len(members) / rate,
        )
        for rank in range(len(members))
    )  # fmt: skip
    came = await members.all("complete", messages=sum(member["sent"] for member in sent))
    ages = [age_ns / 1000 for member in came for age_ns in member["ages_ns"]]
    return ages, heard_at_places(before, await members.all("statistics"))


def heard_at_places(before: list[Object], after: list[Object]) -> float:
    """How many members had been heard when a message got its place, at the mean."""
    placed = sum(one.get("ordered_placed", 0) for one in after) - sum(one.get("ordered_placed", 0) for one in before)
    heard = sum(one.get("ordered_heard", 0) for one in after) - sum(one.get("ordered_heard", 0) for one in before)
    return heard / placed if placed else 0.0


async def measure_latency(count: int, seconds: float) -> dict[tuple[str, str], tuple[list[float], float]]:
    """One repeat with so many members: ages and members heard, by system and load."""
    found: dict[tuple[str, str], tuple[list[float], float]] = {}
    rates: list[float] = []
    for system in SYSTEMS:
        async with crew_of(system, count) as members:
            found[system, "idle"] = await paced(members, IDLE_RATE, seconds)
            rates.append(mean_rate(await members.flood("agreed", SIZE, seconds=seconds / 2)))
    rate = min(rates) * LOAD_SHARE / count
    for system in SYSTEMS:
        async with crew_of(system, count) as members:
            found[system, "loaded"] = await paced(members, rate, seconds)
    return found


async def latency(arguments: argparse.Namespace) -> list[Result]:
    results: list[Result] = []
    for count in arguments.members or LATENCY_MEMBERS:
        repeats = []
        for repeat in range(arguments.repeats):
            progress(f"latency, {count} members, repeat {repeat + 1}")
            repeats.append(await measure_latency(count, arguments.seconds))
        for system, load in repeats[0]:
            heard = statistics.mean(found[system, load][1] for found in repeats)
            for percent in (50.0, 99.0):
                value, spread = median_of([percentile(found[system, load][0], percent) for found in repeats])
                results.append(
                    Result(
                        system=system, workload=f"one way, {load}, p{percent:g}", order="agreed", size=SIZE,
                        members=count, value=value, unit="microseconds", spread=spread,
                        more={"members_heard": round(heard, 2)},
                    )
                )  # fmt: skip
    return results


# ---- throughput ----------------------------------------------------------------------------------------------------


async def mesh_rate(count: int, seconds: float, places: Sequence[Place]) -> float:
    """Delivered messages per second and member, over TCP."""
    async with Crew(MESH, [f"t{rank}" for rank in range(1, count + 1)], places) as mesh:
        addresses = [(await mesh.one(rank, "bind", host=mesh.host_of(rank)))["address"] for rank in range(count)]
        for rank in range(count):
            await mesh.one(rank, "connect", addresses=addresses[:rank] + addresses[rank + 1 :])
        measured = await mesh.all("flood", takes_s=seconds + 0.5, size=SIZE, warmup=0.5, seconds=seconds)
        return mean_rate(measured)


@contextmanager
def places_of(count: int, hosts: bool) -> Iterator[list[Place]]:
    """A namespace for each of so many members, if that is wanted; none: all on loopback."""
    if not hosts:
        yield []
        return
    with Network(count) as network:
        found = range(1, count + 1)
        yield [Place(f"{NAMESPACES}/{network.namespace(host)}", network.address(host)) for host in found]


async def throughput(arguments: argparse.Namespace) -> list[Result]:
    rates: dict[tuple[str, str, int], list[float]] = {}
    systems = [EARLY, EARLY + MULTICAST, TOKEN, TOKEN + MULTICAST] if arguments.hosts else [EARLY, TOKEN]
    for count in arguments.members or THROUGHPUT_MEMBERS:
        for repeat in range(arguments.repeats):
            progress(f"throughput, {count} members, repeat {repeat + 1}")
            with places_of(count, arguments.hosts) as places:
                for system in systems:
                    for order in ("causal", "agreed"):
                        async with crew_of(system, count, places) as members:
                            measured = await members.flood(order, SIZE, seconds=arguments.seconds)
                        rates.setdefault((system, order, count), []).append(mean_rate(measured))
                rate = await mesh_rate(count, arguments.seconds, places)
            rates.setdefault((TCP, "fifo", count), []).append(rate)
    return [result_of(key, rates) for key in sorted(rates)]


def result_of(key: tuple[str, str, int], rates: dict[tuple[str, str, int], list[float]]) -> Result:
    """The median of one measurement; beside it, that times the members over the same with the fewest members."""
    system, order, count = key
    value, spread = median_of(rates[key])
    fewest = min(members for name, level, members in rates if (name, level) == (system, order))
    base, _ = median_of(rates[system, order, fewest])
    return Result(
        system=system, workload="all send", order=order, size=SIZE, members=count, value=value,
        unit="delivered messages per second and member", spread=spread,
        more={"busy": round(value * count / (base * fewest), 2)},
    )  # fmt: skip


# ---- all -----------------------------------------------------------------------------------------------------------


async def measure(arguments: argparse.Namespace) -> Report:
    both = arguments.latency == arguments.throughput and not arguments.hosts
    results = await latency(arguments) if both or arguments.latency else []
    results += await throughput(arguments) if both or arguments.throughput or arguments.hosts else []
    return Report("domain", results, tables(results))


def tables(results: list[Result]) -> str:
    rows = [
        (
            one.system, one.workload, one.order, one.members, one.value, one.more.get("members_heard", ""),
            one.more.get("busy", ""), one.spread,
        )
        for one in results
    ]  # fmt: skip
    return table(("system", "workload", "order", "members", "value", "heard", "busy", "spread"), rows)


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
