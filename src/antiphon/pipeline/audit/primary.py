"""primary: primary views form one chain, each with a majority of the last.

A view is an id with its members. A second one with the same id is violated; so is one that holds no majority of the
first with the id below, half counting with the oldest, and those that left counting as present. Members with open logs
may have left: where they decide, it is unknown. A view that an operator had installed without a majority counts like
every other; the result names who was told to go on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import Event, GroupIntervals, ViewCounts, ViewWitness
from antiphon.pipeline.explain import broken_chain_text, fork_text, no_majority_text
from antiphon.pipeline.roots import series

Views = Mapping[int, Mapping[tuple[str, ...], Event]]
"""id → members → the first row that says so."""


def count(group: str, stays: GroupIntervals, logs: Mapping[str, LogFacts]) -> ViewCounts:
    announced = {process: {left for piece in log.pieces for left in piece["leaves"]} for process, log in logs.items()}
    left = {process for process, groups in announced.items() if not groups.isdisjoint((group, None))}
    open_logs = {process for process, log in logs.items() if log.open}
    views = _views(stays)
    violations = unknown = checked = 0
    wrong: set[int] = set()
    witness: ViewWitness | None = None
    for view, by_members in sorted(views.items()):
        found: ViewWitness | None = None
        if view != min(views):
            found, in_doubt = _succession(group, view, views, left, open_logs)
            violations += found is not None
            unknown += in_doubt
        (members, row), *forks = by_members.items()
        checked += len(by_members)
        violations += len(forks)
        if forks or found is not None:
            wrong.add(view)
        if forks and found is None:
            found = ViewWitness(fork_text(group, view, forks[0][0], members), (row, forks[0][1]))
        witness = witness or found
    return ViewCounts(violations, unknown, checked, witness, series(wrong))


def overrides(group: str, stays: GroupIntervals, logs: Mapping[str, LogFacts]) -> list[tuple[str, int | None]]:
    """The processes that were told to go on without a majority, each with the next view that it installed, if any."""
    found: set[tuple[str, int | None]] = set()
    for process, log in logs.items():
        for note in (note for piece in log.pieces for note in piece["recovers"] if note["group"] == group):
            own = stays.get(process, [])
            found.add((process, next((stay.view for stay in own if stay.index > note["index"]), None)))
    return sorted(found, key=lambda each: (each[0], each[1] or 0))


def _views(stays: GroupIntervals) -> Views:
    views: dict[int, dict[tuple[str, ...], Event]] = defaultdict(dict)
    for process, own in stays.items():
        for stay in own:
            views[stay.view].setdefault(stay.members, (process, stay.index))
    return dict(views)


def _succession(
    group: str, view: int, views: Views, left: set[str], open_logs: set[str]
) -> tuple[ViewWitness | None, bool]:
    """What is wrong with how a view follows the one before, and whether that is in doubt."""
    members, row = next(iter(views[view].items()))
    if view - 1 not in views:
        return (None, True) if open_logs else (ViewWitness(broken_chain_text(group, view), (row,)), False)
    electors, row_before = next(iter(views[view - 1].items()))
    surely = left.union(members).intersection(electors)
    if _is_majority(surely, electors):
        return None, False
    if _is_majority(surely.union(open_logs.intersection(electors)), electors):
        return None, True
    return ViewWitness(no_majority_text(group, view, len(surely), len(electors)), (row_before, row)), False


def _is_majority(present: set[str], electors: Sequence[str]) -> bool:
    doubled = 2 * len(present)
    return doubled > len(electors) or (doubled == len(electors) and not present.isdisjoint(electors[:1]))
