"""What members in namespaces have to go through: loss, a killed coordinator, a stopped process, a partition, visitors.

    python -m tests.networks.scenario       the full version, as root: its figures as JSON, audited on Spark

The same scenario runs small in the tests. In both, all members start at once with the same contacts, messages flow
all the time, and everybody is back in one view before the next fault.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.networks.network import Network, missing
from tests.networks.trial import Trial

MILLISECOND_NS: Final = 1_000_000
GROUP: Final = "trial"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of everything."""

    members: int
    rate: float
    """Messages per second, of all together."""
    loss_percent: int
    stop_s: float
    """How long a process is stopped."""
    part_s: float
    """How long the network is parted."""
    cycles: int
    limit_s: float
    """For any one step; reached only if something is wrong."""
    options: dict[str, int] = field(default_factory=dict)
    found_after_s: float = 5.0


FULL: Final = Scale(members=7, rate=1000.0, loss_percent=10, stop_s=20.0, part_s=20.0, cycles=100, limit_s=300.0)
BOUNDED: Final = Scale(
    members=5,
    rate=200.0,
    loss_percent=10,
    stop_s=4.0,
    part_s=5.0,
    cycles=5,
    limit_s=60.0,
    options={
        "heartbeat_interval_ns": 60 * MILLISECOND_NS,
        "silence_ns_min": 600 * MILLISECOND_NS,
        "silence_ns_max": 3000 * MILLISECOND_NS,
        "doubt_ns": 200 * MILLISECOND_NS,
    },
    found_after_s=2.0,
)


@dataclass(kw_only=True)
class Figures:
    """What came of it, in seconds."""

    formed_s: float = 0.0
    without_coordinator_s: list[float] = field(default_factory=list)
    """From the kill to the view without the coordinator, at each survivor."""
    coordinator_back_s: float = 0.0
    stopped_back_s: float = 0.0
    """From SIGCONT until everybody is in one view again."""
    parted_s: list[float] = field(default_factory=list)
    """From the cut to the view of the majority, at each of it."""
    healed_s: float = 0.0
    cycles_s: float = 0.0
    cycles_in_good_order: int = 0


def play(scale: Scale, directory: Path, say: Callable[[str], None]) -> tuple[Figures, Path]:
    """The whole scenario; its figures and its history."""
    figures = Figures()
    hosts = range(1, scale.members + 1)
    with (
        Network(scale.members + 1) as network,
        Trial(network, directory, {GROUP: hosts}, scale.options, scale.found_after_s) as trial,
    ):
        network.lose(scale.loss_percent)
        figures.formed_s = timed(lambda: _form(trial, scale))
        trial.send_at(scale.rate)
        for step in (_kill, _stop, _part, _visit):
            say(f"{step.__name__[1:]}: {figures}")
            step(trial, scale, figures)
        say(f"finish: {figures}")
        return figures, trial.finish()


def timed(action: Callable[[], None]) -> float:
    begin_s = time.monotonic()
    action()
    return round(time.monotonic() - begin_s, 3)


def _form(trial: Trial, scale: Scale) -> None:
    trial.start(trial.hosts)
    trial.wait_for_all(scale.limit_s, "view of all")


def _kill(trial: Trial, scale: Scale, figures: Figures) -> None:
    trial.rest(1.0)
    coordinator = trial.coordinator()
    killed_ns = trial.kill(coordinator.host)
    trial.wait_for_all(scale.limit_s, "view of the survivors")
    for host in trial.running:
        at_ns = trial.first_view_without(coordinator.name, host, killed_ns)
        assert at_ns is not None
        figures.without_coordinator_s.append(round((at_ns - killed_ns) / 1e9, 3))
    trial.start([coordinator.host])
    figures.coordinator_back_s = timed(lambda: trial.wait_for_all(scale.limit_s, "return of the coordinator"))
    trial.send_at(scale.rate)


def _stop(trial: Trial, scale: Scale, figures: Figures) -> None:
    trial.rest(1.0)
    host = trial.hosts[1]
    name, others = trial.running[host].name, [other for other in trial.hosts if other != host]
    trial.stop(host)
    trial.rest(scale.stop_s)
    trial.wait(lambda: trial.agree(others), scale.limit_s, f"view without {name}")
    trial.go_on(host)
    figures.stopped_back_s = timed(lambda: trial.wait_for_all(scale.limit_s, f"return of {name}"))
    assert trial.running[host].last("excluded"), f"{name} was not told"


def _part(trial: Trial, scale: Scale, figures: Figures) -> None:
    trial.rest(1.0)
    many = trial.hosts[: scale.members // 2 + 1]
    few = trial.hosts[len(many) :]
    parted_ns = time.monotonic_ns()
    trial.network.part(few)
    trial.rest(scale.part_s)
    trial.wait(lambda: trial.agree(many), scale.limit_s, "view of the majority")
    for host in many:
        views = [event for event in trial.running[host].look() if event["kind"] == "view"]
        figures.parted_s.append(round((views[-1]["time_ns"] - parted_ns) / 1e9, 3))
    trial.network.heal()
    figures.healed_s = timed(lambda: trial.wait_for_all(scale.limit_s, "view of all after the partition"))
    for host in few:
        excluded = trial.running[host].last("excluded")
        assert excluded is not None, f"{trial.running[host].name} was not told"
        assert excluded["time_ns"] > parted_ns, f"{trial.running[host].name} was not told"


def _visit(trial: Trial, scale: Scale, figures: Figures) -> None:
    trial.rest(1.0)
    visitor = scale.members + 1
    begin_s = time.monotonic()
    left = trial.come_and_go(visitor, scale.cycles, scale.limit_s)
    figures.cycles_s = round(time.monotonic() - begin_s, 3)
    assert len(left) == scale.cycles
    figures.cycles_in_good_order = sum(left)
    trial.wait_for_all(scale.limit_s, "view of all after the visits")


def main() -> int:
    from antiphon.pipeline.auditor import audit
    from antiphon.pipeline.session import make_session

    reason = missing()
    if reason is not None:
        print(f"this cannot be played here: {reason}", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="antiphon-networks-"))
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
