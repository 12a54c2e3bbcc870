"""Steps from view to view that an operator forced, and who went on with whom from the views that they tore.

The rules are those of `antiphon.pipeline.reference_recoveries`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewInterval
from antiphon.pipeline.view_counts import is_majority

_SURVIVES = "survives"


@dataclass(frozen=True)
class GroupRecoveries:
    """The forced steps of one group."""

    told: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """Each step, from which view to which, and who was told to go on."""
    companies: dict[tuple[int, str], str] = field(default_factory=dict)
    """With whom a process went on from a torn view, by view and process: equal for companions."""
    ranges: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """By process: the rows [first, end) of torn views that it left by a forced step, and the number of the step, from
    1 on."""

    @property
    def torn(self) -> set[int]:
        """The views that a forced step begins in."""
        return {view for view, _ in self.told}

    def are_companions(self, view: int, one: str, other: str) -> bool:
        """Whether two processes went on together from a torn view."""
        company = self.companies.get((view, one))
        return company is not None and company == self.companies.get((view, other))


def recoveries_of(group: str, view_intervals: GroupIntervals, logs: Mapping[str, LogFacts]) -> GroupRecoveries | None:
    """What operators did to a group; None if they tore no view of it."""
    told: dict[tuple[int, int], list[str]] = {}
    for process, own in view_intervals.items():
        for interval, following in pairwise(own):
            if interval.told is not None and not _has_majority(interval, following):
                told.setdefault((interval.view, following.view), []).append(process)
    if not told:
        return None
    found = GroupRecoveries(told)
    numbers = {step: number for number, step in enumerate(sorted(told), start=1)}
    torn = found.torn
    for process, own in view_intervals.items():
        for interval, following in pairwise(own):
            if interval.view in torn:
                found.companies[interval.view, process] = f"to {following.view}"
            if (interval.view, following.view) in numbers:
                step = (interval.index, following.index, numbers[interval.view, following.view])
                found.ranges.setdefault(process, []).append(step)
        if own[-1].view in torn:
            company = _SURVIVES if logs[process].is_survivor(group) else f"alone {process}"
            found.companies[own[-1].view, process] = company
    return found


def _has_majority(interval: ViewInterval, following: ViewInterval) -> bool:
    return is_majority(set(following.members).intersection(interval.members), interval.members)
