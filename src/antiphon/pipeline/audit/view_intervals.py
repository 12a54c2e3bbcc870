"""In which views each process was, and what it delivered in each: put together from the summaries."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.missed import MissedMessages
from antiphon.pipeline.audit.rows import AGREED_RANK, SAFE_RANK
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
    told: int | None = None
    """The index of the first note that an operator has the process go on without a majority."""
    untold_safe: dict[str, Spans] = field(default_factory=dict)
    """What was delivered as safe before that note, where there is one."""


@dataclass
class IntervalPart:
    """What was delivered in a part of a view interval, by sender."""

    delivered: dict[str, Spans] = field(default_factory=dict)
    agreed: dict[str, Spans] = field(default_factory=dict)
    safe: dict[str, Spans] = field(default_factory=dict)


class LogStretch(NamedTuple):
    """Where a log is in a group: between two rows that cut up what was delivered."""

    place: int
    """Which view interval of the process it is, or -1 before the first."""
    is_late: bool = False
    """Behind a transitional row."""
    is_told: bool = False
    """Behind an operator's word."""


NOWHERE: Final = LogStretch(-1)


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
    missed: MissedMessages | None = None
    """Who lacks which messages, where violations are such, or some of them."""


GroupIntervals = Mapping[str, list[ViewInterval]]
"""The view intervals of each process in one group, in order; the processes in the order of their logs."""


def view_intervals_of(log: LogFacts) -> dict[str, list[ViewInterval]]:
    """By group. What was delivered before the first view row of its group belongs to no interval."""
    view_intervals: dict[str, list[ViewInterval]] = {}
    parts: dict[tuple[str, LogStretch, int | None, str], list[Spans]] = defaultdict(list)
    completed_end = log.completed_ends()
    last: dict[str, LogStretch] = {}
    """By group: where the log is."""
    for piece in log.pieces:
        stretches: dict[str, list[LogStretch]] = {}
        begins = {(view["group"], view["index"]) for view in piece["views"]}
        words = {(note["group"], note["index"]) for note in piece["recovers"]}
        for cut in cuts_of(piece["views"], piece["transitions"], piece["recovers"]):
            group, index = cut["group"], cut["index"]
            here = stretches.setdefault(group, [last.get(group, NOWHERE)])
            if (group, index) in begins:
                own = view_intervals.setdefault(group, [])
                own.append(ViewInterval(cut["view"], tuple(cut["members"]), index, index < completed_end[group]))
                last[group] = LogStretch(len(own) - 1)
            elif group in view_intervals and (group, index) in words:
                interval = view_intervals[group][-1]
                interval.told = index if interval.told is None else interval.told
                last[group] = last[group]._replace(is_told=True)
            elif group in view_intervals:
                interval = view_intervals[group][-1]
                if interval.transit is None:
                    interval.transit, interval.mates = index, tuple(cut["members"])
                last[group] = last[group]._replace(is_late=True)
            here.append(last.get(group, NOWHERE))
        whole = [entry | {"stretch": 0} for entry in piece["delivered"] if entry["group"] not in stretches]
        for entry in (*whole, *piece["stretches"], *piece["ordered"]):
            group = entry["group"]
            stretch = stretches.get(group, [last.get(group, NOWHERE)])[entry["stretch"]]
            if stretch.place >= 0:
                parts[group, stretch, entry.get("level"), entry["sender"]].append(Spans(entry["starts"], entry["ends"]))
    for (group, stretch, level, sender), spans in parts.items():
        interval, together = view_intervals[group][stretch.place], union(*spans)
        of_part = _part(interval.late if stretch.is_late else interval.regular, level)
        for known in (of_part, _part(interval, level)):
            known[sender] = union(known.get(sender, EMPTY), together)
        if level == SAFE_RANK and interval.told is not None and not stretch.is_told:
            interval.untold_safe[sender] = union(interval.untold_safe.get(sender, EMPTY), together)
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
