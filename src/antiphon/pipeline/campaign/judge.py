"""Holding one simulated run to everything that it promised: the history by the reference auditor, the rest by the run.

Beside the guarantees of the history there are two of the run itself: `rest`, that after the last fault every group
comes to rest without giving up a member that runs, and `mistake`, that the engine never fails. Which exclusions of
running members are excused, under the rule `epochs` alone, and why: simulator/group_progress.py.

Some groups are excused from rest, since they have lost their majority or causal order makes them wait for one that has.
Such a run is audited twice. As it was, with those who are in these groups stopped early, nothing may be broken. And
without these groups, everything must be kept to the end.

More failures at once than a causality domain was told to expect may break causal order, and nothing else; that counts
as kept, and is told apart.

An operator who has a group go on without a majority leaves some of its promises open (reference_recoveries.py). What is
unknown for that alone says so, and nobody is to blame for it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from antiphon.history.log import MemoryLog
from antiphon.history.schema import LEFT, LEVELS, QUIET, RECOVERS, Row
from antiphon.pipeline import reference
from antiphon.pipeline.guarantees import CAUSAL
from antiphon.pipeline.result import BROKEN, UNKNOWN, Audit
from antiphon.pipeline.verdicts import overall

REST: Final = "rest"
MISTAKE: Final = "mistake"


class SimulatedRun(Protocol):
    """What a run leaves behind; see simulator/script_run.py, whose runs are of this shape."""

    @property
    def logs(self) -> Sequence[MemoryLog]: ...
    @property
    def groups(self) -> Sequence[str]: ...
    @property
    def excused(self) -> Sequence[str]: ...
    @property
    def restless(self) -> Sequence[str]: ...
    @property
    def mistake(self) -> str: ...
    @property
    def failures(self) -> int: ...
    @property
    def resilience(self) -> int: ...
    @property
    def time_ns(self) -> int: ...
    @property
    def coverage(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class Problem:
    """One promise that was not kept."""

    guarantee: str
    """Its id, or `rest`, or `mistake`."""
    verdict: str
    """broken or unknown."""
    text: str
    by_word: bool = False
    """Whether nothing but an operator's word, to go on without a majority, leaves it unknown."""

    def __str__(self) -> str:
        return f"{self.guarantee} {self.verdict}: {self.text}"


@dataclass(frozen=True)
class Judgement:
    """How one run fared."""

    problems: tuple[Problem, ...]
    beyond_resilience: bool
    events: int
    rows: int
    views: int
    """Views installed, counted at each process."""
    delivered: dict[str, int]
    """Single deliveries, by level."""

    @property
    def verdict(self) -> str:
        return overall([problem.verdict for problem in self.problems])

    def ids(self, verdict: str) -> list[str]:
        """The guarantees with this verdict, each once."""
        return list(dict.fromkeys(problem.guarantee for problem in self.problems if problem.verdict == verdict))

    @property
    def broken(self) -> list[str]:
        return self.ids(BROKEN)

    @property
    def unknown(self) -> list[str]:
        return self.ids(UNKNOWN)


def judge(run: SimulatedRun) -> Judgement:
    """Everything that the run did not keep."""
    logs = [list(log.rows()) for log in run.logs]
    rows = [row for log in logs for row in log]
    own = [Problem(MISTAKE, BROKEN, run.mistake)] if run.mistake else []
    own += [
        Problem(REST, BROKEN, f"group {group} did not come to rest without losing members that run")
        for group in run.restless
    ]
    # After a mistake the logs end in the middle: only what is broken for certain is told.
    promised = _broken_only(_audit(rows)) if run.mistake or run.excused else _audit(rows)
    rest = [group for group in run.groups if group not in run.excused]
    if run.excused and rest and not run.mistake:
        promised += _audit([row for log in logs for row in without_groups(log, run.excused)])
    beyond = _is_beyond_resilience(run, promised)
    delivered = dict.fromkeys(LEVELS, 0)
    for row in rows:
        if row.kind == "deliver":
            delivered[row.level or ""] += row.count or 0
    return Judgement(
        problems=tuple(own if beyond else own + promised),
        beyond_resilience=beyond,
        events=sum(row.count or 1 for row in rows),
        rows=len(rows),
        views=sum(row.kind == "view" for row in rows),
        delivered=delivered,
    )


def _audit(rows: Sequence[Row]) -> list[Problem]:
    if not any(row.kind == "start" for row in rows):  # a mistake came before anything was promised
        return []
    audit = reference.audit(rows)
    unknown = [finding for finding in audit.findings if finding.verdict == UNKNOWN]
    if not unknown or not any(row.kind == "note" and row.label == RECOVERS for row in rows):
        return problems_of(audit)
    # What is unknown, and would be decided without the word, is unknown for the word alone.
    strict = {finding.guarantee: finding for finding in reference.audit(rows, heed_recoveries=False).findings}
    by_word = [finding.guarantee for finding in unknown if not strict[finding.guarantee].unknown]
    return problems_of(audit, by_word)


def problems_of(audit: Audit, by_word: Collection[str] = ()) -> list[Problem]:
    """What an audit found not to be kept; `by_word`: what only an operator's word leaves unknown."""
    return [
        Problem(
            finding.guarantee,
            finding.verdict,
            f"{finding.violations or finding.unknown} of {finding.checked}: "
            f"{finding.example.text if finding.example else finding.reason}",
            finding.guarantee in by_word,
        )
        for finding in audit.findings
        if finding.verdict in (BROKEN, UNKNOWN)
    ]


def _broken_only(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.verdict == BROKEN]


def _is_beyond_resilience(run: SimulatedRun, problems: Sequence[Problem]) -> bool:
    """Whether nothing but causal order is broken, and more members failed than the domain was told to expect. With a
    resilience of k, a message that k + 1 members hold is lost if they all fail; with 0, all hold it."""
    if not problems or not run.resilience or run.failures <= run.resilience:
        return False
    return all((problem.guarantee, problem.verdict) == (CAUSAL, BROKEN) for problem in problems)


def without_groups(rows: Iterable[Row], groups: Sequence[str]) -> Iterator[Row]:
    """One log as it would be if these groups had never been; who stopped on their account was quiet in the others."""
    index = 0
    for row in rows:
        if row.group not in groups:
            stopped = row.kind == "stop" and row.label != LEFT
            yield replace(row, index=index, label=QUIET if stopped else row.label)
            index += 1
