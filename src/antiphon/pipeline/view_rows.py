"""What view_agreement and primary are judged from, and how the first violation of one is put into words.

A view row is one process that installs one view. The two checks compare each row with those of other logs: row by row
(`antiphon.pipeline.view_counts`), or of an incremental audit as DataFrame operations (`antiphon.pipeline.view_frames`).
Both give counts, root causes, and the first violation in plain values.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.view_intervals import Event, ViewCounts, ViewViolation
from antiphon.pipeline.explain import (
    broken_chain_text,
    fork_text,
    members_differ_text,
    no_majority_text,
    not_in_view_text,
    view_falls_text,
)
from antiphon.pipeline.guarantees import PRIMARY, VIEW_AGREEMENT
from antiphon.pipeline.promises import Promises

VIEW_ROWS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "group", "process")),
        ("log", pa.int64()),  # the place of the log among those of the run, by name
        *((name, pa.int64()) for name in ("index", "view")),
        ("members", pa.list_(pa.string())),
    ]
)
GROUPS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "group")),
        *((guarantee, pa.bool_()) for guarantee in (VIEW_AGREEMENT, PRIMARY)),  # whether the group is held to it
        ("left", pa.list_(pa.string())),  # who left the group, or announced so
        ("open", pa.list_(pa.string())),  # whose logs do not tell of all their views: they are open, or say so
    ]
)

DIFFERS, FALLS, ABSENT = "differs", "falls", "absent"
FORK, MINORITY, GAP, IN_DOUBT = "fork", "minority", "gap", "in doubt"

Logs = Mapping[str, Mapping[str, LogFacts]]
"""run → process → log."""


class GroupCounts(NamedTuple):
    """What was found of one guarantee in one group of a run."""

    run: str
    group: str
    guarantee: str
    counts: ViewCounts


def view_rows(logs: Logs) -> list[dict[str, Any]]:
    """The view rows of all logs, as VIEW_ROWS has them; those of a log in order."""
    return [
        {"run": run, "process": process, "log": place, **view}
        for run, of_run in logs.items()
        for place, (process, log) in enumerate(of_run.items())
        for piece in log.pieces
        for view in piece["views"]
    ]


def held_groups(logs: Logs, promises: Promises) -> list[dict[str, Any]]:
    """The groups that have view rows and are held to anything here, as GROUPS has them."""
    rows: list[dict[str, Any]] = []
    for run, of_run in logs.items():
        announced = {name: {left for piece in log.pieces for left in piece["leaves"]} for name, log in of_run.items()}
        views = [view for log in of_run.values() for piece in log.pieces for view in piece["views"]]
        for group in sorted({view["group"] for view in views}):
            held = {guarantee: promises.holds(guarantee, run, group) for guarantee in (VIEW_AGREEMENT, PRIMARY)}
            left = [process for process, groups in announced.items() if not groups.isdisjoint((group, None))]
            unsure = [process for process, log in of_run.items() if log.lacks_views(group)]
            if any(held.values()):
                rows.append({"run": run, "group": group, **held, "left": left, "open": unsure})
    return rows


def first_violation(group: str, shown: Mapping[str, Any], processes: Sequence[str]) -> ViewViolation:
    """A violation in words; `processes` are those of the run, in the order of their logs."""

    def event(row: Mapping[str, int]) -> Event:
        return processes[row["log"]], row["index"]

    view = shown["view"]
    match shown["fault"]:
        case "fork":
            text = fork_text(group, view, shown["fork_members"], shown["members"])
            return ViewViolation(text, (event(shown["row"]), event(shown["fork_row"])))
        case "minority":
            text = no_majority_text(group, view, shown["present"], shown["electors"])
            return ViewViolation(text, (event(shown["row_before"]), event(shown["row"])))
        case "gap":
            return ViewViolation(broken_chain_text(group, view), (event(shown["row"]),))
    own = event(shown)
    match shown["fault"]:
        case "differs":
            standard = event(shown["standard_row"])
            text = members_differ_text(own[0], group, view, shown["members"], standard[0])
            return ViewViolation(text, (standard, own))
        case "falls":
            before = shown["before"]
            return ViewViolation(view_falls_text(own[0], group, view, before["view"]), ((own[0], before["index"]), own))
        case _:
            return ViewViolation(not_in_view_text(own[0], group, view, shown["members"]), (own,))
