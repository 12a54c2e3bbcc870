"""What a campaign adds up to. Bounded, however many seeds there are: counts, histograms, the first failing seeds."""

from collections import Counter
from dataclasses import dataclass, field
from math import floor, log10
from typing import Final

from antiphon.pipeline.campaign.failing import FailingSeed
from antiphon.pipeline.campaign.outcome import Outcome
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from antiphon.pipeline.verdicts import overall

FAILING_MAX: Final = 1_000
"""So many failing seeds are named; all are counted, and all stand in the result table."""
BINS_PER_DECADE: Final = 5


@dataclass
class Histogram:
    """Positive numbers in bins of equal ratio; 0 has a bin of its own."""

    bins: Counter[int] = field(default_factory=Counter)
    zeros: int = 0
    total: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        self.total += value
        self.most = max(self.most, value)
        if value > 0:
            self.bins[floor(log10(value) * BINS_PER_DECADE)] += 1
        else:
            self.zeros += 1

    @staticmethod
    def bounds(bin: int) -> tuple[float, float]:
        """From and to."""
        return 10 ** (bin / BINS_PER_DECADE), 10 ** ((bin + 1) / BINS_PER_DECADE)


@dataclass
class CampaignTally:
    """The sums over all outcomes so far."""

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of run and verdict."""
    guarantees: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Seeds by what they broke or left unknown, and which of the two."""
    sums: Counter[str] = field(default_factory=Counter)
    events: Histogram = field(default_factory=Histogram)
    simulation_ns: Histogram = field(default_factory=Histogram)
    audit_ns: Histogram = field(default_factory=Histogram)
    seeds_reaching: Counter[str] = field(default_factory=Counter)
    """How many seeds reached each situation…"""
    reached: Counter[str] = field(default_factory=Counter)
    """…and how often, in all."""
    failing: list[FailingSeed] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        return self.verdicts.total()

    @property
    def failed(self) -> int:
        return self.seeds - self.verdicts[KEPT]

    @property
    def verdict(self) -> str:
        return overall([verdict for verdict, seeds in self.verdicts.items() if seeds])

    def add(self, outcome: Outcome) -> None:
        self.verdicts[outcome.verdict] += 1
        self.kinds[outcome.kind, outcome.verdict] += 1
        self.guarantees.update((guarantee, BROKEN) for guarantee in outcome.broken)
        self.guarantees.update((guarantee, UNKNOWN) for guarantee in outcome.unknown)
        for name in SUMMED:
            self.sums[name] += getattr(outcome, name)
        self.events.add(outcome.events)
        self.simulation_ns.add(outcome.simulation_ns)
        self.audit_ns.add(outcome.audit_ns)
        self.seeds_reaching.update(outcome.coverage.keys())
        self.reached.update(outcome.coverage)
        if outcome.verdict != KEPT and len(self.failing) < FAILING_MAX:
            self.failing.append(_failing(outcome))


SUMMED: Final = (
    *("events", "rows", "lives", "groups", "groups_excused", "views", "failures", "beyond_resilience"),
    *("delivered_reliable", "delivered_fifo", "delivered_causal", "delivered_agreed", "delivered_safe"),
    "delivered_causal_total",
    "delivered_abcast",
    *("virtual_ns", "simulation_ns", "audit_ns"),
)


def _failing(outcome: Outcome) -> FailingSeed:
    guarantees = outcome.broken or outcome.unknown
    return FailingSeed(
        seed=outcome.seed,
        kind=outcome.kind,
        guarantee=guarantees[0],
        verdict=outcome.verdict,
        events=outcome.events,
        explanation=outcome.explanation,
    )
