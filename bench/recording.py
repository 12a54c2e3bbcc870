"""What recording a history costs: causal throughput with a history and without, in turn, and their ratio.

    python -m bench.recording               from the project's root
    python -m bench.recording --json        one JSON document

Each repeat is a pair of runs with new processes, one that records and one that does not; which comes first changes from
pair to pair. The histories are written to a temporary directory. A pair counts only if every log was closed and tells
of every message that was delivered.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from antiphon.history.reader import HistoryFiles
from bench.crew import Members, mean_rate
from bench.figures import IncompleteError, Report, Result, median_of, parser, progress, run, table

SIZE: Final = 64
ORDER: Final = "causal"
UNIT: Final = "delivered messages per second and member"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    made = parser("Causal throughput with a history recorded, against without.")
    made.add_argument("--members", type=int, default=3)
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--seconds", type=float, default=3.0, help="measured time of each run")
    return made.parse_args(words)


async def rate(arguments: argparse.Namespace, histories: str | None) -> float:
    """One run: messages per second, the mean over the members."""
    async with Members(arguments.members, histories=histories) as members:
        flooded = await members.flood(ORDER, SIZE, seconds=arguments.seconds)
        await members.close()
    if histories is not None:
        check(histories, arguments.members, sum(member["sent"] for member in flooded))
    return mean_rate(flooded)


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


async def pair(arguments: argparse.Namespace, recorded_first: bool) -> tuple[float, float]:
    """Rates with and without a history."""
    rates: dict[bool, float] = {}
    for recorded in (recorded_first, not recorded_first):
        if recorded:
            with tempfile.TemporaryDirectory() as directory:
                rates[recorded] = await rate(arguments, directory)
        else:
            rates[recorded] = await rate(arguments, None)
    return rates[True], rates[False]


def results(pairs: list[tuple[float, float]], members: int) -> list[Result]:
    made = []
    for workload, values, unit, digits in (
        ("history recorded", [recorded for recorded, _ in pairs], UNIT, 0),
        ("no history", [plain for _, plain in pairs], UNIT, 0),
        ("history recorded / no history", [recorded / plain for recorded, plain in pairs], "ratio", 3),
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
        recorded, plain = pairs[-1]
        progress(f"pair {number + 1}: {recorded:,.0f} recorded, {plain:,.0f} not, ratio {recorded / plain:.3f}")
    made = results(pairs, arguments.members)
    rows = [[result.workload, result.value, f"±{result.spread:.0%}", result.unit] for result in made]
    return Report("recording", made, table(["", "median", "spread", ""], rows))


def main(words: Sequence[str] | None = None) -> int:
    return run(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main())
