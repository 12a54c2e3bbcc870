"""merged: after healing and quiet, all that still run are together in one view of a group whose views part and merge.

The last view of each survivor must be the one that most of them are in, and its members the survivors, beside processes
that are open or stopped early. Each of those counts as unknown.
"""

from collections import Counter
from collections.abc import Mapping

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import GroupIntervals, ViewCounts, ViewViolation
from antiphon.pipeline.explain import merged_text
from antiphon.pipeline.roots import fewer_names


def count(group: str, view_intervals: GroupIntervals, logs: Mapping[str, LogFacts]) -> ViewCounts:
    early = {process for process, log in logs.items() if log.is_early(group)}
    survivors = {process: own[-1] for process, own in view_intervals.items() if logs[process].is_survivor(group)}
    unknown = len(early & view_intervals.keys())
    if not survivors:
        return ViewCounts(0, unknown, 0, None, 0)
    most = Counter(interval.view for interval in survivors.values())
    standard = max(most, key=lambda view: (most[view], view))
    apart = [
        (process, interval)
        for process, interval in survivors.items()
        if interval.view != standard or not survivors.keys() <= set(interval.members) <= survivors.keys() | early
    ]
    first_violation = None
    if apart:
        process, interval = apart[0]
        text = merged_text(process, group, interval.view, set(interval.members), sorted(survivors))
        first_violation = ViewViolation(text, ((process, interval.index), (process, logs[process].rows - 1)))
    roots = fewer_names(apart, {interval.view for _, interval in apart})
    return ViewCounts(len(apart), unknown, len(survivors), first_violation, roots)
