"""The ratios that Antiphon is held to, of systems measured in one run, each with its target."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.peers.plan import Case, Result, ratio
from bench.peers.system import System

MEMBERS: Final = 3


@dataclass(frozen=True)
class Target:
    """One system must be at least so many times another, at one size of messages."""

    over: str
    under: str
    size: int
    at_least: float


TARGETS: Final = (
    Target("antiphon-causal", "zeromq", 64, 3.0),
    Target("antiphon-causal", "jgroups-udp", 64, 25.0),
    Target("antiphon-causal", "bare-loop", 64, 0.4),
    Target("antiphon-causal-messages", "zeromq", 64, 1.5),
    Target("antiphon-plain", "zeromq", 64, 2.2),
    Target("antiphon-plain-agreed", "zeromq", 64, 1.8),
    Target("antiphon-agreed", "corosync-cpg", 64, 15.0),
    Target("antiphon-agreed", "jgroups-sequencer", 64, 40.0),
    Target("antiphon-safe", "antiphon-agreed", 64, 0.7),
    Target("antiphon-causal", "antiphon-fifo", 64, 0.85),
    Target("antiphon-causal", "zeromq", 1000, 2.5),
    Target("antiphon-causal", "raw-udp-gso", 16_384, 0.6),
    # The same over IP multicast, which loopback has and many networks have not.
    Target("antiphon-causal-multicast", "zeromq", 64, 3.0),
    Target("antiphon-causal-multicast", "jgroups-udp", 64, 25.0),
    Target("antiphon-causal-multicast", "bare-loop", 64, 0.4),
    Target("antiphon-causal-multicast", "zeromq", 1000, 2.5),
    Target("antiphon-causal-multicast", "raw-udp-gso", 16_384, 0.6),
)


@dataclass(frozen=True)
class Outcome:
    """A target, and what was measured."""

    target: Target
    times: float
    low: float
    high: float

    @property
    def is_reached(self) -> bool:
        return self.times >= self.target.at_least

    def row(self) -> dict[str, Any]:
        return {
            "over": self.target.over,
            "under": self.target.under,
            "size": self.target.size,
            "members": MEMBERS,
            "ratio": round(self.times, 3),
            "least": round(self.low, 3),
            "greatest": round(self.high, 3),
            "target": self.target.at_least,
            "reached": self.is_reached,
        }


def cases(system: Callable[[str], System], targets: Sequence[Target] = TARGETS) -> list[Case]:
    """All that has to be measured for the targets, each once."""
    wanted = dict.fromkeys((name, target.size) for target in targets for name in (target.over, target.under))
    return [Case(system(name), size, MEMBERS) for name, size in wanted]


def judge(results: Sequence[Result], targets: Sequence[Target] = TARGETS) -> list[Outcome]:
    found: Mapping[tuple[str, int], Result] = {(one.case.system.name, one.case.size): one for one in results}
    return [
        Outcome(target, *ratio(found[target.over, target.size], found[target.under, target.size])) for target in targets
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"{'ratio':>8}{'target':>8}  {'least to greatest':18}{'':12}what"]
    for outcome in outcomes:
        target = outcome.target
        span = f"{outcome.low:.2f} to {outcome.high:.2f}"
        verdict = "reached" if outcome.is_reached else "not reached"
        what = f"{target.over} / {target.under}, {target.size:,} bytes, {MEMBERS} members"
        lines.append(f"{outcome.times:>8.2f}{target.at_least:>8g}  {span:18}{verdict:12}{what}")
    return "\n".join(lines)
