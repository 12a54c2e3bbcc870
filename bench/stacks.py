"""All stacks beside each other, for docs/stacks.md: what a message costs on the wire, how long it takes, and how many
get through.

    python -m bench.stacks                    all tables; from the project's root
    python -m bench.stacks --wire             packets, bytes and flights per message, counted in virtual time: exact
    python -m bench.stacks --piggyback        how `label` fills its packets as load rises, counted likewise
    python -m bench.stacks --throughput       real processes on loopback
    python -m bench.stacks --json             one JSON document

Wire: MEMBERS members on a perfect network (bench/lab.py), where a packet takes one flight. *Single*: one message after
the other, each from the next member, with a rest in between. *Burst*: every member sends BURST messages at once.
Counted are all packets of the run, acks and heartbeats included, one for each destination, as without IP multicast. Not
for `sequencer`, whose members have TCP links to its peers.

Throughput: three members send as fast as they may; delivered messages per second and member, own ones included. On the
stack `sequencer` one more process holds the group.
"""

import argparse
import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from antiphon.kernel.inputs import Send
from antiphon.kernel.levels import CAUSAL, LEVELS
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.registry import OFFERS, founding_stacks
from bench.crew import Members, mean_rate
from bench.figures import Report, Result, median_of, parser, progress, run, table
from bench.lab import FLIGHT_NS, Lab, Tally

GROUP: Final = "g"
SIZE: Final = 64
MEMBERS: Final = 5
SINGLES: Final = 40
BURST: Final = 50
REST_NS: Final = 20 * MILLISECOND_NS
ORDERS: Final = ("causal", "agreed")
LAZY_US: Final = 2_000
RATES: Final = (100, 400, 1_600, 6_400)
"""Messages a second and member, for piggybacking."""
RUN: Final = "from antiphon.cli.main import main; main()"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("All stacks beside each other.")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--seconds", type=float, default=2.0, help="of each measurement of throughput")
    made.add_argument("--wire", action="store_true")
    made.add_argument("--piggyback", action="store_true")
    made.add_argument("--throughput", action="store_true")
    return made.parse_args(words)


# ---- the wire, in virtual time -------------------------------------------------------------------------------------


def founded(stack: str, members: int, options: Options | None = None) -> Lab:
    lab = Lab(members, options, stack)
    lab.found(GROUP, list(range(members)))
    lab.run(REST_NS)
    lab.tally = Tally()
    return lab


def payload(number: int) -> bytes:
    return number.to_bytes(8, "little") + bytes(SIZE - 8)


def single(stack: str, order: str) -> tuple[float, float, float]:
    """Packets, bytes and flights per message, one at a time."""
    lab = founded(stack, MEMBERS)
    flights = 0.0
    for number in range(SINGLES):
        begun_ns = lab.now_ns
        lab.step(number % MEMBERS, Send(group=GROUP, payloads=[payload(number)], level=LEVELS[order]))
        lab.run(REST_NS)
        flights += (lab.delivered_at_ns[payload(number)] - begun_ns) / FLIGHT_NS
    return _per_message(lab, SINGLES, flights)


def burst(stack: str, order: str) -> tuple[float, float, float]:
    """The same, if every member sends many at once."""
    lab = founded(stack, MEMBERS)
    begun_ns = lab.now_ns
    for member in range(MEMBERS):
        payloads = [payload(member * BURST + number) for number in range(BURST)]
        lab.step(member, Send(group=GROUP, payloads=payloads, level=LEVELS[order]))
    lab.run(REST_NS)
    ages = [(at_ns - begun_ns) / FLIGHT_NS for at_ns in lab.delivered_at_ns.values()]
    return _per_message(lab, MEMBERS * BURST, sum(ages))


def _per_message(lab: Lab, messages: int, flights: float) -> tuple[float, float, float]:
    assert all(len(own) == messages for own in lab.delivered), [len(own) for own in lab.delivered]
    packets, sizes = sum(lab.tally.unicasts.values()), sum(lab.tally.unicast_bytes.values())
    return packets / messages, sizes / messages, flights / messages


def wire() -> list[Result]:
    results: list[Result] = []
    for name, measured in (("single", single), ("burst", burst)):
        for stack in founding_stacks():
            for order in ORDERS:
                packets, sizes, flights = measured(stack, order)
                more = {"bytes": round(sizes, 1), "flights": round(flights, 2)}
                results.append(
                    Result(
                        system=stack, workload=f"wire, {name}", order=order, size=SIZE, members=MEMBERS,
                        value=round(packets, 2), unit="packets per message", spread=0.0, more=more,
                    )
                )  # fmt: skip
    return results


def piggyback() -> list[Result]:
    """How many messages a data packet carries, and how old they get, on `label` with a little patience."""
    results: list[Result] = []
    for rate in RATES:
        lab = founded("label", 3, Options(of_stacks={"label.lazy_us": LAZY_US}))
        sent_ns: dict[bytes, int] = {}
        for number in range(rate // 10):
            for member in range(3):
                message = payload(3 * number + member)
                sent_ns[message] = lab.now_ns
                lab.step(member, Send(group=GROUP, payloads=[message], level=CAUSAL))
            lab.run(1_000_000_000 // rate)
        lab.run(REST_NS)
        data = lab.tally.unicasts["data"] / 2
        age_us = sum(lab.delivered_at_ns[message] - at_ns for message, at_ns in sent_ns.items()) / len(sent_ns) / 1000
        results.append(
            Result(
                system="label", workload=f"piggyback, {rate} a second", order="causal", size=SIZE, members=3,
                value=round(len(sent_ns) / data, 2), unit="messages per data packet", spread=0.0,
                more={"age_us": round(age_us)},
            )
        )  # fmt: skip
    return results


# ---- throughput, with real processes -------------------------------------------------------------------------------


@asynccontextmanager
async def service() -> AsyncIterator[str]:
    """A process that holds groups, on the stack that needs one; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "sequencer", "--address", address, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        await asyncio.sleep(3)
        yield address
    finally:
        process.terminate()
        await process.wait()


async def rate_of(stack: str, order: str, seconds: float) -> float:
    if stack in founding_stacks():
        async with Members(3, stack=stack) as members:
            return mean_rate(await members.flood(order, SIZE, seconds=seconds))
    async with service() as address, Members(3, stack=stack, contacts=[address]) as members:
        return mean_rate(await members.flood(order, SIZE, seconds=seconds))


async def throughput(arguments: argparse.Namespace) -> list[Result]:
    rates: dict[tuple[str, str], list[float]] = {}
    for repeat in range(arguments.repeats):
        for stack in OFFERS:
            for order in ORDERS:
                progress(f"{stack}, {order}, repeat {repeat + 1}")
                rates.setdefault((stack, order), []).append(await rate_of(stack, order, arguments.seconds))
    results: list[Result] = []
    for (stack, order), values in rates.items():
        value, spread = median_of(values, 0)
        results.append(
            Result(
                system=stack, workload="all send", order=order, size=SIZE, members=3, value=value,
                unit="delivered messages per second and member", spread=spread,
            )
        )  # fmt: skip
    return results


# ---- all -----------------------------------------------------------------------------------------------------------


async def measure(arguments: argparse.Namespace) -> Report:
    everything = not (arguments.wire or arguments.piggyback or arguments.throughput)
    results = wire() if everything or arguments.wire else []
    results += piggyback() if everything or arguments.piggyback else []
    results += await throughput(arguments) if everything or arguments.throughput else []
    rows = [
        (
            one.system, one.workload, one.order, one.value, one.unit, one.more.get("bytes", ""),
            one.more.get("flights", one.more.get("age_us", "")), one.spread,
        )
        for one in results
    ]  # fmt: skip
    head = ("system", "workload", "order", "value", "unit", "bytes", "flights or µs", "spread")
    return Report("stacks", results, table(head, rows))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
