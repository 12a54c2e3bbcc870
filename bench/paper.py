"""The tables of isis-1991, section 8, on loopback, beside the paper's own figures; and those of psync-1989.

    python -m bench.paper                     all of them; from the project's root
    python -m bench.paper --of isis-1991      Tables II to V, and the plain remote call
    python -m bench.paper --of psync-1989     Tables I and II (bench/paper_psync.py tells how)
    python -m bench.paper --json              one JSON document

Tables II and III. One member multicasts; the others each answer it alone; it waits for all. Or it sends without waiting
(asynchronous), and the value is the rate at which the slowest destination is handed the messages. In Table III the
sender does not hold the ordering token, as in the paper: the oldest member keeps it, by giving one answer in four at
level agreed. In a stream the token comes to the only sender, as it does in real use; the paper's could not move.

The plain remote call is one request and one answer over TCP, with asyncio; to many, one after the other.

Table IV. Two engines in one process, without network: what each step of a request and its reply takes, at level causal
and, in turn with it, at level fifo. The difference is the cost of causality.

Table V. A 1K request to one other process and its reply, both multicast, by layers. Each layer is the difference of two
round trips, measured in turn: causal, fifo, an echo by asyncio's datagrams, an echo by blocking sockets.

All machines are faster than a SUN 4/60; what can be compared is the shape: each figure as a multiple of that for one
destination, or as a share of the total. But there every destination was a machine of its own, and here all share the
processors of one: what they do at the same time there, they do in turn here.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench import local, paper_psync
from bench.crew import ECHO, Crew, Members
from bench.figures import Report, Result, median_of, parser, progress, run, spread, table
from bench.paper_figures import (
    CALL_MS,
    DESTINATIONS,
    LAYERS_MS,
    LOCAL_US,
    REPLIES_MS,
    SEVEN_CALLS_MS,
    SIZES,
    STREAMS,
    TABLES,
)
from bench.plots import Panel, Series, draw

ISIS: Final = "isis-1991"
PSYNC: Final = "psync-1989"
BLOCK: Final = 100
STREAM_S: Final = 1.0
STREAMED: Final = ("null", "7K")
LAYER_SIZE: Final = "1K"

Key = tuple[str, str, str, int]
"""What was measured: `replies`, `stream` or `calls`; level; size; destinations."""


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("The tables of isis-1991 and of psync-1989 beside ours.")
    made.add_argument("--of", choices=[ISIS, PSYNC], help="the tables of one paper only")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--rounds", type=int, default=300, help="round trips for each figure of Tables II, III and V")
    made.add_argument("--loops", type=int, default=10_000, help="requests and replies for Table IV")
    made.add_argument("--blocks", type=int, default=40, help="blocks of messages for each figure of psync-1989")
    return made.parse_args(words)


@dataclass
class Measured:
    """One value per repeat."""

    values: dict[Key, list[float]] = field(default_factory=dict)
    layers: dict[str, list[float]] = field(default_factory=dict)
    local: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, key: Key, value: float) -> None:
        self.values.setdefault(key, []).append(value)

    def row(self, what: str, level: str, size: str) -> list[float]:
        """Medians, by destinations."""
        return [statistics.median(self.values[what, level, size, count]) for count in DESTINATIONS]


def median_ms(times_ns: list[int]) -> float:
    return statistics.median(times_ns) / 1e6


# ---- Tables II and III ---------------------------------------------------------------------------------------------


async def multicasts(measured: Measured, destinations: int, rounds: int) -> None:
    """All figures for one number of destinations."""
    async with Members(destinations + 1) as members:
        for level in TABLES:
            for size, bytes_ in SIZES.items():
                measured.add(("replies", level, size, destinations), await replies_ms(members, level, bytes_, rounds))
            for size in STREAMED:
                rate = await stream(members, level, SIZES[size])
                value = rate if size == "null" else rate * SIZES[size] / 1024
                measured.add(("stream", level, size, destinations), value)


async def replies_ms(members: Members, level: str, size: int, rounds: int) -> float:
    asker = len(members) - 1
    if asker == 0:
        asked = await members.one(0, "ask_self", count=rounds, size=size, order=level)
        return median_ms(asked["times_ns"])
    for rank in range(asker):
        await members.one(rank, "answer", keep_token=level == "agreed")
    await members.one(asker, "ask", count=BLOCK, size=size, order=level, answers=asker)
    asked = await members.one(asker, "ask", takes_s=rounds / 20, count=rounds, size=size, order=level, answers=asker)
    return median_ms(asked["times_ns"])


async def stream(members: Members, level: str, size: int) -> float:
    """Messages a second at the slowest destination."""
    sender = len(members) - 1
    flooded = await members.flood(level, size, seconds=STREAM_S, senders=[sender])
    return min(float(member["rate"]) for rank, member in enumerate(flooded) if rank != sender or sender == 0)


async def calls(measured: Measured, rounds: int) -> None:
    """Plain remote calls: to one, and null ones to many, one after the other."""
    async with Crew(ECHO, [f"e{rank}" for rank in range(max(DESTINATIONS) + 1)]) as echoes:
        ports = [(await echoes.one(rank, "serve", wire="tcp"))["port"] for rank in range(1, len(echoes))]
        wanted = [(size, 1) for size in SIZES] + [("null", count) for count in DESTINATIONS if count > 1]
        for size, count in wanted:
            called = await echoes.one(
                0,
                "ask",
                takes_s=rounds / 20,
                wire="tcp",
                ports=ports[:count],
                count=rounds,
                size=SIZES[size],
                successive=True,
            )
            measured.add(("calls", "none", size, count), median_ms(called["times_ns"]))


# ---- Table V -------------------------------------------------------------------------------------------------------


async def layers(measured: Measured, rounds: int) -> None:
    """The four round trips, in turn, block by block; what they differ by."""
    size = SIZES[LAYER_SIZE]
    times_ns: dict[str, list[int]] = {"causal": [], "fifo": [], "udp": [], "socket": []}
    async with Members(2) as members, Crew(ECHO, ["e1", "e2"]) as echoes:
        ports = {wire: (await echoes.one(1, "serve", wire=wire))["port"] for wire in ("udp", "socket")}
        for number in range(-(-rounds // BLOCK) + 1):
            taken = {}
            for level in ("causal", "fifo"):
                await members.one(1, "answer", all=level)
                taken[level] = await members.one(0, "ask", count=BLOCK, size=size, order=level, answers=1)
            for wire, port in ports.items():
                taken[wire] = await echoes.one(
                    0, "ask", wire=wire, ports=[port], count=BLOCK, size=size, successive=False
                )
            if number:  # the first is for warming up
                for name, asked in taken.items():
                    times_ns[name] += asked["times_ns"]
    ms = {name: median_ms(taken) for name, taken in times_ns.items()}
    for layer, value in (
        ("causality", ms["causal"] - ms["fifo"]),
        ("the rest of the toolkit", ms["fifo"] - ms["udp"]),
        ("event loop", ms["udp"] - ms["socket"]),
        ("system calls and wire", ms["socket"]),
    ):
        measured.layers.setdefault(layer, []).append(value)


# ---- results -------------------------------------------------------------------------------------------------------


def to_one(values: list[float]) -> list[float]:
    """Each as a multiple of that for one destination; the first is for oneself."""
    return [round(value / values[1], 2) for value in values]


def results(measured: Measured) -> list[Result]:
    made = []
    for (what, level, size, count), values in measured.values.items():
        value, spread_ = median_of(values, 4)
        made.append(
            Result(
                system="tcp remote call" if what == "calls" else "antiphon",
                workload=workload(what, level),
                order=level,
                size=SIZES[size],
                members=count + 1,
                value=value,
                unit="milliseconds" if what != "stream" else "messages/s" if size == "null" else "kilobytes/s",
                spread=spread_,
                more={"paper": paper_figure(what, level, size, count)},
            )
        )
    for step, pairs in measured.local.items():
        causality = statistics.median(causal - fifo for causal, fifo in pairs)
        made.append(
            Result(
                workload=f"table IV, {step}",
                order="causal",
                size=SIZES["null"],
                members=2,
                value=round(statistics.median(causal for causal, _ in pairs), 3),
                unit="microseconds",
                spread=spread([causal for causal, _ in pairs]),
                more={
                    "causality": round(causality, 3),
                    "paper": LOCAL_US[step][0],
                    "paper_causality": LOCAL_US[step][1],
                },
            )
        )
    for layer, values in measured.layers.items():
        value, spread_ = median_of(values, 4)
        made.append(
            Result(
                workload=f"table V, {layer}",
                order="causal",
                size=SIZES[LAYER_SIZE],
                members=2,
                value=value,
                unit="milliseconds",
                spread=spread_,
                more={"paper": LAYERS_MS[layer]},
            )
        )
    return made


def workload(what: str, level: str) -> str:
    if what == "calls":
        return "remote calls, one after the other"
    return f"table {TABLES[level]}, {'all destinations reply' if what == 'replies' else 'asynchronous'}"


def paper_figure(what: str, level: str, size: str, count: int) -> float | None:
    if what == "calls":
        return CALL_MS.get(size) if count == 1 else SEVEN_CALLS_MS if count == max(DESTINATIONS) else None
    return (REPLIES_MS if what == "replies" else STREAMS)[level][size][count]


# ---- words ---------------------------------------------------------------------------------------------------------


def words(measured: Measured) -> str:
    parts = [words_of(measured, level) for level in TABLES]
    parts += [words_of_calls(measured), words_of_local(measured), words_of_layers(measured)]
    return "\n\n".join(parts)


def words_of(measured: Measured, level: str) -> str:
    """One of Tables II and III: figures, the paper's, and both as multiples of those for one destination."""
    rows: list[list[object]] = []
    for what, papers, unit in (("replies", REPLIES_MS, "ms"), ("stream", STREAMS, "")):
        for size, paper in papers[level].items():
            ours = measured.row(what, level, size)
            name = f"{size}, {unit or ('messages/s' if size == 'null' else 'kB/s')}"
            rows += [
                [name, "ours", *(round(value, 3) for value in ours)],
                ["", "paper", *map(float, paper)],
                ["", "shape, ours", *to_one(ours)],
                ["", "shape, paper", *to_one(list(paper))],
            ]
    head = ["", "", "self", *(str(count) for count in DESTINATIONS[1:])]
    title = f"Table {TABLES[level]} ({level}): all destinations reply, then asynchronous; by destinations"
    return f"{title}\n{table(head, rows)}"


def words_of_calls(measured: Measured) -> str:
    def call(size: str, count: int) -> float:
        return statistics.median(measured.values["calls", "none", size, count])

    rows: list[list[object]] = []
    for size in CALL_MS:
        multicast = measured.row("replies", "causal", size)[1]
        paper = REPLIES_MS["causal"][size][1]
        rows.append(
            [f"{size}, one destination", multicast, call(size, 1), multicast / call(size, 1), paper / CALL_MS[size]]
        )
    seven = measured.row("replies", "causal", "null")[7]
    paper = REPLIES_MS["causal"]["null"][7] / SEVEN_CALLS_MS
    rows.append(["null, seven destinations", seven, call("null", 7), seven / call("null", 7), paper])
    head = ["", "multicast, ms", "calls, ms", "ratio", "ratio, paper"]
    return f"Causal multicast with replies beside plain remote calls (TCP)\n{table(head, rows)}"


def words_of_local(measured: Measured) -> str:
    rows: list[list[object]] = []
    for step, pairs in measured.local.items():
        total = statistics.median(causal for causal, _ in pairs)
        causality = statistics.median(causal - fifo for causal, fifo in pairs)
        rows.append([step, total, causality, causality / total, *map(float, LOCAL_US[step])])
    sums = [sum(float(str(row[column])) for row in rows) for column in (1, 2, 4, 5)]
    rows.append(["total", sums[0], sums[1], sums[1] / sums[0], sums[2], sums[3]])
    head = ["", "total, µs", "causality, µs", "share", "paper: total, µs", "causality, µs"]
    return f"Table IV: a null request and its reply in one process, without network\n{table(head, rows)}"


def words_of_layers(measured: Measured) -> str:
    ours = {layer: statistics.median(values) for layer, values in measured.layers.items()}
    total, paper_total = sum(ours.values()), sum(LAYERS_MS.values())
    rows: list[list[object]] = [
        [layer, value, f"{value / total:.0%}", LAYERS_MS[layer], f"{LAYERS_MS[layer] / paper_total:.0%}"]
        for layer, value in ours.items()
    ]
    rows.append(["total", total, "", paper_total, ""])
    head = ["", "ms", "share", "paper, ms", "share"]
    return f"Table V: a 1K causal request to another process and its reply, by layers\n{table(head, rows)}"


def plot(measured: Measured) -> str:
    """Cost by destinations, ours and the paper's, each as a multiple of that for one."""
    panels = []
    xs = list(DESTINATIONS[1:])
    for level in TABLES:
        for size in SIZES:
            series = [
                Series("ours", xs, to_one(measured.row("replies", level, size))[1:]),
                Series("isis-1991", xs, to_one(list(REPLIES_MS[level][size]))[1:]),
            ]
            panels.append(Panel(f"{level}, {size}, all reply", "destinations", series))
    return draw("Round trip, as a multiple of that to one destination", panels)


async def measure(arguments: argparse.Namespace) -> Report:
    """Both papers, or the one that was chosen."""
    reports = []
    if arguments.of != PSYNC:
        reports.append(await measure_isis(arguments))
    if arguments.of != ISIS:
        reports.append(await paper_psync.measure(arguments))
    if len(reports) == 1:
        return reports[0]
    first, second = reports
    words = f"{first.words}\n\n{PSYNC}\n\n{second.words}"
    return Report("paper", first.results + second.results, words, first.pictures | second.pictures)


async def measure_isis(arguments: argparse.Namespace) -> Report:
    measured = Measured()
    for number in range(1, arguments.repeats + 1):
        for count in DESTINATIONS:
            progress(f"repeat {number} of {arguments.repeats}: {count or 'no'} destinations")
            await multicasts(measured, count, arguments.rounds)
        await calls(measured, arguments.rounds)
        await layers(measured, arguments.rounds)
        for step, pair in local.steps_us(arguments.loops).items():
            measured.local.setdefault(step, []).append(pair)
    return Report("paper", results(measured), words(measured), {"paper": plot(measured)})


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
