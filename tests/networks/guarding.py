"""Locks, leaders and resilient objects on hosts of their own: the leader is killed, stopped past the time-out, and cut
off; the resource that they write to is reached by all.

    python -m tests.networks.guarding --rounds 5        as root: takeover times as JSON; audited

Held to: no write is lost, no token has two holders, none is admitted after a higher one (`tests/programs/guarded.py`);
of the resilient object, every acknowledged addition is there once; and the guarantees of the group, by its history.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from antiphon.pipeline.reference import audit
from tests.networks.guarded_resource import ResourceServer
from tests.networks.network import Network, missing
from tests.networks.trial import Trial

GROUP: Final = "guarded"
MILLISECOND_NS: Final = 1_000_000
LIMIT_S: Final = 60.0
OPTIONS: Final = {"silence_ns_min": 300 * MILLISECOND_NS, "silence_ns_max": 3_000 * MILLISECOND_NS}


@dataclass(kw_only=True)
class Takeovers:
    """Seconds from each fault to the first write of the next leader."""

    killed_s: list[float] = field(default_factory=list)
    stopped_s: list[float] = field(default_factory=list)
    parted_s: list[float] = field(default_factory=list)
    writes: int = 0
    refused: int = 0
    """Accesses under tokens that were too low."""
    additions: int = 0


class Guarding:
    """One trial."""

    def __init__(self, trial: Trial, server: ResourceServer) -> None:
        self.trial = trial
        self.server = server
        self.takeovers = Takeovers()

    def leader(self) -> tuple[int, int]:
        """Host and token of the present leader: one whose write is young."""
        since_ns = time.monotonic_ns()
        self.trial.wait(lambda: self.server.last("leader")[0] > since_ns, LIMIT_S, "write of a leader")
        _, _, holder, token = self.server.last("leader")
        return int(holder.split("/")[0].removeprefix("m")), token

    def take_over(self, strike: Callable[[int], object]) -> tuple[int, float]:
        """Strike the leader; its host, and how long it took until another wrote."""
        self.trial.rest(0.5)
        host, token = self.leader()
        at_ns = time.monotonic_ns()
        strike(host)
        self.trial.wait(
            lambda: self.server.first_after(at_ns, "leader", token) is not None, LIMIT_S, "write of the next leader"
        )
        written_ns = self.server.first_after(at_ns, "leader", token)
        assert written_ns is not None
        return host, round((written_ns - at_ns) / 1e9, 3)

    def round(self) -> None:
        """Kill, stop and cut off the leader, and wait each time until all are back."""
        host, taken_s = self.take_over(self.trial.kill)
        self.takeovers.killed_s.append(taken_s)
        self.trial.start([host])
        self.trial.wait_for_all(LIMIT_S, "return of the killed")
        host, taken_s = self.take_over(self.trial.stop)
        self.takeovers.stopped_s.append(taken_s)
        self.trial.rest(1.0)
        self.trial.go_on(host)
        self.trial.wait_for_all(LIMIT_S, "return of the stopped")
        host, taken_s = self.take_over(lambda host: self.trial.network.part([host]))
        self.takeovers.parted_s.append(taken_s)
        self.trial.rest(1.0)
        self.trial.network.heal()
        self.trial.wait_for_all(LIMIT_S, "return of the cut off")


def play(directory: Path, hosts: int = 3, rounds: int = 1) -> tuple[Takeovers, Path]:
    """The whole trial; the takeovers, and the history."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = directory / "lines"
    lines.mkdir()
    acknowledged = directory / "acknowledged"
    with Network(hosts) as network, ResourceServer(directory) as server:
        extra = {"resource": str(server.path), "acknowledged": str(acknowledged), "lines": str(lines)}
        groups = {GROUP: range(1, hosts + 1)}
        program = "tests.networks.guarded_member"
        with Trial(network, directory / "trial", groups, OPTIONS, 3.0, program=program, extra=extra) as trial:
            trial.start(trial.hosts)
            trial.wait_for_all(LIMIT_S, "view of all")
            guarding = Guarding(trial, server)
            for _ in range(rounds):
                guarding.round()
            trial.rest(1.0)
            history = trial.finish()
        takeovers = guarding.takeovers
        takeovers.writes, takeovers.refused = len(server.accesses), len(server.refused)
        server.numbers.check()
        for item in ("lock", "leader"):
            written = sum(access[1] == item for access in server.accesses)
            assert server.numbers.values[item] == written, f"{written} writes made {server.numbers.values[item]}"
    takeovers.additions = check_lines(lines, acknowledged)
    return takeovers, history


def check_lines(lines: Path, acknowledged: Path) -> int:
    """All components have the same lines, none twice, and all that were acknowledged; how many."""
    copies = [file.read_text().splitlines() for file in sorted(lines.glob("*"))]
    assert copies
    assert all(copy == copies[0] for copy in copies), "components differ"
    twice = [line for line, count in Counter(copies[0]).items() if count > 1]
    assert not twice, f"executed twice: {twice[:3]}"
    lost = set(acknowledged.read_text().splitlines()) - set(copies[0])
    assert not lost, f"acknowledged and lost: {sorted(lost)[:3]}"
    return len(copies[0])


def judge(history: Path) -> dict[str, str]:
    """The verdict of the reference auditor on each guarantee."""
    result = audit(history)
    return {finding.guarantee: finding.verdict for finding in result.findings}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", type=int, default=3)
    given = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"this cannot be played here: {reason}", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="antiphon-guarding-"))
    takeovers, history = play(directory, given.hosts, given.rounds)
    document = asdict(takeovers)
    for kind in ("killed_s", "stopped_s", "parted_s"):
        document[f"{kind}_median"] = statistics.median(document[kind])
    document["guarantees"] = judge(history)
    print(json.dumps(document))
    return 0 if set(document["guarantees"].values()) <= {"kept", "unchecked"} else 1


if __name__ == "__main__":
    sys.exit(main())
