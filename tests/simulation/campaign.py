"""Many seeds, each a simulated run, audited in-process by the reference auditor.

    python -m tests.simulation.campaign --seeds 0:2000

A failing seed is printed with what broke and how to run it again. The exit code is 1 if any failed.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from antiphon._build import describe
from antiphon.history.log import MemoryLog
from antiphon.pipeline import reference
from antiphon.pipeline.result import KEPT, Audit
from antiphon.simulator.draw import draw
from antiphon.simulator.run import SimulationOptions, simulate


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    verdict: str
    explanation: str
    delivered: int
    simulation_s: float
    audit_s: float


def make_logs(options: SimulationOptions) -> list[MemoryLog]:
    """Empty logs for the processes of a run."""
    return [MemoryLog(run=f"seed-{options.seed}", process=name) for name in options.process_names()]


def explain(audit: Audit) -> str:
    """What was not kept, in words."""
    return "; ".join(
        f"{finding.guarantee} {finding.verdict} ({finding.violations}): "
        f"{finding.example.text if finding.example else finding.reason}"
        for finding in audit.findings
        if finding.verdict != KEPT
    )


def run_seed(seed: int) -> Outcome:
    """Simulate and audit one seed."""
    options = draw(seed)
    logs = make_logs(options)
    started_s = time.perf_counter()
    result = simulate(options, logs)
    simulated_s = time.perf_counter()
    audit = reference.audit(logs)
    audited_s = time.perf_counter()
    verdict, explanation = audit.verdict, explain(audit)
    if not result.quiet and verdict == KEPT:
        verdict, explanation = "unquiet", "everything is delivered, but not everybody knows that it is stable"
    return Outcome(
        seed, verdict, explanation, result.delivered, simulated_s - started_s, audited_s - simulated_s
    )  # fmt: skip


def run_seeds(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """The outcomes, in order of the seeds."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:2000", help="from:to, the last one excluded")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the work")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    failed = delivered = done = 0
    simulation_s = audit_s = 0.0
    for outcome in run_seeds(range(first, last), arguments.jobs):
        done += 1
        delivered += outcome.delivered
        simulation_s += outcome.simulation_s
        audit_s += outcome.audit_s
        if outcome.verdict != KEPT:
            failed += 1
            print(f"seed {outcome.seed}: {outcome.verdict}: {outcome.explanation}")
        if done % 100 == 0:
            print(f"{done} seeds, {failed} failed", file=sys.stderr)
    figures = {
        "build": describe(),
        "seeds": done,
        "failed": failed,
        "delivered": delivered,
        "simulated_deliveries_per_s": round(delivered / simulation_s) if simulation_s else 0,
        "simulation_s": round(simulation_s, 1),
        "audit_s": round(audit_s, 1),
    }
    print(json.dumps(figures))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
