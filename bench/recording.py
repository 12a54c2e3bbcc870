"""What recording a history costs: causal throughput with a history and without, in turn, and their ratio.

    python -m bench.recording               from the project's root
    python -m bench.recording --json        one JSON document

Each repeat is a pair of runs with new processes, one that records and one that does not; which comes first changes from
pair to pair. The histories are written to a temporary directory. A pair counts only if every log was closed and tells
of every message that was delivered.

Beside the rates stands the processor time that a member spends on a message, its threads included. Where every core has
a member to run, one is the inverse of the other; where others use the cores too, the processor time tells more.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Final, NamedTuple

from antiphon.history.reader import HistoryFiles
from bench.crew import Members, mean_rate
from bench.figures import IncompleteError, Report, Result, median_of, parser, progress, run, table

SIZE: Final = 64
ORDER: Final = "causal"
UNIT: Final = "delivered messages per second and member"


class Pair(NamedTuple):
    """What two runs have measured, one with a history and one without."""

    recorded_rate: float
    recorded_cpu_s: float
    plain_rate: float
    plain_cpu_s: float


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Causal throughput with a history recorded, against without.")
    made.add_argument("--members", type=int, default=3)
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--seconds", type=float, default=3.0, help="measured time of each run")
    return made.parse_args(words)


async def measure_one(arguments: argparse.Namespace, histories: str | None) -> tuple[float, float]:
    """One run: messages per second, and seconds of a processor per message, the means over the members."""
    async with Members(arguments.members, histories=histories) as members:
        flooded = await members.flood(ORDER, SIZE, seconds=arguments.seconds)
        await members.close()
    if histories is not None:
        check(histories, arguments.members, sum(member["sent"] for member in flooded))
    return mean_rate(flooded), statistics.mean([float(member["cpu_s"]) for member in flooded])


def check(directory: str, members: int, messages: int) -> None:
    """Refuse histories that do not tell of everything."""
    history = HistoryFiles.open(directory)
    counts: dict[str, int] = {}
    for part in history.tables():
        for row in part.select(["process", "kind", "count"]).to_pylist():
            if row["kind"] == "deliver":
                counts[row["process"]] = counts.get(row["process"], 0) + row["count"]
    if history.unfinished() or len(counts) != members or set(counts.values()) != {messages}:
        raise IncompleteError(f"{messages} messages were sent, and the histories tell of {counts or 'none'}")


async def pair(arguments: argparse.Namespace, recorded_first: bool) -> Pair:
    """A run with a history and one without."""
    found: dict[bool, tuple[float, float]] = {}
    for recorded in (recorded_first, not recorded_first):
        if recorded:
            with tempfile.TemporaryDirectory() as directory:
                found[recorded] = await measure_one(arguments, directory)
        else:
            found[recorded] = await measure_one(arguments, None)
    return Pair(*found[True], *found[False])


def results(pairs: list[Pair], members: int) -> list[Result]:
    made = []
    for workload, values, unit, digits in (
        ("history recorded", [pair.recorded_rate for pair in pairs], UNIT, 0),
        ("no history", [pair.plain_rate for pair in pairs], UNIT, 0),
        ("history recorded / no history", [pair.recorded_rate / pair.plain_rate for pair in pairs], "ratio", 3),
        (
            "processor time, no history / recorded",
            [pair.plain_cpu_s / pair.recorded_cpu_s for pair in pairs],
            "ratio",
            3,
        ),
    ):
        value, spread = median_of(values, digits)
        made.append(
            Result(workload=workload, order=ORDER, size=SIZE, members=members, value=value, unit=unit, spread=spread)
        )
    return made


async def measure(arguments: argparse.Namespace) -> Report:
    pairs = []
    for number in range(arguments.repeats):
        pairs.append(await pair(arguments, number % 2 == 0))
        rates = pairs[-1].recorded_rate / pairs[-1].plain_rate
        times = pairs[-1].plain_cpu_s / pairs[-1].recorded_cpu_s
        progress(f"pair {number + 1}: recorded, the rate is {rates:.3f} of that without, by processor time {times:.3f}")
    made = results(pairs, arguments.members)
    rows = [[result.workload, result.value, f"±{result.spread:.0%}", result.unit] for result in made]
    return Report("recording", made, table(["", "median", "spread", ""], rows))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
