"""What a campaign needs of a simulator, which this package may not import: it is handed in by whoever starts one.

An implementation is pickled and sent to Spark's executors: plain Python, of a module that they can import too.
"""

from typing import Any, Protocol

from antiphon.pipeline.campaign.judge import SimulatedRun

Script = dict[str, Any]
"""A run spelled out as plain JSON values, as simulator/script.py describes them."""


class Simulator(Protocol):
    """Makes runs of seeds, and of scripts."""

    def kind_of(self, seed: int) -> str:
        """In one word, what sort of run the seed is."""
        ...

    def run_seed(self, seed: int) -> SimulatedRun: ...

    def script_of(self, seed: int) -> Script:
        """The seed's run spelled out."""
        ...

    def run_script(self, script: Script) -> SimulatedRun: ...

    def situations(self) -> tuple[str, ...]:
        """All that a run's coverage may name."""
        ...
