"""A campaign as the JSON document that scripts depend on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from antiphon.history.schema import LEVELS
from antiphon.pipeline.campaign.chunks import FAILING, Campaign
from antiphon.pipeline.campaign.failing import Kept
from antiphon.pipeline.campaign.tally import CampaignTally
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that there is to tell of a campaign."""

    campaign: Campaign
    directory: Path
    build: str
    tally: CampaignTally
    kept: Sequence[Kept]
    situations: Sequence[str]
    seeds_now: int
    """Seeds that were run this time; the others had been run before."""
    elapsed_s: float
    """How long that took."""

    @property
    def seeds_per_minute(self) -> float:
        return 60 * self.seeds_now / self.elapsed_s if self.seeds_now else 0.0

    @property
    def never_reached(self) -> list[str]:
        return [situation for situation in self.situations if situation not in self.tally.reached]

    def command(self, seed: int) -> str:
        """How to run one seed again."""
        what = f"--stack {self.campaign.stack} --workload {self.campaign.workload}"
        return f"antiphon campaign {what} --seeds {seed}:{seed + 1} --out seed-{seed}"


def summary_document(summary: Summary) -> dict[str, Any]:
    """Plain values only: ready for `json.dumps`."""
    tally, campaign = summary.tally, summary.campaign
    return {
        "verdict": tally.verdict,
        "stack": campaign.stack,
        "workload": campaign.workload,
        "first": campaign.first,
        "end": campaign.end,
        "seeds": tally.seeds,
        "kept": tally.verdicts[KEPT],
        "broken": tally.verdicts[BROKEN],
        "unknown": tally.verdicts[UNKNOWN],
        "beyond_resilience": tally.sums["beyond_resilience"],
        "events": tally.sums["events"],
        "views": tally.sums["views"],
        "failures": tally.sums["failures"],
        "delivered": {level: tally.sums[f"delivered_{level.replace('-', '_')}"] for level in LEVELS},
        "simulation_s": round(tally.sums["simulation_ns"] / 1e9, 1),
        "audit_s": round(tally.sums["audit_ns"] / 1e9, 1),
        "virtual_s": round(tally.sums["virtual_ns"] / 1e9, 1),
        "build": summary.build,
        "seeds_now": summary.seeds_now,
        "elapsed_s": round(summary.elapsed_s, 1),
        "seeds_per_minute": round(summary.seeds_per_minute),
        "guarantees": {
            guarantee: {BROKEN: tally.guarantees[guarantee, BROKEN], UNKNOWN: tally.guarantees[guarantee, UNKNOWN]}
            for guarantee in sorted({guarantee for guarantee, _ in tally.guarantees})
        },
        "coverage": {
            name: {"seeds": tally.seeds_reaching[name], "count": tally.reached[name]} for name in sorted(tally.reached)
        },
        "never_reached": summary.never_reached,
        "failing": [asdict(failing) for failing in tally.failing],
        "shrunk": [{**asdict(kept), "folder": str(summary.directory / FAILING / kept.name)} for kept in summary.kept],
        "directory": str(summary.directory),
    }
