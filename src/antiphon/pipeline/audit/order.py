"""The shared preparation: the causal order of a run's messages, as vectors.

The messages of one *key* (group and sender) are causally ordered among themselves. So the past of a message is fully
told by one number per key: how many of that key's messages lie in it. The direct past comes from the summaries: the
highest number that the sender had delivered of each key, and what it had sent itself. The full past is the closure:
V(m) is raised to V(x) for the highest message x of every key in V(m), until nothing changes; each round doubles the
length of the chains that are covered. Where every process delivered in causal order, one round finds nothing to do.

All messages of a send run have the same past, but for the run's own earlier ones. A log that is open gets one more run
without end for what it may have sent after its record.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from antiphon.history.errors import UnusableHistoryError
from antiphon.pipeline.audit.logs import MISSING, LogFacts
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.summary import Summary, highest_sent
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, span, union

ENDLESS: Final = np.iinfo(np.int64).max
NO_ROW: Final = -1


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
    direct: Ints
    """The direct past: one line per send run, one column per key."""
    past: Ints
    """The full past."""
    audiences: list[frozenset[str]]
    joined: frozenset[tuple[str, str]]
    """(group, process) of all view rows."""
    missing: frozenset[str]
    first_run: Ints = field(init=False)
    """Where the send runs of each key begin; one entry more than keys."""

    def __post_init__(self) -> None:
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


def make_order(run: str, logs: Mapping[str, LogFacts], limits: Mapping[Key, int]) -> Order:
    """Put a run together. `limits` are those that the summaries were made with."""
    sent = {(group, process): count for process, log in logs.items() for group, count in sent_by(log).items()}
    keys = sorted(sent.keys() | {key for log in logs.values() for key in delivered_by(log)})
    places = {key: place for place, key in enumerate(keys)}
    audiences = _Audiences(logs)
    collected = [_runs_of(log, places, audiences, limits) for log in logs.values()]
    columns = [np.concatenate(parts) for parts in zip(*collected, strict=True)]
    by_number = np.lexsort((columns[1], columns[0]))
    key, start, end, index, time_ns, view, audience, direct = (column[by_number] for column in columns)
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
        direct=direct,
        past=direct,
        audiences=audiences.members,
        joined=audiences.joined,
        missing=frozenset(process for process, log in logs.items() if log.ending == MISSING),
    )


def close(order: Order) -> None:
    """Raise the direct past to the full one."""
    while True:
        past = order.past.copy()
        for place in range(len(order.keys)):
            rows = np.flatnonzero(order.past[:, place])
            through = order.run_of(place, order.past[rows, place])
            past[rows] = np.maximum(past[rows], order.past[through])
        if np.array_equal(past, order.past):
            return
        order.past = past


class _Audiences:
    """Who is meant by a view and its destinations: the distinct sets, numbered."""

    def __init__(self, logs: Mapping[str, LogFacts]) -> None:
        views: dict[tuple[str, int], set[str]] = defaultdict(set)
        joined: set[tuple[str, str]] = set()
        for process, log in logs.items():
            for piece in log.pieces:
                for view in piece["views"]:
                    views[view["group"], view["view"]].update(view["members"])
                    joined.add((view["group"], process))
        self.joined = frozenset(joined)
        self.members: list[frozenset[str]] = []
        self._views = {view: frozenset(members) for view, members in views.items()}
        self._places: dict[frozenset[str], int] = {}

    def place(self, sender: str, group: str, view: int, destinations: list[str] | None) -> int:
        if (group, view) not in self._views:
            raise UnusableHistoryError(None, f"{sender} sent to {group} in view {view}, which no view row describes")
        members = self._views[group, view]
        if destinations is not None:
            members = members.intersection(destinations)
        if members not in self._places:
            self._places[members] = len(self.members)
            self.members.append(members)
        return self._places[members]


_Columns = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]


def _runs_of(log: LogFacts, places: Mapping[Key, int], audiences: _Audiences, limits: Mapping[Key, int]) -> _Columns:
    """The send runs of one log as columns: key, start, end, index, time, view, audience, direct past."""
    known = np.zeros(len(places), np.int64)
    columns: list[_Columns] = []
    for piece in log.pieces:
        key = np.array([places[group, log.process] for group in piece["send_group"]], np.int64)
        end = piece["send_number"] + piece["send_count"]
        audience = [
            audiences.place(log.process, *sent)
            for sent in zip(piece["send_group"], piece["send_view"].tolist(), piece["send_destinations"], strict=True)
        ]
        direct, known = _direct_past(piece, key, end, known, places, limits)
        columns.append(
            (
                *(key, piece["send_number"], end, piece["send_index"], piece["send_time_ns"]),
                *(piece["send_view"], np.array(audience, np.int64), direct),
            )
        )
    if log.open:
        columns.append(_off_record_runs(log, places, known))
    if not columns:
        empty = np.empty(0, np.int64)
        return (*(empty,) * 7, np.empty((0, len(places)), np.int64))
    key, start, end, index, time_ns, view, audiences_of, direct = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    return key, start, end, index, time_ns, view, audiences_of, direct


def _direct_past(
    piece: Summary, key: Ints, end: Ints, known: Ints, places: Mapping[Key, int], limits: Mapping[Key, int]
) -> tuple[Ints, Ints]:
    """The direct past of a piece's send runs, and of what comes after it; `known` is that of what came before."""
    direct = np.tile(known, (len(key), 1))
    after = known.copy()
    reach = piece["reach"].reshape(len(key), len(piece["delivered"]))
    for column, entry in enumerate(piece["delivered"]):
        place = places[entry["group"], entry["sender"]]
        direct[:, place] = np.maximum(direct[:, place], reach[:, column])
        highest = highest_sent(entry["starts"], entry["ends"], limits.get((entry["group"], entry["sender"])))
        after[place] = max(after[place], int(highest.max(initial=0)))
    for place in np.unique(key):
        own = np.maximum.accumulate(np.where(key == place, end - 1, 0))
        direct[1:, place] = np.maximum(direct[1:, place], own[:-1])
        after[place] = max(after[place], int(own[-1]))
    return direct, after


def _off_record_runs(log: LogFacts, places: Mapping[Key, int], known: Ints) -> _Columns:
    """What an open log may have sent after its record: one endless run for each of its keys."""
    sent = sent_by(log)
    own = [(place, sent.get(group, 0)) for (group, sender), place in places.items() if sender == log.process]
    key = np.array([place for place, _ in own], np.int64)
    start = np.array([count + 1 for _, count in own], np.int64)
    nothing = np.full(len(own), NO_ROW)
    return key, start, np.full(len(own), ENDLESS), *(nothing,) * 4, np.tile(known, (len(own), 1))
