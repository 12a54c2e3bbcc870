"""view_agreement and primary in one process: the rules of `antiphon.pipeline.view_frames`, row by row.

For `antiphon audit --quick`, for whole runs in a task, and for a long run, whose view rows the driver has. The two
forms give the same counts and the same first violation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.pipeline.audit.view_intervals import ViewCounts
from antiphon.pipeline.guarantees import PRIMARY, VIEW_AGREEMENT
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.roots import fewer_names, series
from antiphon.pipeline.view_rows import (
    ABSENT,
    DIFFERS,
    FALLS,
    FORK,
    GAP,
    IN_DOUBT,
    MINORITY,
    GroupCounts,
    Logs,
    first_violation,
    held_groups,
    view_rows,
)

Place = dict[str, int]
"""A row: `log` and `index`."""
Members = tuple[str, ...]


class FirstSet(NamedTuple):
    """The members that the first row with some view id tells, that row, and how many other sets there are."""

    members: Members
    row: Place
    forks: int
    fork: tuple[Members, Place] | None


def count_views(logs: Logs, promises: Promises) -> list[GroupCounts]:
    """Both guarantees in all groups that are held to them; groups by name."""
    by_group: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in view_rows(logs):
        by_group[row["run"], row["group"]].append(row)
    found: list[GroupCounts] = []
    for held in sorted(held_groups(logs, promises), key=lambda each: (each["run"], each["group"])):
        run, group = held["run"], held["group"]
        rows, processes = by_group[run, group], list(logs[run])
        if held[PRIMARY]:
            counts = _primary(group, rows, set(held["left"]), set(held["open"]), processes)
            found.append(GroupCounts(run, group, PRIMARY, counts))
        if held[VIEW_AGREEMENT]:
            found.append(GroupCounts(run, group, VIEW_AGREEMENT, _agreement(group, rows, processes)))
    return found


def _agreement(group: str, rows: Sequence[Mapping[str, Any]], processes: Sequence[str]) -> ViewCounts:
    alike: dict[int, dict[Members, list[Place]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        alike[row["view"]][tuple(row["members"])].append(_place(row))
    standards = {
        view: min(by_members.items(), key=lambda each: (-len(each[1]), _order(each[1][0])))
        for view, by_members in alike.items()
    }
    violations, first = 0, None
    views: set[int] = set()
    faulty: set[int] = set()
    last: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        before = last.get(row["log"])
        last[row["log"]] = row
        members, told = standards[row["view"]]
        if tuple(row["members"]) != members:
            fault = DIFFERS
        elif before is not None and row["view"] <= before["view"]:
            fault = FALLS
        elif processes[row["log"]] not in members:
            fault = ABSENT
        else:
            continue
        violations += 1
        views.add(row["view"])
        faulty.add(row["log"])
        if first is None:
            first = {**row, "fault": fault, "before": before, "standard_row": told[0]}
    shown = None if first is None else first_violation(group, first, processes)
    return ViewCounts(violations, 0, len(rows), shown, fewer_names(views, faulty))


def _primary(
    group: str, rows: Iterable[Mapping[str, Any]], left: set[str], is_open: set[str], processes: Sequence[str]
) -> ViewCounts:
    views = _first_sets(rows)
    violations, unknown, first = 0, 0, None
    wrong: set[int] = set()
    for view, told in views.items():
        before = views.get(view - 1)
        present = left.union(told.members)
        fault = None if view == next(iter(views)) else _succession(before, present, is_open)
        unknown += fault == IN_DOUBT
        broken = fault in (MINORITY, GAP)
        violations += told.forks + broken
        if told.forks or broken:
            wrong.add(view)
            if first is None:
                fork_members, fork_row = told.fork or (None, None)
                first = {
                    "view": view,
                    "fault": fault if broken else FORK,
                    "row": told.row,
                    "members": told.members,
                    "fork_row": fork_row,
                    "fork_members": fork_members,
                    "row_before": before and before.row,
                    "present": before and len(present.intersection(before.members)),
                    "electors": before and len(before.members),
                }
    shown = None if first is None else first_violation(group, first, processes)
    return ViewCounts(violations, unknown, sum(told.forks + 1 for told in views.values()), shown, series(wrong))


def _first_sets(rows: Iterable[Mapping[str, Any]]) -> dict[int, FirstSet]:
    """By view id, in order."""
    sets: dict[int, dict[Members, Place]] = defaultdict(dict)
    for row in rows:  # by log, and in order within each
        sets[row["view"]].setdefault(tuple(row["members"]), _place(row))
    firsts: dict[int, FirstSet] = {}
    for view in sorted(sets):
        (members, row), *forks = sets[view].items()
        firsts[view] = FirstSet(members, row, len(forks), forks[0] if forks else None)
    return firsts


def _succession(before: FirstSet | None, present: set[str], is_open: set[str]) -> str | None:
    """What is wrong with how a view follows the one before; None if nothing is."""
    if before is None:
        return IN_DOUBT if is_open else GAP
    if is_majority(present, before.members):
        return None
    return IN_DOUBT if is_majority(present | is_open, before.members) else MINORITY


def is_majority(present: set[str], electors: Members) -> bool:
    """More than half of the electors, or exactly half with the oldest."""
    doubled = 2 * len(present.intersection(electors))
    return doubled > len(electors) or (doubled == len(electors) and electors[0] in present)


def _place(row: Mapping[str, Any]) -> Place:
    return {"log": row["log"], "index": row["index"]}


def _order(place: Place) -> tuple[int, int]:
    return place["log"], place["index"]
