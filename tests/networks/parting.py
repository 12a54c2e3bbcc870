"""A group of the stack `domain` on hosts of its own, on bridges: split into three, links that work one way, and healed,
under load, all of it recorded and audited.

    python -m tests.networks.parting            8 hosts, 2,000 messages a second, as root; figures as JSON
    python -m tests.networks.parting --quick    audited in this process, without Spark
    python -m tests.networks.parting --unicast  without IP multicast

Each split ends when every host is in the view of its side; each one-way cut lasts for a while, and what becomes of it
is written down in docs/papers/domain.md. After each, the network heals, and all hosts must be in one view. Messages go
at all levels all the while, some of them to chosen members.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.networks.domain_member import GROUP
from tests.networks.network import Network, missing
from tests.networks.trial import PORT, Process, Trial

MULTICAST: Final = "239.255.77.1:7401"
SEED: Final = 15


@dataclass(frozen=True, kw_only=True)
class PartingScale:
    """How much of everything."""

    sides: tuple[int, ...]
    """How many hosts each side of a split has."""
    rate: float
    """Messages per second, of all together."""
    splits: int
    cuts: int
    """How many one-way cuts."""
    hold_s: float
    """How long the sides stay apart once they are in views of their own, and how long all are together before."""
    cut_s: float
    """How long a link works one way, or not at all."""
    broken: int = 1
    """How many links between two hosts do not work at all, one after the other."""
    limit_s: float = 60.0
    """For any one step; reached only if something is wrong."""
    multicast: str = MULTICAST


FULL: Final = PartingScale(sides=(3, 3, 2), rate=2000.0, splits=3, cuts=3, hold_s=3.0, cut_s=4.0)
SMALL: Final = PartingScale(sides=(2, 2, 1), rate=150.0, splits=1, cuts=1, hold_s=0.5, cut_s=2.5)


@dataclass(kw_only=True)
class PartingFigures:
    """What came of it, in seconds, and counts over all hosts."""

    formed_s: float = 0.0
    parted_s: list[float] = field(default_factory=list)
    """From each split until the last host was in the view of its side."""
    merged_s: list[float] = field(default_factory=list)
    """From each healing of a split until the last host was in the view of all…"""
    mended_s: list[float] = field(default_factory=list)
    """…and from each healing of a one-way cut."""
    views: int = 0
    """Different views."""
    quiet_s: dict[str, float] = field(default_factory=dict)
    """The longest time without a delivery at any host, by what went wrong meanwhile."""
    counted: dict[str, int] = field(default_factory=dict)


class Parting:
    """One run."""

    def __init__(self, scale: PartingScale, trial: Trial, figures: PartingFigures) -> None:
        self._scale = scale
        self._trial = trial
        self._figures = figures
        self._random = Random(SEED)

    def form(self) -> None:
        begun_ns = time.monotonic_ns()
        self._trial.start(self._trial.hosts)
        self._figures.formed_s = self._await([list(self._trial.hosts)], begun_ns)
        self._trial.send_at(self._scale.rate)
        self._trial.rest(self._scale.hold_s)

    def split(self) -> None:
        """Cut the network into sides, drawn anew each time; then heal it."""
        hosts = self._random.sample(self._trial.hosts, len(self._trial.hosts))
        sides: list[list[int]] = []
        for count in self._scale.sides:
            sides.append(sorted(hosts[:count]))
            hosts = hosts[count:]
        cut_ns = time.monotonic_ns()
        self._trial.network.split(*sides)
        self._figures.parted_s.append(self._await(sides, cut_ns))
        self._trial.rest(self._scale.hold_s)
        self._figures.merged_s.append(self._heal())
        self._trial.rest(self._scale.hold_s)

    def cut(self, both_ways: bool = False) -> None:
        """Have a host not hear another one for a while, or the first two not each other; then heal the network."""
        source, target = self._trial.hosts[:2] if both_ways else self._random.sample(self._trial.hosts, 2)
        self._trial.network.drop(source, target)
        if both_ways:
            self._trial.network.drop(target, source)
        self._trial.rest(self._scale.cut_s)
        self._figures.mended_s.append(self._heal())
        self._trial.rest(self._scale.hold_s)

    def note_quiet(self, what: str) -> None:
        """Note the longest time without a delivery at any host since the last call; name it, if it is to be kept."""
        asked_ns = time.monotonic_ns()
        for process in self._trial.running.values():
            process.tell(quiet=True)
        running = list(self._trial.running.values())
        self._trial.wait(
            lambda: all(_quiet_since(process, asked_ns) is not None for process in running),
            self._scale.limit_s,
            "quiet",
        )
        told = [_quiet_since(process, asked_ns) or 0.0 for process in running]
        if what:
            self._figures.quiet_s[what] = round(max(told), 3)

    def _heal(self) -> float:
        healed_ns = time.monotonic_ns()
        self._trial.network.heal()
        return self._await([list(self._trial.hosts)], healed_ns)

    def _await(self, sides: Sequence[Sequence[int]], since_ns: int) -> float:
        """Wait until every host is in the view of its side; how long after `since_ns` the last one got there."""
        trial = self._trial
        trial.wait(lambda: all(trial.agree(side) for side in sides), self._scale.limit_s, f"views of {sides}")
        last = [process.last("view") for process in trial.running.values()]
        taken_ns = [int(view["time_ns"]) - since_ns for view in last if view is not None]
        return round(max(0, *taken_ns) / 1e9, 3)

    def count(self, events: list[dict[str, Any]]) -> None:
        """Add up what the hosts have told."""
        self._figures.views = len({event["id"] for event in events if event["kind"] == "view"})
        for event in events:
            for name, value in event.get("statistics", {}).items():
                self._figures.counted[name] = self._figures.counted.get(name, 0) + value


def run_faults(run: Parting, scale: PartingScale, figures: PartingFigures, say: Callable[[str], None]) -> None:
    """Everything that goes wrong, one after the other."""
    run.form()
    run.note_quiet("")
    for place in range(scale.splits):
        say(f"split {place + 1}: {figures}")
        run.split()
    run.note_quiet("splits")
    for place in range(scale.cuts):
        say(f"one-way cut {place + 1}: {figures}")
        run.cut()
    run.note_quiet("one-way cuts")
    for place in range(scale.broken):
        say(f"broken link {place + 1}: {figures}")
        run.cut(both_ways=True)
    run.note_quiet("broken links")


def _quiet_since(process: Process, since_ns: int) -> float | None:
    told = process.last("quiet")
    return float(told["seconds"]) if told is not None and told["time_ns"] >= since_ns else None


def play(scale: PartingScale, directory: Path, say: Callable[[str], None]) -> tuple[PartingFigures, Path]:
    """The whole run; its figures and its history."""
    figures = PartingFigures()
    hosts = range(1, sum(scale.sides) + 1)
    with Network(len(hosts)) as network:
        members = {f"m{host}": f"{network.address(host)}:{PORT}" for host in hosts}
        extra = {"members": members, "multicast": scale.multicast}
        program = "tests.networks.domain_member"
        with Trial(network, directory, {GROUP: hosts}, {}, 0.0, program=program, extra=extra) as trial:
            run = Parting(scale, trial, figures)
            run_faults(run, scale, figures, say)
            processes = list(trial.running.values())
            history = trial.finish()
            run.count([event for process in processes for event in process.look()])
            return figures, history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="audit in this process, without Spark")
    parser.add_argument("--unicast", action="store_true", help="without IP multicast")
    parser.add_argument("--rate", type=float, default=FULL.rate, help="messages a second, of all hosts together")
    given = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"this cannot be played here: {reason}", file=sys.stderr)
        return 2
    scale = PartingScale(
        sides=FULL.sides, rate=given.rate, splits=FULL.splits, cuts=FULL.cuts, hold_s=FULL.hold_s, cut_s=FULL.cut_s,
        multicast="" if given.unicast else MULTICAST,
    )  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="antiphon-parting-"))
    print(f"history and journals in {directory}", file=sys.stderr)
    figures, history = play(scale, directory / "trial", lambda line: print(line, file=sys.stderr, flush=True))
    result = judge(history, given.quick)
    document = {
        "verdict": result.verdict,
        "events": result.events,
        "guarantees": {finding.guarantee: finding.verdict for finding in result.findings},
        "merged_s_p50": statistics.median(figures.merged_s),
        "figures": asdict(figures),
    }
    print(json.dumps(document))
    return 0 if result.verdict == "kept" else 1


def judge(history: Path, quick: bool) -> Any:
    """The audit of a history."""
    if quick:
        from antiphon.pipeline.quick import quick_audit

        return quick_audit(history)
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    return audit(history, make_session(None))


if __name__ == "__main__":
    sys.exit(main())
