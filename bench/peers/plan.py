"""Which systems under which loads, how often, in what order, and what comes out.

How many messages a run needs is found by trial, for each case, so that a run takes about as long as wanted. Then the
cases take turns, run by run, so that whatever else the machine does hits all alike. The value is the median of the
runs, the spread (greatest - least) / median. One run that fails, or is not complete, and there is no result at all.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.peers.driver import Run, run_once
from bench.peers.system import Load, PeerError, System

TRIAL_COUNT: Final = 2000
TRIAL_SHARE: Final = 0.4
"""A trial that takes less than this share of a run is repeated with more messages."""
TRIALS_MAX: Final = 8
GROWTH_MAX: Final = 16
LIMIT_FACTOR: Final = 20
LIMIT_S_MIN: Final = 60.0
WORKLOAD: Final = "all send, all receive"
UNIT: Final = "messages of others received per second and member"

Say = Callable[[str], None]
Runner = Callable[[System, Load, float], Run]


@dataclass(frozen=True)
class Case:
    """One system under one load."""

    system: System
    size: int
    members: int

    def __str__(self) -> str:
        return f"{self.system.name}, {self.members} members, {self.size:,} bytes"

    def load(self, count: int) -> Load:
        return Load(members=self.members, size=self.size, warmup=max(1, int(count * self.system.warmup)), count=count)


@dataclass(frozen=True)
class Result:
    """What all runs of one case gave."""

    case: Case
    runs: list[Run]

    @property
    def rates(self) -> list[float]:
        return [run.rate for run in self.runs]

    @property
    def value(self) -> float:
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        return (max(self.rates) - min(self.rates)) / self.value

    @property
    def cpu_us(self) -> float:
        return statistics.median(run.cpu_us for run in self.runs)

    def row(self) -> dict[str, Any]:
        return {
            "system": self.case.system.name,
            "version": self.case.system.version(),
            "workload": WORKLOAD,
            "order": self.case.system.order,
            "size": self.case.size,
            "members": self.case.members,
            "value": round(self.value),
            "unit": UNIT,
            "spread": round(self.spread, 3),
            "runs": [round(rate) for rate in self.rates],
            "cpu_us_per_message": round(self.cpu_us, 3),
        }


def ratio(over: Result, under: Result) -> tuple[float, float, float]:
    """The ratio of the medians; and of runs side by side, the least and the greatest."""
    pairs = [above / below for above, below in zip(over.rates, under.rates, strict=True)]
    return over.value / under.value, min(pairs), max(pairs)


def next_count(count: int, seconds: float, wanted_s: float) -> int:
    """So many messages take `seconds`: how many to try next."""
    return max(1, int(count * min(GROWTH_MAX, wanted_s / seconds)))


def calibrate(case: Case, wanted_s: float, run: Runner) -> int:
    """How many messages each member has to send for a run to take about `wanted_s`."""
    count = TRIAL_COUNT
    for _ in range(TRIALS_MAX):
        seconds = run(case.system, case.load(count), limit_s(wanted_s)).seconds
        enough = seconds >= TRIAL_SHARE * wanted_s
        count = next_count(count, seconds, wanted_s)
        if enough:
            return count
    raise PeerError(f"{case}: no number of messages was found that takes {wanted_s} s")


def limit_s(wanted_s: float) -> float:
    return max(LIMIT_S_MIN, LIMIT_FACTOR * wanted_s)


def measure(cases: Sequence[Case], *, repeats: int, wanted_s: float, say: Say, run: Runner = run_once) -> list[Result]:
    """All cases, taking turns. Raises PeerError if any run fails."""
    for case in cases:
        if case.size > case.system.size_max:
            raise PeerError(f"{case}: no message can be longer than {case.system.size_max:,} bytes here; leave it out")
    for system in {case.system.name: case.system for case in cases}.values():
        say(f"preparing {system.name}")
        system.prepare()
    counts: list[int] = []
    for case in cases:
        counts.append(calibrate(case, wanted_s, run))
        say(f"{case}: {counts[-1]:,} messages of each member take about {wanted_s:g} s")
    runs: list[list[Run]] = [[] for _ in cases]
    for turn in range(repeats):
        for case, count, so_far in zip(cases, counts, runs, strict=True):
            so_far.append(run(case.system, case.load(count), limit_s(wanted_s)))
            say(f"run {turn + 1} of {repeats}, {case}: {so_far[-1].rate:,.0f} messages per second and member")
    return [Result(case, so_far) for case, so_far in zip(cases, runs, strict=True)]


def table(results: Sequence[Result]) -> str:
    """For people: the last column is the ratio of the first system to this one, under the same load."""
    first = {(result.case.size, result.case.members): result for result in reversed(results)}
    reference = results[0].case.system.name
    head = f"{'system':26}{'order':8}{'bytes':>7}{'members':>9}{'messages/s':>13}{'spread':>8}{'MB/s':>8}{'µs CPU':>8}"
    lines = [f"{head}  {reference} is times this"]
    for result in results:
        case = result.case
        megabytes = result.value * case.size / 1e6
        times, low, high = ratio(first[case.size, case.members], result)
        lines.append(
            f"{case.system.name:26}{case.system.order:8}{case.size:>7}{case.members:>9}{result.value:>13,.0f}"
            f"{result.spread:>8.0%}{megabytes:>8,.1f}{result.cpu_us:>8.2f}  {times:.2f} ({low:.2f} to {high:.2f})"
        )
    return "\n".join(lines)
