"""The result table of a campaign: one row per seed."""

from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa

OUTCOME: Final = pa.schema(
    [
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("broken", pa.list_(pa.string()), nullable=False),
        pa.field("unknown", pa.list_(pa.string()), nullable=False),
        pa.field("explanation", pa.string(), nullable=False),
        pa.field("beyond_resilience", pa.bool_(), nullable=False),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("lives", pa.int64(), nullable=False),
        pa.field("groups", pa.int64(), nullable=False),
        pa.field("groups_excused", pa.int64(), nullable=False),
        pa.field("views", pa.int64(), nullable=False),
        pa.field("failures", pa.int64(), nullable=False),
        pa.field("delivered_reliable", pa.int64(), nullable=False),
        pa.field("delivered_fifo", pa.int64(), nullable=False),
        pa.field("delivered_causal", pa.int64(), nullable=False),
        pa.field("delivered_agreed", pa.int64(), nullable=False),
        pa.field("delivered_safe", pa.int64(), nullable=False),
        pa.field("delivered_causal_total", pa.int64(), nullable=False),
        pa.field("delivered_abcast", pa.int64(), nullable=False),
        pa.field("virtual_ns", pa.int64(), nullable=False),
        pa.field("simulation_ns", pa.int64(), nullable=False),
        pa.field("audit_ns", pa.int64(), nullable=False),
        pa.field("coverage", pa.map_(pa.string(), pa.int64()), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one seed; the fields are the columns of OUTCOME, in their order."""

    seed: int
    kind: str
    verdict: str
    broken: list[str]
    unknown: list[str]
    explanation: str
    """What was not kept, in words; empty if all was."""
    beyond_resilience: bool
    """Causal order was broken by more failures at once than the domain was told to expect: no fault of the protocol."""
    events: int
    rows: int
    lives: int
    """Logs: processes, each incarnation for itself."""
    groups: int
    groups_excused: int
    """Groups that could not come to rest, since a majority was gone."""
    views: int
    """Views installed, counted at each process."""
    failures: int
    """Crashes and exclusions."""
    delivered_reliable: int
    delivered_fifo: int
    delivered_causal: int
    delivered_agreed: int
    delivered_safe: int
    delivered_causal_total: int
    delivered_abcast: int
    virtual_ns: int
    simulation_ns: int
    """Real time that the run took…"""
    audit_ns: int
    """…and its audit."""
    coverage: dict[str, int]
    """How often each situation occurred."""


def table_of(outcomes: list[Outcome]) -> pa.Table:
    """The rows as they lie in a file."""
    rows = [{**asdict(outcome), "coverage": sorted(outcome.coverage.items())} for outcome in outcomes]
    return pa.Table.from_pylist(rows, schema=OUTCOME)


def outcomes_of(table: pa.Table) -> list[Outcome]:
    """The rows as plain values."""
    return [Outcome(**{**row, "coverage": dict(row["coverage"])}) for row in table.to_pylist()]
