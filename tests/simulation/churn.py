"""Many seeds of churn in one to eight overlapping groups, each held to everything that its start rows promise.

    python -m tests.simulation.churn --seeds 0:500 --jobs 2
    python -m tests.simulation.churn --stack conversation --seeds 0:500
    python -m tests.simulation.churn --links --seeds 0:500

Every fourth seed is adversarial, the others are churn (simulator/seeds.py); with `--links` all are churn with bad
links. pipeline/campaign/judge.py says how they are judged. `antiphon campaign` does the same on Spark.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from antiphon._build import describe
from antiphon.kernel.levels import LEVEL_NAMES
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.link_draw import draw_links
from antiphon.simulator.script import Script
from antiphon.simulator.script_run import run_script
from antiphon.simulator.seeds import draw_churn_workload, on_stack
from antiphon.stacks.registry import DEFAULT, OFFERS


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    problems: tuple[str, ...]
    groups: int
    excused: int
    """Groups that could not become quiet."""
    beyond: int
    """1 if causal order was broken by more failures at once than the domain's resilience allows for."""
    views: int
    failures: int
    """Crashes and exclusions."""
    delivered: tuple[int, ...]
    """By level."""
    simulation_s: float
    audit_s: float


def run_churn(seed: int, draw: Callable[[int], Script] = draw_churn_workload, stack: str = DEFAULT) -> Outcome:
    """Simulate and audit one seed."""
    started_s = time.perf_counter()
    run = run_script(on_stack(draw(seed), stack))
    simulated_s = time.perf_counter()
    judgement = judge(run)
    return Outcome(
        seed=seed,
        problems=tuple(str(problem) for problem in judgement.problems),
        beyond=int(judgement.beyond_resilience),
        groups=len(run.groups),
        excused=len(run.excused),
        views=judgement.views,
        failures=run.failures,
        delivered=tuple(judgement.delivered[level] for level in LEVEL_NAMES),
        simulation_s=simulated_s - started_s,
        audit_s=time.perf_counter() - simulated_s,
    )


def run_seeds(seeds: Iterable[int], jobs: int, stack: str, links: bool) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    run = partial(run_churn, draw=draw_links if links else draw_churn_workload, stack=stack)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, seeds, chunksize=8)


_SUMMED = ("groups", "excused", "beyond", "views", "failures")


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
    parser.add_argument("--stack", default=DEFAULT, choices=list(OFFERS))
    parser.add_argument("--links", action="store_true", help="churn with links that go bad one by one")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    figures = Figures()
    for outcome in run_seeds(range(first, last), arguments.jobs, arguments.stack, arguments.links):
        figures.add(outcome)
        if outcome.problems:
            print(f"seed {outcome.seed}: {'; '.join(outcome.problems)}", flush=True)
        if figures.seeds % 100 == 0:
            print(f"{figures.seeds} seeds, {figures.failed} failed", file=sys.stderr)
    print(json.dumps(figures.document()))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
