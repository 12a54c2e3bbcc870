"""The gain from commuting operations: a replicated set, and the same set with all operations in agreed order.

    python -m bench.commuting           the table; from the project's root
    python -m bench.commuting --json    one JSON document

Real processes on loopback, MEMBERS copies of one set. A share of the operations, 90% by default, add an
element; the others clear the set. *commuting*: additions are executed as they come, clearings in one order
(psync-1989, 4.3). *agreed*: all operations are executed in the one order of waves (4.2). Both are messages of a
conversation, one for each operation, with the same window; the processes, the set and the code around it are the same.
How each acknowledges can be set for both; the default is what was fastest for it.

Closed loop: every copy has the given number of clients; each calls an operation, waits until it is executed at its own
copy, and calls the next. The value is operations of all clients per second. With few clients that is a matter of
latency: an operation that commutes is executed where it is issued without a round trip. With many clients the
processors are the limit, and it is a matter of what an operation costs all copies.

The two take turns within each repeat; the ratio is of one repeat, and its value the median over the repeats. After each
run all copies must have executed everything and be equal, or nothing is reported.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from antiphon.runtime.workers import Object
from bench.crew import Crew, together
from bench.figures import IncompleteError, Report, Result, median_of, parser, progress, run, table
from bench.set_member import AGREED, COMMUTING, ELEMENT, SYSTEMS

MEMBERS: Final = 3
CLIENTS: Final = (1, 16, 256)
SET_MEMBER: Final = ("-m", "bench.set_member")
ORDERS: Final = {COMMUTING: "commuting", AGREED: "agreed (waves)"}
WARMUP_S: Final = 0.5


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("A replicated set whose additions commute, beside the same in full agreed order, on loopback.")
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--seconds", type=float, default=3.0, help="of each run")
    made.add_argument("--members", type=int, default=MEMBERS)
    made.add_argument("--clients", type=numbers, default=list(CLIENTS), help="of each member, N,M")
    made.add_argument("--share", type=float, default=0.9, help="of operations that commute")
    made.add_argument("--window", type=int, default=128, help="messages of one member that are not stable")
    made.add_argument("--ack-every", type=numbers, default=[16, 1], help="messages, of commuting and of agreed")
    made.add_argument("--ack-delay-ms", type=numbers, default=[5, 0], help="milliseconds, the same")
    return made.parse_args(words)


class Sets(Crew):
    """Copies of one set, in both orders."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(SET_MEMBER, [f"p{rank}" for rank in range(1, arguments.members + 1)])
        self._arguments = arguments
        self._issued = dict.fromkeys(SYSTEMS, 0)

    async def meet(self) -> None:
        addresses = {}
        for rank, worker in enumerate(self.workers):
            bound = await self.one(rank, "bind", name=worker.name)
            addresses[worker.name] = bound["address"]
        others = dict(list(addresses.items())[1:])
        for place, system in enumerate(SYSTEMS):
            manner = {
                "window": self._arguments.window,
                "ack_every": self._arguments.ack_every[place],
                "ack_delay_ms": self._arguments.ack_delay_ms[place],
            }
            await together(
                self.one(rank, "meet", system=system, others={} if rank else others, **manner)
                for rank in range(len(self))
            )

    async def measure(self, system: str, clients: int) -> Object:
        """One run; the rate of all clients, and processor time per operation and member."""
        seconds: float = self._arguments.seconds
        measured = await self.all(
            "run",
            takes_s=WARMUP_S + seconds,
            system=system,
            clients=clients,
            warmup=WARMUP_S,
            seconds=seconds,
            share=self._arguments.share,
        )
        sent = sum(int(member["sent"]) for member in measured)
        self._issued[system] += sent
        finished = await self.all("finish", system=system, operations=self._issued[system])
        if any(member["digest"] != finished[0]["digest"] for member in finished):
            raise IncompleteError(f"the copies of the set differ after a run of {system!r}; that is a mistake")
        rate = sum(float(member["rate"]) for member in measured)
        cpu_us = sum(float(member["cpu_s"]) for member in measured) / sent / len(self) * 1e6
        return {"rate": rate, "cpu_us": cpu_us}


Repeats = dict[tuple[int, str], list[Object]]
"""By clients and system."""


def results_of(repeats: Repeats, arguments: argparse.Namespace) -> list[Result]:
    results = []
    for clients in arguments.clients:
        rates = {system: [float(run["rate"]) for run in repeats[clients, system]] for system in SYSTEMS}
        ratios = [ours / theirs for ours, theirs in zip(rates[COMMUTING], rates[AGREED], strict=True)]
        rows = [(ORDERS[system], rates[system], "operations/s") for system in SYSTEMS]
        for order, values, unit in [*rows, ("commuting / agreed", ratios, "ratio")]:
            value, spread = median_of(values)
            more = {"clients_per_member": clients, "commuting_share": arguments.share}
            for system in SYSTEMS:
                if order == ORDERS[system]:
                    costs = [float(run["cpu_us"]) for run in repeats[clients, system]]
                    more["cpu_us_per_operation_and_member"] = median_of(costs)[0]
            results.append(
                Result(
                    workload=f"replicated set, {clients} clients per member",
                    order=order,
                    size=ELEMENT.size,
                    members=arguments.members,
                    value=value,
                    unit=unit,
                    spread=spread,
                    more=more,
                )
            )
    return results


def words(results: list[Result]) -> str:
    rows = [
        [
            result.order,
            result.more["clients_per_member"],
            f"{result.value:,.2f}" if result.unit == "ratio" else f"{result.value:,.0f}",
            result.unit,
            f"±{result.spread:.0%}",
            result.more.get("cpu_us_per_operation_and_member", ""),
        ]
        for result in results
    ]
    head = ["order", "clients", "median", "", "spread", "CPU µs/operation/member"]
    return table(head, rows) + "\n\nClosed loop; median of the repeats, and (greatest - least) / median of them."


async def measure(arguments: argparse.Namespace) -> Report:
    repeats: Repeats = {(clients, system): [] for clients in arguments.clients for system in SYSTEMS}
    for number in range(1, arguments.repeats + 1):
        async with Sets(arguments) as sets:
            await sets.meet()
            for clients in arguments.clients:
                for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
                    repeats[clients, system].append(await sets.measure(system, clients))
                rates = [repeats[clients, system][-1]["rate"] for system in SYSTEMS]
                progress(
                    f"repeat {number}, {clients} clients: {rates[0]:,.0f} commuting, {rates[1]:,.0f} agreed, "
                    f"ratio {rates[0] / rates[1]:.2f}"
                )
    results = results_of(repeats, arguments)
    return Report("commuting", results, words(results))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
