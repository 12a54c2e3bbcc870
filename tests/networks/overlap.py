"""Two overlapping groups of one causality domain on a network that fails in two ways at a time.

    python -m tests.networks.overlap        100 cycles, as root: its figures as JSON, audited on Spark

In each cycle two faults overlap: a deaf host, a mute one, a link that works one way or not at all, a partition, a
stopped process, a process killed and started again at once under its name, a process killed while it joins. Then the
network heals, and all processes must be in one view of each group before the next cycle. Processes take their
incarnations from the clock and come back by themselves after an exclusion. The two faults of a cycle take at most two
processes out of a group: exclusion from one group ends a process in both, so three in one cycle could cost a group its
majority, and it would stall for good, as it must.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.networks.network import Network, missing
from tests.networks.scenario import BOUNDED, timed
from tests.networks.trial import Trial

GROUPS: Final = {"left": (1, 2, 3, 4, 5), "right": (7, 6, 5, 4, 3)}
"""Each is founded by its first host; a host that comes back later must never found a second group of that name."""
NEVER_S: Final = 1e6
HOSTS: Final = 7
SEED: Final = 1991
KILLS: Final = ("restart", "kill_in_join")


@dataclass(frozen=True, kw_only=True)
class OverlapScale:
    """How much of everything."""

    cycles: int
    rate: float
    """Messages per second, of all together."""
    loss_percent: int
    hold_s: float
    """How long the faults of a cycle last."""
    limit_s: float
    """For any one wait; reached only if something is wrong."""


FULL: Final = OverlapScale(cycles=100, rate=300.0, loss_percent=3, hold_s=4.0, limit_s=120.0)
SMALL: Final = OverlapScale(cycles=3, rate=100.0, loss_percent=3, hold_s=3.5, limit_s=60.0)


@dataclass(kw_only=True)
class OverlapFigures:
    """What came of it."""

    formed_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    healed_s: list[float] = field(default_factory=list)
    """From the end of each cycle's faults until all were in one view of each group."""
    excluded: int = 0
    """How many times a process that ran to the end was told that the others went on without it."""


class Faults:
    """The faults of one trial, by name; each begins at once, and `end` ends all of them."""

    def __init__(self, trial: Trial, random: Random) -> None:
        self._trial = trial
        self._random = random
        self._stopped: list[int] = []
        self._down: list[int] = []
        self._names = ("deaf", "mute", "one_way", "cut", "part", "stop", *KILLS)

    def draw(self) -> tuple[str, str]:
        """Two different faults, of which at most one kills."""
        first = self._random.choice(self._names)
        others = [name for name in self._names if name != first and not (first in KILLS and name in KILLS)]
        return first, self._random.choice(others)

    def begin(self, name: str) -> None:
        network = self._trial.network
        running = [host for host in self._trial.hosts if host in self._trial.running]  # one may have been killed
        one, other, third = self._random.sample(running, 3)
        if name == "deaf":
            network.deafen(one)
        elif name == "mute":
            network.mute(one)
        elif name == "one_way":
            network.drop(one, other)
        elif name == "cut":
            network.drop(one, other)
            network.drop(other, one)
        elif name == "part":
            network.part([one])
        elif name == "stop":
            self._trial.stop(one)
            self._stopped.append(one)
        elif name == "restart":
            self._trial.kill(third)
            self._trial.start([third])
        else:
            self._trial.kill(third)
            self._trial.start([third])
            self._trial.rest(self._random.uniform(0.3, 1.5))
            self._trial.kill(third)
            self._down.append(third)

    def end(self) -> None:
        """Heal the network, continue what was stopped, start what is down."""
        self._trial.network.heal()
        for host in self._stopped:
            if host in self._trial.running:
                self._trial.go_on(host)
        self._trial.start(self._down)
        self._stopped, self._down = [], []


def play(scale: OverlapScale, directory: Path, say: Callable[[str], None]) -> tuple[OverlapFigures, Path]:
    """The whole scenario; its figures and its history."""
    figures = OverlapFigures()
    random = Random(SEED)
    with (
        Network(HOSTS) as network,
        Trial(network, directory, GROUPS, BOUNDED.options, BOUNDED.found_after_s, clock_incarnations=True) as trial,
    ):
        network.lose(scale.loss_percent)
        trial.start(trial.hosts)
        figures.formed_s = timed(lambda: trial.wait_for_all(scale.limit_s, "first view of all"))
        trial.found_after_s = NEVER_S
        faults = Faults(trial, random)
        for cycle in range(scale.cycles):
            trial.send_at(scale.rate)
            names = faults.draw()
            say(f"cycle {cycle + 1} of {scale.cycles}: {' and '.join(names)}")
            for name in names:
                faults.begin(name)
                figures.faults[name] = figures.faults.get(name, 0) + 1
                time.sleep(random.uniform(0.0, scale.hold_s / 2))
            time.sleep(scale.hold_s)
            faults.end()
            waited = timed(lambda: trial.wait_for_all(scale.limit_s, "view of all after the faults"))
            figures.healed_s.append(waited)
        figures.excluded = trial.excluded()
        return figures, trial.finish()


def main() -> int:
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    reason = missing()
    if reason is not None:
        print(f"this cannot be played here: {reason}", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="antiphon-overlap-"))
    print(f"history and journals in {directory}", file=sys.stderr)
    figures, history = play(FULL, directory / "trial", lambda line: print(line, file=sys.stderr, flush=True))
    result = audit(history, make_session(None))
    document = {
        "verdict": result.verdict,
        "events": result.events,
        "guarantees": {finding.guarantee: finding.verdict for finding in result.findings},
        "figures": asdict(figures),
    }
    print(json.dumps(document))
    return 0 if result.verdict == "kept" else 1


if __name__ == "__main__":
    sys.exit(main())
