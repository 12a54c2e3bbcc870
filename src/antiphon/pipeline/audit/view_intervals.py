"""In which views each process was, and what it delivered in each: put together from the summaries."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.rows import AGREED_RANK
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.intervals import Spans, union

Event = tuple[str, int]
"""A row: ("name/incarnation", index)."""


@dataclass
class ViewInterval:
    """One process in one view of one group: from one of its view rows to the next."""

    view: int
    members: tuple[str, ...]
    index: int
    """Of the view row."""
    completed: bool
    delivered: dict[str, Spans] = field(default_factory=dict)
    """By sender."""
    agreed: dict[str, Spans] = field(default_factory=dict)
    safe: dict[str, Spans] = field(default_factory=dict)


class Presence(NamedTuple):
    """What the second pass must know of a view interval."""

    begin: int
    """The index of the view row."""
    view: int
    dropped: frozenset[str]
    """Who was in an earlier view of the process, and is not in this one."""


class ViewViolation(NamedTuple):
    """What shows a violation."""

    text: str
    events: tuple[Event, ...]
    deliveries: tuple[tuple[str, MessageName], ...] = ()
    """Processes and messages: their first deliveries come before the events."""


class ViewCounts(NamedTuple):
    """What a check of whole views finds in one group."""

    violations: int
    unknown: int
    checked: int
    first_violation: ViewViolation | None
    roots: int


GroupIntervals = Mapping[str, list[ViewInterval]]
"""The view intervals of each process in one group, in order; the processes in the order of their logs."""


def view_intervals_of(log: LogFacts) -> dict[str, list[ViewInterval]]:
    """By group. What was delivered before the first view row of its group belongs to no interval."""
    view_intervals: dict[str, list[ViewInterval]] = defaultdict(list)
    parts: dict[tuple[str, int, int | None, str], list[Spans]] = defaultdict(list)
    completed_end = log.completed_ends()
    for piece in log.pieces:
        before = {group: len(own) for group, own in view_intervals.items()}
        for view in piece["views"]:
            completed = view["index"] < completed_end[view["group"]]
            view_intervals[view["group"]].append(
                ViewInterval(view["view"], tuple(view["members"]), view["index"], completed)
            )
        changed = {view["group"] for view in piece["views"]}
        whole = [entry | {"stretch": 0} for entry in piece["delivered"] if entry["group"] not in changed]
        for entry in (*whole, *piece["stretches"], *piece["ordered"]):
            place = before.get(entry["group"], 0) + entry["stretch"] - 1
            if place >= 0:
                which = (entry["group"], place, entry.get("level"), entry["sender"])
                parts[which].append(Spans(entry["starts"], entry["ends"]))
    for (group, place, level, sender), spans in parts.items():
        _part(view_intervals[group][place], level)[sender] = union(*spans)
    return view_intervals


def _part(interval: ViewInterval, level: int | None) -> dict[str, Spans]:
    """Where to put down what was delivered, or what of it was agreed or safe."""
    return interval.delivered if level is None else interval.agreed if level == AGREED_RANK else interval.safe


def view_intervals_by_group(logs: Mapping[str, LogFacts]) -> dict[str, dict[str, list[ViewInterval]]]:
    """group → process → view intervals; the groups by name."""
    result: dict[str, dict[str, list[ViewInterval]]] = defaultdict(dict)
    for process, log in logs.items():
        for group, view_intervals in view_intervals_of(log).items():
            result[group][process] = view_intervals
    return dict(sorted(result.items()))


def presences_of(log: LogFacts) -> Iterator[dict[str, tuple[Presence, ...]]]:
    """For each piece, by group: the presence in which it begins, if any, and those that begin in it."""
    former: dict[str, frozenset[str]] = {}
    last: dict[str, tuple[Presence, ...]] = {}
    for piece in log.pieces:
        here = dict(last)
        for view in piece["views"]:
            group, members = view["group"], frozenset(view["members"])
            presence = Presence(view["index"], view["view"], former.get(group, frozenset()) - members)
            former[group] = former.get(group, frozenset()) | members
            here[group] = (*here.get(group, ()), presence)
        yield here
        last = {group: presences[-1:] for group, presences in here.items()}
