"""The simulator as a campaign uses it (pipeline/campaign/contract.py), and a digest of the program that runs.

Plain Python: it is pickled and sent to Spark's executors, which import the compiled simulator themselves.
"""

from dataclasses import dataclass
from hashlib import blake2b

from antiphon._build import PACKAGE
from antiphon.pipeline.campaign.contract import Script
from antiphon.pipeline.campaign.judge import SimulatedRun
from antiphon.simulator import script_run, seeds
from antiphon.simulator.coverage import situations_of
from antiphon.simulator.script import script_of
from antiphon.stacks.registry import DEFAULT


@dataclass(frozen=True)
class SimulatedSeeds:
    """The seeds of one workload, on one stack."""

    workload: str
    stack: str = DEFAULT

    def kind_of(self, seed: int) -> str:
        return seeds.kind_of(seed, self.workload)

    def run_seed(self, seed: int) -> SimulatedRun:
        return seeds.run_seed(seed, self.workload, self.stack)

    def script_of(self, seed: int) -> Script:
        return seeds.script_of_seed(seed, self.workload, self.stack).document()

    def run_script(self, script: Script) -> SimulatedRun:
        return script_run.run_script(script_of(script))

    def situations(self) -> tuple[str, ...]:
        return situations_of(self.stack)


def program_digest() -> str:
    """Return a digest of all sources that determine a run and its verdict."""
    digest = blake2b(digest_size=16)
    for part in (
        "kernel",
        "parts",
        "stacks",
        "engine.py",
        "faults.py",
        "recording.py",
        "simulator",
        "history",
        "pipeline",
    ):
        place = PACKAGE / part
        for source in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()
