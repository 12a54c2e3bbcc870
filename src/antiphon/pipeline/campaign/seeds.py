"""What an executor does with a chunk of seeds: run each, hold it to its promises, write the outcomes down.

Free of Spark. Memory: one run at a time.
"""

import time
from pathlib import Path
from typing import Final

from antiphon.pipeline.campaign.chunks import Campaign, write_chunk
from antiphon.pipeline.campaign.contract import Simulator
from antiphon.pipeline.campaign.judge import Judgement, SimulatedRun, judge
from antiphon.pipeline.campaign.outcome import Outcome

EXPLANATION_MAX: Final = 2_000
"""Characters of a row's explanation: thousands of broken seeds must not make the table heavy."""


def run_chunk(simulator: Simulator, campaign: Campaign, directory: Path, chunk: int) -> list[Outcome]:
    """Run the seeds of a chunk; its file is there afterwards."""
    outcomes = [outcome_of(simulator, seed) for seed in campaign.seeds_of(chunk)]
    write_chunk(directory, chunk, outcomes)
    return outcomes


def outcome_of(simulator: Simulator, seed: int) -> Outcome:
    """Run and judge one seed."""
    started_ns = time.perf_counter_ns()
    run = simulator.run_seed(seed)
    simulated_ns = time.perf_counter_ns()
    judgement = judge(run)
    audited_ns = time.perf_counter_ns()
    return _outcome(seed, simulator.kind_of(seed), run, judgement, simulated_ns - started_ns, audited_ns - simulated_ns)


def _outcome(
    seed: int, kind: str, run: SimulatedRun, judgement: Judgement, simulation_ns: int, audit_ns: int
) -> Outcome:
    return Outcome(
        seed=seed,
        kind=kind,
        verdict=judgement.verdict,
        broken=judgement.broken,
        unknown=judgement.unknown,
        explanation="; ".join(map(str, judgement.problems))[:EXPLANATION_MAX],
        beyond_resilience=judgement.beyond_resilience,
        events=judgement.events,
        rows=judgement.rows,
        lives=len(run.logs),
        groups=len(run.groups),
        groups_excused=len(run.excused),
        views=judgement.views,
        failures=run.failures,
        delivered_reliable=judgement.delivered["reliable"],
        delivered_fifo=judgement.delivered["fifo"],
        delivered_causal=judgement.delivered["causal"],
        delivered_agreed=judgement.delivered["agreed"],
        delivered_safe=judgement.delivered["safe"],
        delivered_causal_total=judgement.delivered["causal-total"],
        delivered_abcast=judgement.delivered["abcast"],
        virtual_ns=run.time_ns,
        simulation_ns=simulation_ns,
        audit_ns=audit_ns,
        coverage=dict(run.coverage),
    )
