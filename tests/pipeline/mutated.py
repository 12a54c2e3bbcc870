"""A campaign against a protocol that is broken on purpose: the seeds of simulator/seeds.py, with a mutant planted.

    ANTIPHON_PURE=1 python -m tests.pipeline.mutated 'no delay rule' --workload static --seeds 0:50 --out DIR

Exits as `antiphon campaign` does.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from antiphon.cli.auditing import EXIT_CODES
from antiphon.cli.campaign import conduct
from antiphon.cli.simulated import SimulatedSeeds
from antiphon.pipeline.campaign.chunks import Campaign
from antiphon.pipeline.campaign.contract import Script
from antiphon.pipeline.campaign.judge import SimulatedRun
from tests.mutants.planted import find


@dataclass(frozen=True)
class MutatedSeeds:
    """The seeds of one workload, with the mutant at large in every run."""

    workload: str
    mutant: str

    def kind_of(self, seed: int) -> str:
        return SimulatedSeeds(self.workload).kind_of(seed)

    def run_seed(self, seed: int) -> SimulatedRun:
        with find(self.mutant).at_large():
            return SimulatedSeeds(self.workload).run_seed(seed)

    def script_of(self, seed: int) -> Script:
        with find(self.mutant).at_large():
            return SimulatedSeeds(self.workload).script_of(seed)

    def run_script(self, script: Script) -> SimulatedRun:
        with find(self.mutant).at_large():
            return SimulatedSeeds(self.workload).run_script(script)

    def situations(self) -> tuple[str, ...]:
        return SimulatedSeeds(self.workload).situations()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mutant")
    parser.add_argument("--workload", default="churn")
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=int, default=1)
    parser.add_argument("--shrink-runs", type=int, default=300)
    chosen = parser.parse_args()
    first, end = (int(part) for part in chosen.seeds.split(":"))
    plan = Campaign(
        stack="vector", workload=chosen.workload, first=first, end=end, program=chosen.mutant, chunk_seeds=4
    )  # fmt: skip
    simulator = MutatedSeeds(chosen.workload, chosen.mutant)
    summary = conduct(plan, chosen.out, simulator, master=None, keep=chosen.keep, shrink_runs=chosen.shrink_runs)
    return EXIT_CODES[summary.tally.verdict]


if __name__ == "__main__":
    sys.exit(main())
