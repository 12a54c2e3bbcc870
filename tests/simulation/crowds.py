"""Many seeds of crowds in one to eight overlapping groups, each held to everything that its start rows promise.

    python -m tests.simulation.crowds --seeds 0:500 --jobs 2

Every fourth seed is a siege (sieges.py), the others are crowds (crowd_draw.py).

After the last fault every group must come to rest. A group that has lost its majority is excused from that, since no
view can follow its last one, and so is a group that causal order makes wait for it. Such a run is audited twice. As it
was, with those who are in these groups stopped early, nothing may be broken. And without these groups, everything must
be kept to the end.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from antiphon._build import describe
from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEFT, QUIET, Row
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN, KEPT
from antiphon.simulator.crowd import Crowd
from tests.simulation.campaign import explain
from tests.simulation.crowd_draw import Drawing, draw_crowd
from tests.simulation.sieges import draw_siege

REST = "rest"
"""Not a guarantee of the history but of the run: after the last fault every group comes to rest."""
REST_NS_MAX = 60_000 * MILLISECOND_NS
"""Virtual time that the groups have to come to rest in."""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    problems: tuple[str, ...]
    groups: int
    excused: int
    """Groups that could not come to rest."""
    beyond: int
    """1 if causal order was broken by more failures at once than the domain's resilience allows for."""
    views: int
    stalls: int
    crashes: int
    exclusions: int
    barriers: int
    private: int
    delivered: tuple[int, ...]
    """By level."""
    simulation_s: float
    audit_s: float


def draw_any(seed: int) -> Drawing:
    """What the campaign makes of this seed."""
    return draw_siege(seed) if seed % 4 == 3 else draw_crowd(seed)


def run_crowd(seed: int, draw: Callable[[int], Drawing] = draw_any) -> Outcome:
    """Simulate and audit one seed."""
    started_s = time.perf_counter()
    drawing = draw(seed)
    crowd = drawing.crowd
    crowd.run_through(drawing.calm_ns)
    crowd.run(drawing.calm_ns + REST_NS_MAX)
    excused = crowd.excused()
    restless = [group for group in crowd.groups() if group not in excused and not crowd.is_at_rest(group)]
    crowd.end()
    simulated_s = time.perf_counter()
    promised = audit_crowd(crowd, excused)
    beyond = is_beyond_resilience(crowd, promised)
    problems = [f"{REST} broken: {group} never came to rest" for group in restless] + ([] if beyond else promised)
    return Outcome(
        seed=seed,
        problems=tuple(problems),
        beyond=int(beyond),
        groups=len(crowd.charters),
        excused=len(excused),
        views=crowd.views,
        stalls=crowd.stalls,
        crashes=crowd.crashes,
        exclusions=crowd.exclusions,
        barriers=crowd.barriers,
        private=crowd.private,
        delivered=tuple(crowd.delivered),
        simulation_s=simulated_s - started_s,
        audit_s=time.perf_counter() - simulated_s,
    )


def is_beyond_resilience(crowd: Crowd, problems: Sequence[str]) -> bool:
    """Whether nothing but causal order is broken, and more members failed than the domain was told to expect. With a
    resilience of k, a message that k + 1 members hold is lost if they all fail; with 0, all hold it."""
    resilience = crowd.domain.resilience
    if not problems or not resilience or crowd.crashes + crowd.exclusions <= resilience:
        return False
    return all(problem.startswith("causal broken") and ";" not in problem for problem in problems)


def audit_crowd(crowd: Crowd, excused: Sequence[str]) -> list[str]:
    """What was promised and not kept."""
    logs = [list(log.rows()) for log in crowd.logs if isinstance(log, MemoryLog)]
    audit = reference.audit([row for rows in logs for row in rows])
    if not excused:
        return [] if audit.verdict == KEPT else [explain(audit)]
    broken = [finding for finding in audit.findings if finding.verdict == BROKEN]
    problems = [explain(replace(audit, findings=tuple(broken)))] if broken else []
    if len(excused) < len(crowd.charters):
        rest = reference.audit([row for rows in logs for row in without_groups(rows, excused)])
        problems += [] if rest.verdict == KEPT else [explain(rest)]
    return problems


def without_groups(rows: Iterable[Row], groups: Sequence[str]) -> Iterator[Row]:
    """One log as it would be if these groups had never been; who stopped on their account was quiet in the others."""
    index = 0
    for row in rows:
        if row.group not in groups:
            stopped = row.kind == "stop" and row.label != LEFT
            yield replace(row, index=index, label=QUIET if stopped else row.label)
            index += 1


def run_seeds(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    if jobs == 1:
        yield from map(run_crowd, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_crowd, seeds, chunksize=8)


_SUMMED = ("groups", "excused", "beyond", "views", "stalls", "crashes", "exclusions", "barriers", "private")


class Figures:
    """What a campaign adds up to."""

    def __init__(self) -> None:
        self._started_s = time.perf_counter()
        self.seeds = self.failed = 0
        self._sums = dict.fromkeys(_SUMMED, 0)
        self._delivered = [0] * len(LEVEL_NAMES)
        self._simulation_s = self._audit_s = 0.0

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.failed += bool(outcome.problems)
        for name in self._sums:
            self._sums[name] += getattr(outcome, name)
        for level, count in enumerate(outcome.delivered):
            self._delivered[level] += count
        self._simulation_s += outcome.simulation_s
        self._audit_s += outcome.audit_s

    def document(self) -> dict[str, object]:
        elapsed_s = time.perf_counter() - self._started_s
        return {
            "build": describe(),
            "seeds": self.seeds,
            "failed": self.failed,
            **self._sums,
            "delivered": dict(zip(LEVEL_NAMES, self._delivered, strict=True)),
            "simulation_s": round(self._simulation_s, 1),
            "audit_s": round(self._audit_s, 1),
            "seeds_per_minute": round(60 * self.seeds / elapsed_s),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:500", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the work")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    figures = Figures()
    for outcome in run_seeds(range(first, last), arguments.jobs):
        figures.add(outcome)
        if outcome.problems:
            print(f"seed {outcome.seed}: {'; '.join(outcome.problems)}", flush=True)
        if figures.seeds % 100 == 0:
            print(f"{figures.seeds} seeds, {figures.failed} failed", file=sys.stderr)
    print(json.dumps(figures.document()))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
