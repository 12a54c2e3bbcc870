"""Two checkouts in one run: the cost of a change, separated from other load on the machine.

    python -m bench.side_by_side --old ../before --new .              everything
    python -m bench.side_by_side --old ../before --new . --only rates --repeats 12

Both checkouts have to be compiled (`make compile`). Members and steps are those of this checkout's bench, with the
Antiphon of one checkout or the other, and both take turns, run by run. Every figure is told as new over old: the
geometric mean of the ratios of runs that stand side by side, and its 95 % confidence interval (Student's t on the
logarithms). Instructions and allocations are counted by valgrind, as the difference between two numbers of messages, so
that what it takes to start does not count; they are the same each time, and have no interval.

--at-least R ends with status 1 unless the lower end of each interval of throughput is R or more.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.peers.ours import antiphon
from bench.peers.plan import Case, Result, measure
from bench.peers.system import ROOT, PeerError, System

RATES: Final = (("causal", 64), ("agreed", 64), ("causal", 16384))
"""Order and payload bytes; three members, all of which send and read."""
MEMBERS: Final = 3
COUNTED_MESSAGES: Final = (1600, 4800)
PARTS: Final = ("rates", "steps", "counts")
STUDENT_95: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Two-sided quantiles of Student's t by degrees of freedom, from 1; above the last, the last is on the safe side."""
TOOLS: Final = {
    "instructions per message": (["--tool=callgrind", "--callgrind-out-file=/dev/null"], r"Collected : (\d+)"),
    "allocations per message": (["--tool=memcheck", "--undef-value-errors=no"], r"total heap usage: ([\d,]+) allocs"),
}


@dataclass(frozen=True)
class Compared:
    """One figure of both checkouts."""

    what: str
    old: float
    new: float
    ratio: float
    low: float
    high: float
    runs: int

    def line(self) -> str:
        interval = f"[{self.low:.3f}, {self.high:.3f}]" if self.runs > 1 else "exact"
        return f"{self.what:44}{self.old:>14,.0f}{self.new:>14,.0f}{self.ratio:>9.3f}  {interval}"


def compare(what: str, old: Sequence[float], new: Sequence[float]) -> Compared:
    """New over old: geometric mean of the ratios of neighbours, and its 95 % confidence interval."""
    logs = [math.log(after / before) for before, after in zip(old, new, strict=True)]
    middle = statistics.mean(logs)
    half = 0.0
    if len(logs) > 1:
        quantile = STUDENT_95[min(len(logs) - 1, len(STUDENT_95)) - 1]
        half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return Compared(
        what,
        statistics.median(old),
        statistics.median(new),
        math.exp(middle),
        math.exp(middle - half),
        math.exp(middle + half),
        len(logs),
    )


def variables(tree: Path) -> dict[str, str]:
    """What lets a process find the Antiphon of a checkout, and this bench."""
    return {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT))), "ANTIPHON_PURE": ""}


def describe(tree: Path) -> str:
    """Which build a checkout has. Raises PeerError unless it is compiled, and not stale."""
    ask = "import antiphon; from antiphon import _build; print(antiphon.__file__, _build.describe(), sep='\\n')"
    told = python(tree, "-c", ask).splitlines()
    if not Path(told[0]).is_relative_to(tree):
        raise PeerError(f"{tree} has no Antiphon in src: {told[0]} was found instead")
    if told[1] != "compiled":
        raise PeerError(f"{tree} is {told[1]}; run `make compile` there")
    return told[1]


def python(tree: Path, *arguments: str, before: Sequence[str] = ()) -> str:
    """Run Python with the Antiphon of a checkout; what it said, on both outputs if something runs around it."""
    done = subprocess.run(
        [*before, sys.executable, *arguments],
        env={**os.environ, **variables(tree), "PYTHONHASHSEED": "0", **({"PYTHONMALLOC": "malloc"} if before else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if before else None,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerError(f"with the Antiphon of {tree}, {' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout


def system_of(name: str, tree: Path, order: str) -> System:
    """Members with the Antiphon of a checkout."""
    system = antiphon(order)
    settings = [f"{variable}={value}" for variable, value in variables(tree).items()]
    return replace(system, name=f"{name}-{order}", command=lambda: ["env", *settings, *system.command()])


def rates(old: Path, new: Path, repeats: int, seconds: float) -> list[Compared]:
    """Messages per second of real processes on loopback."""
    cases = [
        Case(system_of(name, tree, order), size, MEMBERS)
        for order, size in RATES
        for name, tree in (("old", old), ("new", new))
    ]
    results: list[Result] = measure(cases, repeats=repeats, wanted_s=seconds, say=say)
    return [
        compare(f"messages per second, {order}, {size:,} bytes", results[place].rates, results[place + 1].rates)
        for place, (order, size) in zip(range(0, len(results), 2), RATES, strict=True)
    ]


def steps(old: Path, new: Path, repeats: int) -> list[Compared]:
    """Nanoseconds of single steps of the engine."""
    runs: dict[Path, list[dict[str, float]]] = {old: [], new: []}
    for turn in range(repeats):
        for tree, so_far in runs.items():
            so_far.append(json.loads(python(tree, "-m", "bench.steps")))
        say(f"steps, turn {turn + 1} of {repeats}")
    return [
        compare(f"ns for {what}", [run[what] for run in runs[old]], [run[what] for run in runs[new]])
        for what in runs[old][0]
    ]


def counts(old: Path, new: Path) -> list[Compared]:
    """Instructions and allocations for one message, sent and received."""
    compared = []
    for what, (options, pattern) in TOOLS.items():
        found = []
        for tree in (old, new):
            say(f"{what}: {tree}")
            few, many = (counted(tree, options, pattern, messages) for messages in COUNTED_MESSAGES)
            found.append((many - few) / (COUNTED_MESSAGES[1] - COUNTED_MESSAGES[0]))
        compared.append(compare(what, found[:1], found[1:]))
    return compared


def counted(tree: Path, options: list[str], pattern: str, messages: int) -> int:
    """What valgrind counts in a run with so many messages."""
    said = python(tree, "-m", "bench.steps", "--messages", str(messages), before=["valgrind", *options])
    match = re.search(pattern, said)
    if match is None:
        raise PeerError(f"valgrind did not say what it counted: {said[-300:]}")
    return int(match[1].replace(",", ""))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench side_by_side", description="Two checkouts, in turns.")
    parser.add_argument("--old", type=Path, required=True, metavar="DIR", help="the compiled checkout to compare with")
    parser.add_argument("--new", type=Path, default=ROOT, metavar="DIR", help="the compiled checkout to judge (this)")
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out the other parts; more than once")
    parser.add_argument("--repeats", type=int, default=8, help="turns of each (8)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a run of throughput (2)")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="R", help="what throughput has to reach")
    arguments = parser.parse_args(argv)
    old, new, parts = arguments.old.resolve(), arguments.new.resolve(), arguments.only or PARTS
    try:
        for tree in (old, new):
            say(f"{tree}: {describe(tree)}")
        if "counts" in parts and shutil.which("valgrind") is None:
            raise PeerError("counting needs valgrind (Debian: apt-get install valgrind); or choose --only rates, steps")
        measured = rates(old, new, arguments.repeats, arguments.seconds) if "rates" in parts else []
        others = steps(old, new, arguments.repeats) if "steps" in parts else []
        others += counts(old, new) if "counts" in parts else []
    except PeerError as error:
        sys.exit(f"no result: {error}")
    print(f"{'':44}{'old':>14}{'new':>14}{'new/old':>9}  95 % interval")
    for one in (*measured, *others):
        print(one.line())
    slow = [one.what for one in measured if one.low < arguments.at_least]
    if slow:
        sys.exit(f"below {arguments.at_least} of before, by the lower end of the interval: {'; '.join(slow)}")


if __name__ == "__main__":
    main()
