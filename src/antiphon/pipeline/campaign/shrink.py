"""Shrinking: from a script whose run breaks a promise to a smaller one whose run breaks the same promise.

Delta debugging over the parts of the script (cuts.py): whole groups, processes, layers of the network, then single
actions and messages. A cut is kept if the run still breaks the promise; halves are tried before quarters, and so on
down to single parts. All kinds of parts are gone through again until none can be spared, or until so many runs were
made.

Many faults are races: take a process out, and the network's dice fall otherwise for all the others. So when no part can
be spared, all are tried once more, each cut also with a few other seeds of chance, and then with more of them: it is
kept if it fails with one.

It is deterministic, since a script decides its run; and what is left is a run like any other, which a protocol without
the fault must get right.
"""

from dataclasses import dataclass
from typing import Final

from antiphon.pipeline.campaign.contract import Script, Simulator
from antiphon.pipeline.campaign.cuts import PARTS, PartsOf, WithParts, size_of
from antiphon.pipeline.campaign.judge import Judgement, SimulatedRun, judge
from antiphon.pipeline.result import BROKEN

RUNS_MAX: Final = 1_000
OTHER_SEEDS: Final = (0, 3, 12)
"""How many other seeds a cut is tried with that does not fail by itself, in each pass."""


@dataclass(frozen=True)
class Shrunk:
    """The smallest failing script that was found."""

    script: Script
    run: SimulatedRun
    judgement: Judgement
    runs: int
    """How many runs it took."""
    is_minimal: bool
    """Whether no single part can be spared; False if the runs were used up before that was known."""


class _Search:
    def __init__(self, simulator: Simulator, guarantee: str, verdict: str, runs_max: int) -> None:
        self._simulator = simulator
        self._guarantee = guarantee
        self._verdict = verdict
        self._runs_max = runs_max
        self.runs = 0
        self.other_seeds = 0
        self.best: tuple[Script, SimulatedRun, Judgement] | None = None

    @property
    def seed(self) -> int:
        """The seed of the best so far."""
        assert self.best is not None
        return int(self.best[0]["seed"])

    @property
    def is_over(self) -> bool:
        return self.runs >= self._runs_max

    def fails(self, script: Script) -> bool:
        """Whether its run breaks the promise, with its own seed or another; then it is the best so far."""
        if self._fails(script):
            return True
        seed = script["seed"]
        others = range(seed + 1, seed + 1 + self.other_seeds)
        return any(not self.is_over and self._fails({**script, "seed": other}) for other in others)

    def _fails(self, script: Script) -> bool:
        self.runs += 1
        run = self._simulator.run_script(script)
        judgement = judge(run)
        if self._guarantee not in judgement.ids(self._verdict):
            return False
        self.best = (script, run, judgement)
        return True


def shrink(
    simulator: Simulator, script: Script, guarantee: str, verdict: str = BROKEN, runs_max: int = RUNS_MAX
) -> Shrunk | None:
    """The smallest script found that still breaks `guarantee`; None if the script itself does not."""
    search = _Search(simulator, guarantee, verdict, runs_max)
    if not search.fails(script) or search.best is None:
        return None
    for others in OTHER_SEEDS:
        search.other_seeds = others
        _reduce_all(search)
    return Shrunk(*search.best, runs=search.runs, is_minimal=not search.is_over)


def _reduce_all(search: _Search) -> None:
    """Take out parts of all kinds until none can be spared."""
    size = 0
    while search.best is not None and size != size_of(search.best[0]) and not search.is_over:
        size = size_of(search.best[0])
        for kind in PARTS:
            _reduce(search, search.best[0], *kind)


def _reduce(search: _Search, script: Script, parts_of: PartsOf, with_parts: WithParts) -> None:
    """Take out as many parts of one kind as can be spared, half of them at first, one by one in the end."""
    kept = parts_of(script)
    size = len(kept)
    while size and not search.is_over:
        start = 0
        while start < len(kept) and not search.is_over:
            some = kept[:start] + kept[start + size :]
            cut = with_parts(script, some)
            if cut is not None and search.fails(cut):
                kept = some
                script = {**script, "seed": search.seed}
            else:
                start += size
        size //= 2
