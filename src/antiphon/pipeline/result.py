"""What an audit finds: one finding per guarantee, and what was observed on the way. Plain values, free of Spark."""

from dataclasses import dataclass, field
from typing import Final

from antiphon.pipeline.display import html_table

KEPT: Final = "kept"
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"
UNCHECKED: Final = "unchecked"
"""Promised, but nothing of the kind happened."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """The smallest example found of a broken guarantee: the shortest chain of events that shows it."""

    text: str
    """In words: "p3 delivered b#7 before a#4, although b sent #7 after delivering a#4"."""
    run: str
    group: str
    events: tuple[tuple[str, int], ...]
    """The rows that show it, each as ("process/incarnation", index), in causal order."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """How one guarantee fared.

    `verdict` is broken if violations > 0, else unknown if unknown > 0, else kept if checked > 0, else unchecked; where
    the caller asked for the guarantee by name, unknown in place of unchecked.
    """

    guarantee: str
    verdict: str
    violations: int
    """Counted as DESIGN says for the guarantee; single messages, never rows."""
    unknown: int
    """Counted alike: what the logs leave open."""
    checked: int
    """How many single deliveries (or other units) were looked at."""
    roots: int = 0
    """What the violations come down to: the number of their root causes (`antiphon.pipeline.roots`)."""
    reason: str | None = None
    """Why something is unknown, in words, with the extent; or what did not happen where it is unchecked. Of primary
    also who was told by an operator to go on without a majority; of causal also which processes read each group apart,
    so that order between groups was not promised to them."""
    example: Example | None = None


@dataclass(frozen=True, kw_only=True)
class MemberObservation:
    """Counts and latencies of one log (process incarnation) in one group. Latency: from send row to deliver row."""

    run: str
    process: str
    """"name/incarnation"."""
    group: str
    sent: int
    delivered: int
    delivered_bytes: int
    latency_ns_p50: int | None
    latency_ns_p99: int | None
    latency_ns_max: int | None
    first_ns: int
    last_ns: int
    ending: str
    """"quiet", "stopped: why", "crashed" or "cut short"."""


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One violation, or several alike: `count` says how many, and the counts of a guarantee add up to its violations.

    Of a delivery: the row and the first message in it that violates. Of a message that a process lacks: the first
    number of a series. What is judged of whole views or of a whole group is one entry per group, told by its first.
    """

    run: str
    guarantee: str
    group: str
    count: int
    reason: str
    process: str | None = None
    """"name/incarnation"."""
    index: int | None = None
    """Of the row in the log of the process."""
    sender: str | None = None
    number: int | None = None
    root_cause: str | None = None
    """What it is put down to, by name (`antiphon.pipeline.roots`)."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The whole result. `events` counts single events: a send, receive or deliver row counts as its `count`."""

    verdict: str
    """broken if any finding is, else unknown if any is, else kept if any is, else unchecked."""
    events: int
    rows: int
    runs: int
    findings: tuple[Finding, ...]
    observations: tuple[MemberObservation, ...] = field(default=())

    def _repr_html_(self) -> str:
        """For notebooks."""
        columns = ("guarantee", "verdict", "checked", "violations", "root causes", "unknown", "in words")
        rows = [
            (
                *(found.guarantee, found.verdict, found.checked, found.violations, found.roots, found.unknown),
                _in_words(found),
            )
            for found in self.findings
        ]
        return html_table(f"{self.verdict}: {self.events:,} events of {self.runs:,} runs", columns, rows)


def _in_words(found: Finding) -> str:
    example = found.example.text if found.example is not None else None
    return "; ".join(text for text in (example, found.reason) if text is not None)
