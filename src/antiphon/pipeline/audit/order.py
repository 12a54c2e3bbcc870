"""The shared preparation: the causal order of a run's messages, as vectors.

The messages of one *key* (group and sender) are causally ordered among themselves. So the past of a message is fully
told by one number per key: how many of that key's messages lie in it. The direct past comes from the summaries: the
highest number that the sender had delivered of each key, and what it had sent itself. The full past is the closure:
V(m) is raised to V(x) for the highest message x of every key in V(m), until nothing changes; each round doubles the
length of the chains that are covered. Where every process delivered in causal order, one round finds nothing to do.

All messages of a send run have the same past, but for the run's own earlier ones. A log that is open gets one more run
without end for what it may have sent after its record. Which part of the past counts where messages are lost is the
affair of `antiphon.pipeline.audit.lost`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.audit.logs import ENDLESS, MISSING, LogFacts
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, span, union

NO_ROW: Final = -1


@dataclass
class LostMessages:
    """The lost messages of one key, and in whose strong past they are."""

    spans: Spans
    sent_before: Ints
    """Per send run: up to which number they are in its strong past, because a message sent after them is."""
    told: list[tuple[Spans, int, int]]
    """Some of them, a teller (a line of `Order.told`), and the row by which it delivered them below causal."""


@dataclass
class Order:
    """One run, ready to be judged. The send runs are sorted by key and number."""

    run: str
    keys: list[Key]
    sent: Ints
    """How many messages of each key are on record."""
    open_keys: Mask
    """Whose sender's log is open."""
    key: Ints
    start: Ints
    end: Ints
    index: Ints
    """Of the send row, or NO_ROW for what is off record."""
    time_ns: Ints
    view: Ints
    """That the send row names, or NO_ROW."""
    audience: Ints
    """A place in `audiences`, or -1 for what is off record."""
    narrow: Ints
    """A place in `destinations`, or -1 where none are named."""
    direct: Ints
    """The direct past: one line per send run, one column per key."""
    past: Ints
    """The full past."""
    audiences: list[frozenset[str]]
    destinations: list[frozenset[str]]
    joined: frozenset[tuple[str, str]]
    """(group, process) of all view rows."""
    missing: frozenset[str]
    sorting: Ints
    """How the send runs came to their order, from that of the logs."""
    lost: dict[int, "LostMessages"] = field(default_factory=dict)
    """By key, where they make a difference."""
    told: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))
    """A line for each who told of lost messages: the last row by which it sent what is in a send run's strong past."""
    first_run: Ints = field(init=False)
    """Where the send runs of each key begin; one entry more than keys."""

    places: dict[Key, int] = field(init=False)
    """Each key's place in `keys`."""

    def __post_init__(self) -> None:
        self.places = {key: place for place, key in enumerate(self.keys)}
        self.first_run = np.searchsorted(self.key, np.arange(len(self.keys) + 1))

    def run_of(self, place: int, numbers: Ints) -> Ints:
        """The send run that holds each number of a key; the numbers must have been sent."""
        first, end = int(self.first_run[place]), int(self.first_run[place + 1])
        found: Ints = first + np.searchsorted(self.start[first:end], numbers, "right") - 1
        return found

    def owed(self, process: str, place: int) -> Spans:
        """The numbers of a key that a process is owed."""
        if (self.keys[place][0], process) not in self.joined and process not in self.missing:
            return EMPTY
        if all(process in audience for audience in self.audiences):
            return span(1, int(self.sent[place]) + 1)
        runs = slice(self.first_run[place], self.first_run[place + 1])
        included = np.array([*(process in audience for audience in self.audiences), False])  # the last: off record
        chosen = included[self.audience[runs]]
        return union((self.start[runs][chosen], self.end[runs][chosen]))

    def off_record(self) -> Mask:
        """Which send runs are, or have in their past, something off record."""
        result: Mask = self.index == NO_ROW
        for place in np.flatnonzero(self.open_keys):
            result = result | (self.past[:, place] > self.sent[place])
        return result


def delivered_by(log: LogFacts) -> dict[Key, Spans]:
    """Everything that a process delivered, by key."""
    parts: dict[Key, list[Spans]] = defaultdict(list)
    for piece in log.pieces:
        for entry in piece["delivered"]:
            parts[entry["group"], entry["sender"]].append(Spans(entry["starts"], entry["ends"]))
    return {key: union(*spans) for key, spans in parts.items()}


def sent_by(log: LogFacts) -> dict[str, int]:
    """How many messages a process sent to each group; refuses numbers that do not follow each other."""
    sent: dict[str, int] = defaultdict(int)
    for piece in log.pieces:
        for group, number, count in zip(piece["send_group"], piece["send_number"], piece["send_count"], strict=True):
            if number != sent[group] + 1:
                raise UnusableHistoryError(
                    None,
                    f"the log of {log.process} sends message {number} to {group} where {sent[group] + 1} should come; "
                    "a sender numbers its messages to a group 1, 2, 3…",
                )
            sent[group] += int(count)
    return sent


def never_sent(logs: Mapping[str, LogFacts]) -> dict[Key, int]:
    """Of which keys more was delivered than a complete log sent, and how much was sent."""
    sent = {process: sent_by(log) for process, log in logs.items()}
    beyond: dict[Key, int] = {}
    for log in logs.values():
        for (group, sender), spans in delivered_by(log).items():
            known = sent[sender].get(group, 0)
            if not logs[sender].open and int(spans.ends[-1]) - 1 > known:
                beyond[group, sender] = known
    return beyond


def make_order(run: str, logs: Mapping[str, LogFacts]) -> Order:
    """Put a run together."""
    sent = {(group, process): count for process, log in logs.items() for group, count in sent_by(log).items()}
    keys = sorted(sent.keys() | {key for log in logs.values() for key in delivered_by(log)})
    places = {key: place for place, key in enumerate(keys)}
    audiences = _Audiences(logs)
    collected = [_runs_of(log, places, audiences) for log in logs.values()]
    columns = [np.concatenate(parts) for parts in zip(*collected, strict=True)]
    sorting = np.lexsort((columns[1], columns[0]))
    key, start, end, index, time_ns, view, audience, narrow = (column[sorting] for column in columns)
    direct = direct_past(logs, keys, "reach")[sorting]
    return Order(
        run=run,
        keys=keys,
        sent=np.array([sent.get(known, 0) for known in keys], np.int64),
        open_keys=np.array([logs[sender].open for _, sender in keys], bool),
        key=key,
        start=start,
        end=end,
        index=index,
        time_ns=time_ns,
        view=view,
        audience=audience,
        narrow=narrow,
        direct=direct,
        past=direct,
        audiences=audiences.members.sets,
        destinations=audiences.destinations.sets,
        joined=audiences.joined,
        missing=frozenset(process for process, log in logs.items() if log.ending == MISSING),
        sorting=sorting,
    )


def close(order: Order) -> None:
    """Raise the direct past to the full one."""
    order.past = closure(order, order.direct)


def closure(order: Order, direct: Ints) -> Ints:
    """What is known by any number of steps, if `direct` is what is known by one."""
    known = direct
    while True:
        further = known.copy()
        for place in range(len(order.keys)):
            rows = np.flatnonzero(known[:, place])
            through = order.run_of(place, known[rows, place])
            further[rows] = np.maximum(further[rows], known[through])
        if np.array_equal(further, known):
            return known
        known = further


class _Sets:
    """Distinct sets of processes, numbered."""

    def __init__(self) -> None:
        self.sets: list[frozenset[str]] = []
        self._places: dict[frozenset[str], int] = {}

    def place(self, members: frozenset[str]) -> int:
        if members not in self._places:
            self._places[members] = len(self.sets)
            self.sets.append(members)
        return self._places[members]


class _Audiences:
    """Who is meant by a view and its destinations."""

    def __init__(self, logs: Mapping[str, LogFacts]) -> None:
        views: dict[tuple[str, int], set[str]] = defaultdict(set)
        joined: set[tuple[str, str]] = set()
        for process, log in logs.items():
            for piece in log.pieces:
                for view in piece["views"]:
                    views[view["group"], view["view"]].update(view["members"])
                    joined.add((view["group"], process))
        self.joined = frozenset(joined)
        self.members = _Sets()
        self.destinations = _Sets()
        self._views = {view: frozenset(members) for view, members in views.items()}

    def places(self, sender: str, group: str, view: int, destinations: list[str] | None) -> tuple[int, int]:
        """The place among the audiences, and among the destinations, or -1."""
        if (group, view) not in self._views:
            raise UnusableHistoryError(None, f"{sender} sent to {group} in view {view}, which no view row describes")
        members = self._views[group, view]
        if destinations is None:
            return self.members.place(members), -1
        meant = frozenset(destinations)
        return self.members.place(members & meant), self.destinations.place(meant)


_Columns = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]


def _runs_of(log: LogFacts, places: Mapping[Key, int], audiences: _Audiences) -> _Columns:
    """The send runs of one log as columns: key, start, end, index, time, view, audience, destinations."""
    columns: list[_Columns] = [(np.empty(0, np.int64),) * 8]
    for piece in log.pieces:
        key = np.array([places[group, log.process] for group in piece["send_group"]], np.int64)
        meant = [
            audiences.places(log.process, *sent)
            for sent in zip(piece["send_group"], piece["send_view"].tolist(), piece["send_destinations"], strict=True)
        ]
        audience, narrow = np.array(meant, np.int64).reshape(-1, 2).T
        number, end = piece["send_number"], piece["send_number"] + piece["send_count"]
        columns.append(
            (key, number, end, piece["send_index"], piece["send_time_ns"], piece["send_view"], audience, narrow)
        )
    if log.open:
        columns.append(_off_record_runs(log, places))
    key, start, end, index, time_ns, view, audience, narrow = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    return key, start, end, index, time_ns, view, audience, narrow


def _off_record_runs(log: LogFacts, places: Mapping[Key, int]) -> _Columns:
    """What an open log may have sent after its record: one endless run for each of its keys."""
    sent = sent_by(log)
    own = [(place, sent.get(group, 0)) for (group, sender), place in places.items() if sender == log.process]
    key = np.array([place for place, _ in own], np.int64)
    start = np.array([count + 1 for _, count in own], np.int64)
    nothing = np.full(len(own), NO_ROW)
    return key, start, np.full(len(own), ENDLESS), *(nothing,) * 5


def direct_past(logs: Mapping[str, LogFacts], keys: Sequence[Key], reach: str) -> Ints:
    """What the sender of each send run had delivered and sent before, log by log.

    `reach` is the column of the summaries that says up to which number it had delivered.
    """
    places = {key: place for place, key in enumerate(keys)}
    lines: list[Ints] = [np.empty((0, len(keys)), np.int64)]
    for log in logs.values():
        known = np.zeros(len(keys), np.int64)
        for piece in log.pieces:
            direct = _direct_past(piece, log.process, known, places, reach)
            lines.append(direct[:-1])
            known = direct[-1]
        if log.open:
            lines.append(np.tile(known, (sum(sender == log.process for _, sender in keys), 1)))
    return np.concatenate(lines)


def _direct_past(piece: Summary, process: str, known: Ints, places: Mapping[Key, int], reach: str) -> Ints:
    """One line per send run of a piece, and one for what comes after it; `known` is that of what came before."""
    key = np.array([places[group, process] for group in piece["send_group"]], np.int64)
    direct = np.tile(known, (len(key) + 1, 1))
    reached = piece[reach] if len(piece[reach]) else piece["reach"]
    reached = reached.reshape(len(key) + 1, len(piece["delivered"]))
    for column, entry in enumerate(piece["delivered"]):
        place = places[entry["group"], entry["sender"]]
        direct[:, place] = np.maximum(direct[:, place], reached[:, column])
    for place in np.unique(key):
        own = np.maximum.accumulate(np.where(key == place, piece["send_number"] + piece["send_count"] - 1, 0))
        direct[1:, place] = np.maximum(direct[1:, place], own)
    return direct
