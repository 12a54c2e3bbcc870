"""From counts to verdicts: how an `Audit` is put together. Both auditors end here."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.explain import overrides_text, readers_apart_text, reason_text, unchecked_text
from antiphon.pipeline.guarantees import BY_ID, CHECKED
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.result import BROKEN, KEPT, UNCHECKED, UNKNOWN, Audit, Example, Finding, MemberObservation


@dataclass
class Tally:
    """The counts of one guarantee, added up over logs and runs."""

    violations: int = 0
    unknown: int = 0
    checked: int = 0
    roots: int = 0
    """Root causes, as `antiphon.pipeline.roots` defines them."""
    causes: set[Hashable] = field(default_factory=set)
    """The root causes found so far in the run that is being judged, by name; `end_run` counts them."""
    open_logs: list[str] = field(default_factory=list)
    """Which logs leave something open, in words."""
    overrides: list[str] = field(default_factory=list)
    """Where an operator had a group go on without a majority, in words."""
    readers_apart: list[str] = field(default_factory=list)
    """Which processes read each group apart, so that order between groups was not promised to them, in words."""
    example: Example | None = None

    def end_run(self) -> None:
        """Count the causes of a run; those of the next run have names of their own."""
        self.roots += len(self.causes)
        self.causes.clear()


def finding(guarantee: str, tally: Tally, named: bool) -> Finding:
    """What the counts of one guarantee amount to; `named`: the caller asked for it by name."""
    if guarantee not in CHECKED:
        problem = "it was promised, but this version of the auditor cannot check it yet"
        return Finding(guarantee=guarantee, verdict=UNKNOWN, violations=0, unknown=1, checked=0, reason=problem)
    if tally.unknown:
        reason = reason_text(tally.unknown, tally.open_logs)
    elif tally.checked or tally.violations:
        reason = None
    else:
        reason = unchecked_text(BY_ID[guarantee].nothing, named)
    words = [] if reason is None else [reason]
    if tally.readers_apart:
        words.insert(0, readers_apart_text(tally.readers_apart))
    if tally.overrides:
        words.insert(0, overrides_text(tally.overrides))
    return Finding(
        guarantee=guarantee,
        verdict=_verdict(tally, named),
        violations=tally.violations,
        unknown=tally.unknown,
        checked=tally.checked,
        roots=tally.roots,
        reason="; ".join(words) or None,
        example=tally.example,
    )


def _verdict(tally: Tally, named: bool) -> str:
    if tally.violations:
        return BROKEN
    if tally.unknown:
        return UNKNOWN
    if tally.checked:
        return KEPT
    return UNKNOWN if named else UNCHECKED


def conclude(
    promises: Promises,
    tallies: dict[str, Tally],
    *,
    events: int,
    rows: int,
    runs: int,
    observations: Iterable[MemberObservation],
) -> Audit:
    """The whole result, with one finding per guarantee that was promised."""
    judged = promises.all()
    if not judged:
        raise UnusableHistoryError(
            None, f"no start row says what was promised; name the guarantees to check, of: {', '.join(CHECKED)}"
        )
    findings = tuple(
        finding(guarantee, tallies.get(guarantee, Tally()), promises.must_be_checked(guarantee)) for guarantee in judged
    )
    return Audit(
        verdict=overall([finding.verdict for finding in findings]),
        events=events,
        rows=rows,
        runs=runs,
        findings=findings,
        observations=tuple(sorted(observations, key=lambda seen: (seen.run, seen.group, seen.process))),
    )


def overall(verdicts: Sequence[str]) -> str:
    """Broken if any is, else unknown if any is, else kept if any is or there are none, else unchecked."""
    for verdict in (BROKEN, UNKNOWN, KEPT):
        if verdict in verdicts:
            return verdict
    return UNCHECKED if verdicts else KEPT
