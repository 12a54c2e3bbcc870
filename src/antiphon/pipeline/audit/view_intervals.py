"""In which views each process was, and what it delivered in each: put together from the summaries."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.rows import AGREED_RANK
from antiphon.pipeline.audit.summary import cuts_of
from antiphon.pipeline.explain import MessageName
from antiphon.pipeline.intervals import EMPTY, Spans, union

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
    transit: int | None = None
    """The index of its first transitional row…"""
    mates: tuple[str, ...] = ()
    """…and the members that it names."""
    regular: "IntervalPart" = field(default_factory=lambda: IntervalPart())
    """What was delivered before that row…"""
    late: "IntervalPart" = field(default_factory=lambda: IntervalPart())
    """…and behind it."""


@dataclass
class IntervalPart:
    """What was delivered in a part of a view interval, by sender."""

    delivered: dict[str, Spans] = field(default_factory=dict)
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
    view_intervals: dict[str, list[ViewInterval]] = {}
    parts: dict[tuple[str, int, bool, int | None, str], list[Spans]] = defaultdict(list)
    completed_end = log.completed_ends()
    last: dict[str, tuple[int, bool]] = {}
    """By group: the interval that lasts, and whether it is behind its transitional row."""
    for piece in log.pieces:
        stretches: dict[str, list[tuple[int, bool]]] = {}
        begins = {(view["group"], view["index"]) for view in piece["views"]}
        for cut in cuts_of(piece["views"], piece["transitions"]):
            group, index = cut["group"], cut["index"]
            here = stretches.setdefault(group, [last.get(group, (-1, False))])
            if (group, index) in begins:
                own = view_intervals.setdefault(group, [])
                own.append(ViewInterval(cut["view"], tuple(cut["members"]), index, index < completed_end[group]))
                last[group] = (len(own) - 1, False)
            elif group in view_intervals:
                interval = view_intervals[group][-1]
                if interval.transit is None:
                    interval.transit, interval.mates = index, tuple(cut["members"])
                last[group] = (len(view_intervals[group]) - 1, True)
            here.append(last.get(group, (-1, False)))
        whole = [entry | {"stretch": 0} for entry in piece["delivered"] if entry["group"] not in stretches]
        for entry in (*whole, *piece["stretches"], *piece["ordered"]):
            group = entry["group"]
            place, is_late = stretches.get(group, [last.get(group, (-1, False))])[entry["stretch"]]
            if place >= 0:
                which = (group, place, is_late, entry.get("level"), entry["sender"])
                parts[which].append(Spans(entry["starts"], entry["ends"]))
    for (group, place, is_late, level, sender), spans in parts.items():
        interval, together = view_intervals[group][place], union(*spans)
        _part(interval.late if is_late else interval.regular, level)[sender] = together
        whole_interval = _part(interval, level)
        whole_interval[sender] = union(whole_interval.get(sender, EMPTY), together)
    return view_intervals


def _part(interval: ViewInterval | IntervalPart, level: int | None) -> dict[str, Spans]:
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
