"""The tables of psync-1989, section 6, on loopback, beside the paper's own figures.

    python -m bench.paper_psync              Tables I and II, from the project's root
    python -m bench.paper_psync --json       one JSON document
    python -m bench.paper_psync --losses     Table II also with packets lost; as root, with `ip` and `nft`

Table I. Two processes, one byte each way: a round trip by plain datagrams, by a request and its reply over them, by a
conversation, and by a circuit (TCP).

Table II. A token goes round 2, 4, 6 and 8 processes; whoever has it sends it to all others. By a conversation that
sends to every host by itself, and by circuits, one between each two processes. The figure is the time from one message
to the next.

The paper's Ethernet lost packets as it filled up: none to speak of with 2 and 4 hosts, one in 1,000 with 6, one in 150
with 8. TCP waits for a timer then; a conversation asks as soon as something comes that was sent in the context of what
is missing. With `--losses` the loopback of a namespace loses as much. Then the figure is the mean of all messages, as
in the paper: what a loss costs is rare and long.

All wires are used by the same program in the same kind of event loop (bench/talking.py), in turns, block by block, in
one run; the figure is the median of the blocks' means. Processor time is that of all processes together, per message:
it shows what a wire costs apart from the waiting, and is less disturbed by what else the machine does.

The paper's protocols all ran in the kernel of two Sun 3/75s, over a 10 Mbit Ethernet. Here datagrams and circuits are
the kernel's and the conversation is a program's, in Python, and there is no wire at all, so the share of its own work
in the whole is larger; and all processes share the processors of one machine, where the paper's had one each. What can
be compared is the shape.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from antiphon.kernel.errors import UsageError
from bench.crew import Crew, together
from bench.figures import Report, Result, parser, progress, run, spread, table
from bench.loss import losing
from bench.plots import Panel, Series, draw
from tests.networks.network import missing

TALKING: Final = ("-m", "bench.talking")
WIRES: Final = {"udp": "UDP", "rpc": "request and reply", "talk": "conversation", "tcp": "TCP"}
ROUND_TRIP_MS: Final = {"udp": 2.9, "rpc": 3.4, "talk": 4.0, "tcp": 4.6}
"""Table I of the paper."""
HOSTS: Final = (2, 4, 6, 8)
TOKEN_MS: Final = {"talk": (2.0, 3.0, 3.8, 4.5), "tcp": (2.3, 3.6, 4.8, 7.0)}
"""Table II of the paper."""
LOST_ONE_IN: Final = {2: 0, 4: 0, 6: 1000, 8: 150}
"""In the paper's second experiment, by hosts."""
BLOCK: Final = 240
"""Messages; a multiple of all numbers of hosts, so that every block begins with process 0."""


@dataclass
class Passed:
    """Microseconds a message, one value per block."""

    lossy: bool = False
    elapsed_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    cpu_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    repairs: dict[tuple[str, int], int] = field(default_factory=dict)
    """Packets that asked for something or brought it again, of all processes and blocks."""

    def elapsed(self, wire: str, hosts: int) -> float:
        return self._middle(self.elapsed_us[wire, hosts])

    def cpu(self, wire: str, hosts: int) -> float:
        return self._middle(self.cpu_us[wire, hosts])

    def _middle(self, values: list[float]) -> float:
        return statistics.mean(values) if self.lossy else statistics.median(values)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Tables I and II of psync-1989 beside ours.")
    made.add_argument("--blocks", type=int, default=40, help=f"blocks of {BLOCK} messages for each figure")
    made.add_argument("--losses", action="store_true", help="Table II also with packets lost as in the paper; as root")
    return made.parse_args(words)


async def pass_token(passed: Passed, hosts: int, blocks: int) -> None:
    """All figures for one number of processes."""
    wires = list(WIRES) if hosts == 2 and not passed.lossy else ["talk", "tcp"]
    async with Crew(TALKING, [f"p{rank}" for rank in range(hosts)]) as crew:
        bound = await together(crew.one(rank, "bind", name=f"p{rank}") for rank in range(hosts))
        places = [report["places"] for report in bound]
        for what in ("connect", "open"):
            await together(crew.one(rank, what, me=rank, places=places) for rank in range(hosts))
        for number in range(blocks + 1):
            for wire in wires:
                reports = await together(
                    crew.one(rank, "pass", takes_s=BLOCK / 10, wire=wire, me=rank, members=hosts, count=BLOCK)
                    for rank in range(hosts)
                )
                passed.repairs[wire, hosts] = sum(int(report["repairs"]) for report in reports)
                if number:  # the first block is for warming up
                    measured = BLOCK - hosts
                    elapsed_ns = float(reports[0]["elapsed_ns"])
                    cpu_ns = sum(float(report["cpu_ns"]) for report in reports)
                    passed.elapsed_us.setdefault((wire, hosts), []).append(elapsed_ns / measured / 1e3)
                    passed.cpu_us.setdefault((wire, hosts), []).append(cpu_ns / measured / 1e3)


def results(passed: Passed) -> list[Result]:
    made = []
    for wire, hosts in passed.elapsed_us:
        if hosts == 2 and not passed.lossy:
            made.append(result(passed, wire, hosts, "table I, round trip", 2, ROUND_TRIP_MS[wire]))
        if wire in TOKEN_MS:
            workload = "table II, token, packets lost" if passed.lossy else "table II, token"
            made.append(result(passed, wire, hosts, workload, 1, TOKEN_MS[wire][HOSTS.index(hosts)]))
    return made


def result(passed: Passed, wire: str, hosts: int, workload: str, messages: int, paper_ms: float) -> Result:
    return Result(
        system="antiphon" if wire == "talk" else WIRES[wire],
        workload=workload,
        order="causal" if wire == "talk" else "fifo" if wire == "tcp" else "none",
        size=1,
        members=hosts,
        value=round(messages * passed.elapsed(wire, hosts), 1),
        unit="microseconds",
        spread=spread(passed.elapsed_us[wire, hosts]),
        more={
            "cpu_us": round(messages * passed.cpu(wire, hosts), 1),
            "paper_ms": paper_ms,
            "repairs": passed.repairs[wire, hosts],
        },
    )


def words(passed: Passed) -> str:
    return words_of_tokens(passed) if passed.lossy else f"{words_of_trips(passed)}\n\n{words_of_tokens(passed)}"


def words_of_trips(passed: Passed) -> str:
    udp = passed.elapsed("udp", 2)
    rows: list[list[object]] = [
        [
            name,
            2 * passed.elapsed(wire, 2),
            2 * passed.cpu(wire, 2),
            ROUND_TRIP_MS[wire],
            round(passed.elapsed(wire, 2) / udp, 2),
            round(ROUND_TRIP_MS[wire] / ROUND_TRIP_MS["udp"], 2),
        ]
        for wire, name in WIRES.items()
    ]
    head = ["", "µs", "processor, µs", "paper, ms", "to UDP", "to UDP, paper"]
    return f"Table I: round trip of one byte between two processes\n{table(head, rows)}"


def words_of_tokens(passed: Passed) -> str:
    rows: list[list[object]] = []
    for hosts in HOSTS:
        place = HOSTS.index(hosts)
        row: list[object] = [str(hosts)]
        for wire in TOKEN_MS:
            row += [passed.elapsed(wire, hosts), passed.cpu(wire, hosts), TOKEN_MS[wire][place]]
        ratio = passed.elapsed("talk", hosts) / passed.elapsed("tcp", hosts)
        rows.append([*row, round(ratio, 2), round(TOKEN_MS["talk"][place] / TOKEN_MS["tcp"][place], 2)])
    growth: list[object] = ["8 to 2"]
    for wire in TOKEN_MS:
        grown = passed.elapsed(wire, HOSTS[-1]) / passed.elapsed(wire, HOSTS[0])
        cpu = passed.cpu(wire, HOSTS[-1]) / passed.cpu(wire, HOSTS[0])
        growth += [f"{grown:.2f}x", f"{cpu:.2f}x", f"{TOKEN_MS[wire][-1] / TOKEN_MS[wire][0]:.2f}x"]
    head = [
        "hosts",
        "conversation, µs",
        "processor",
        "paper, ms",
        "TCP, µs",
        "processor",
        "paper, ms",
        "ratio",
        "paper",
    ]
    repairs = ", ".join(f"{passed.repairs['talk', hosts]:,} with {hosts}" for hosts in HOSTS)
    lost = ", ".join(f"1 in {every} with {hosts}" for hosts, every in LOST_ONE_IN.items() if every)
    title = "Table II: from one message of the token to the next"
    title += f"; lost are {lost}" if passed.lossy else ""
    return f"{title}\n{table(head, [*rows, [*growth, '', '']])}\nrequests, and messages sent again: {repairs} processes"


def plot(passed: Passed) -> str:
    """Both tables' growth with the hosts, ours and the paper's, each as a multiple of its own for two hosts."""
    panels = []
    for wire in TOKEN_MS:
        ours = [round(passed.elapsed(wire, hosts) / passed.elapsed(wire, 2), 2) for hosts in HOSTS]
        paper = [round(value / TOKEN_MS[wire][0], 2) for value in TOKEN_MS[wire]]
        panels.append(
            Panel(
                f"{WIRES[wire]}: token",
                "processes",
                [Series("ours", list(HOSTS), ours), Series("psync-1989", list(HOSTS), paper)],
            )
        )
    return draw("Time from message to message, as a multiple of that of two processes", panels)


async def measure(arguments: argparse.Namespace) -> Report:
    if arguments.losses and (why := missing()) is not None:
        raise UsageError(f"--losses cannot be had: {why}")
    passed, lossy = Passed(), Passed(lossy=True)
    for hosts in HOSTS:
        progress(f"{hosts} processes")
        await pass_token(passed, hosts, arguments.blocks)
    for hosts in HOSTS if arguments.losses else ():
        progress(f"{hosts} processes, packets lost")
        with losing(LOST_ONE_IN[hosts]):
            await pass_token(lossy, hosts, arguments.blocks)
    pictures = {"paper-psync": plot(passed)}
    told = words(passed)
    if arguments.losses:
        pictures["paper-psync-losses"] = plot(lossy)
        told += f"\n\n{words(lossy)}"
    return Report("paper_psync", results(passed) + results(lossy), told, pictures)


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
