"""The shared preparation: all messages of a run by send run, who is owed them, and the causal order among them.

All messages of a send run have the same past, but for the run's own earlier ones; `antiphon.pipeline.audit.past` says
how pasts are kept. A log that is open gets one more run without end for what it may have sent after its record. Which
part of the past counts where messages are lost is the affair of `antiphon.pipeline.audit.lost`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from antiphon.pipeline.audit.contents import ContentIndex, SentContents, contents_of
from antiphon.pipeline.audit.departures import NOT_LEFT
from antiphon.pipeline.audit.logs import ENDLESS, MISSING, LogFacts
from antiphon.pipeline.audit.parting import Parting
from antiphon.pipeline.audit.past import Past, Sources, direct_past, raise_to_full
from antiphon.pipeline.audit.recoveries import GroupRecoveries
from antiphon.pipeline.audit.rows import ABCAST_RANK, Key
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.domains import domain_of
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, difference, intersection, span, union

NO_ROW: Final = -1


@dataclass
class LostMessages:
    """The lost messages of one key, and in whose strong past they are."""

    spans: Spans
    sent_before: Ints
    """Per send run: up to which number they are in its strong past, because a message sent after them is."""
    told: list[tuple[Spans, int, int]]
    """Some of them, a teller (a line of `Order.told`), and the row by which it delivered them below causal."""


class WrittenOff(NamedTuple):
    """Numbers of a key that a process is not owed any more, as intervals, and from which row on.

    ENDLESS is at the end."""

    starts: Ints
    ends: Ints
    row: Ints


class OrderLabel(NamedTuple):
    """A label that orders messages."""

    text: str
    is_queue: bool
    """Of messages at level abcast; others are compared."""


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
    """In which they left, or NOT_LEFT, also for what is off record."""
    audience: Ints
    """A place in `audiences`, or -1 for what is off record."""
    narrow: Ints
    """A place in `destinations`, or -1 where none are named."""
    label: Ints
    """A place in `labels`, or -1 where none orders the messages."""
    uncertain: Mask
    """What left in a view that no view row describes, so that nobody knows who was owed it."""
    past: Past
    """The full past of each send run, once the order is closed."""
    audiences: list[frozenset[str]]
    destinations: list[frozenset[str]]
    labels: list["OrderLabel"]
    joined: frozenset[tuple[str, str]]
    """(group, process) of all view rows."""
    missing: frozenset[str]
    unseen: frozenset[tuple[str, str]]
    """(group, process) of those that may have been in views of the group that are not on record."""
    contents: list[SentContents]
    """Of each key, what its sender sent."""
    parted: frozenset[str] = frozenset()
    """The groups whose views part and merge."""
    partings: dict[str, Parting] = field(default_factory=dict)
    """Of these groups, what is in one order everywhere."""
    written_off: dict[tuple[str, int], WrittenOff] = field(default_factory=dict)
    """By process and key, in these groups (`antiphon.pipeline.audit.components`)."""
    recoveries: dict[str, GroupRecoveries] = field(default_factory=dict)
    """By group, where an operator tore a view of it."""
    left_open: dict[tuple[str, int], WrittenOff] = field(default_factory=dict)
    """By process and key, in these groups: of what nobody can say from some row on whether the process is owed it."""
    lost: dict[int, "LostMessages"] = field(default_factory=dict)
    """By key, where they make a difference."""
    told: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))
    """A line for each who told of lost messages: the last row by which it sent what is in a send run's strong past."""
    first_run: Ints = field(init=False)
    """Where the send runs of each key begin; one entry more than keys."""
    places: dict[Key, int] = field(init=False)
    """Each key's place in `keys`."""
    _owed: dict[tuple[str, int], Spans] = field(init=False, default_factory=dict)
    _perhaps: dict[tuple[str, int], Spans] = field(init=False, default_factory=dict)
    _off_record: Mask | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.places = {key: place for place, key in enumerate(self.keys)}
        self.first_run = self.past.sources.first_run

    @cached_property
    def content_index(self) -> ContentIndex:
        """The contents of all keys."""
        return ContentIndex.of(self.contents)

    def run_of(self, place: int, numbers: Ints) -> Ints:
        """The send run that holds each number of a key; the numbers must have been sent."""
        first, end = int(self.first_run[place]), int(self.first_run[place + 1])
        found: Ints = first + self.start[first:end].searchsorted(numbers, "right") - 1
        return found

    def owed(self, process: str, place: int) -> Spans:
        """The numbers of a key that a process is owed."""
        if (process, place) not in self._owed:
            self._owed[process, place] = self._find_owed(process, place)
        return self._owed[process, place]

    def still_owed(self, process: str, place: int) -> Spans:
        """Those that it is owed in the end."""
        off = self.written_off.get((process, place))
        owed = self.owed(process, place)
        return owed if off is None else difference(owed, union((off.starts, off.ends)))

    def perhaps_owed(self, process: str, place: int) -> Spans:
        """The numbers of a key that a process may have been owed, beside those that it is."""
        if (process, place) not in self._perhaps:
            self._perhaps[process, place] = self._find_perhaps(process, place)
        return self._perhaps[process, place]

    def open_to(self, process: str, place: int) -> Spans:
        """The numbers of a key that a process is owed, but for an operator's word, which leaves it open in the end."""
        off = self.left_open.get((process, place))
        return EMPTY if off is None else intersection(self.owed(process, place), union((off.starts, off.ends)))

    def _find_perhaps(self, process: str, place: int) -> Spans:
        runs = slice(self.first_run[place], self.first_run[place + 1])
        if not self.uncertain[runs].any() or not self._is_held(process, place):
            return EMPTY
        group = self.keys[place][0]
        if group in self.parted and (group, process) not in self.unseen:
            return EMPTY  # whoever was in a view has a row of it
        included = np.array([*(process in meant for meant in self.destinations), True])  # the last: none named
        chosen = self.uncertain[runs] & included[self.narrow[runs]]
        return union((self.start[runs][chosen], self.end[runs][chosen]))

    def _is_held(self, process: str, place: int) -> bool:
        """Whether the process has been in the group of a key, as far as is known."""
        return (self.keys[place][0], process) in self.joined or process in self.missing

    def undescribed(self) -> list[tuple[str, str, int]]:
        """Group, sender and view of what left in a view that no view row describes."""
        found = {(*self.keys[self.key[run]], int(self.view[run])) for run in np.flatnonzero(self.uncertain).tolist()}
        return sorted(found)

    def settle(self, processes: Iterable[str]) -> None:
        """Find all that may be asked of it, so that nobody it is sent to has to."""
        self.off_record()
        _ = self.content_index
        for process in processes:
            for place in range(len(self.keys)):
                self.owed(process, place)
                self.perhaps_owed(process, place)

    def _find_owed(self, process: str, place: int) -> Spans:
        if not self._is_held(process, place):
            return EMPTY
        if all(process in audience for audience in self.audiences):
            return span(1, int(self.sent[place]) + 1)
        runs = slice(self.first_run[place], self.first_run[place + 1])
        included = np.array([*(process in audience for audience in self.audiences), False])  # the last: off record
        chosen = included[self.audience[runs]]
        return union((self.start[runs][chosen], self.end[runs][chosen]))

    def off_record(self) -> Mask:
        """Which send runs are, or have in their past, something off record."""
        if self._off_record is None:
            result: Mask = self.index == NO_ROW
            for source in self.past.sources.off_record:
                if source >= 0:
                    result = result | (self.past.counts[:, source] > 0)
            self._off_record = result
        return self._off_record


def never_sent(logs: Mapping[str, LogFacts]) -> dict[Key, int]:
    """Of which keys more was delivered than a complete log sent, and how much was sent."""
    beyond: dict[Key, int] = {}
    for log in logs.values():
        for (group, sender), spans in log.delivered.items():
            known = logs[sender].sent.get(group, 0)
            if not logs[sender].open and int(spans.ends[-1]) - 1 > known:
                beyond[group, sender] = known
    return beyond


def make_order(
    run: str,
    logs: Mapping[str, LogFacts],
    domains: Mapping[str, str] | None = None,
    parted: frozenset[str] = frozenset(),
) -> Order:
    """Put a run together. `domains`: among which groups causal order holds; without them, among all. `parted`: the
    groups whose views part and merge."""
    sent = {(group, process): count for process, log in logs.items() for group, count in log.sent.items()}
    keys = sorted(sent.keys() | {key for log in logs.values() for key in log.delivered})
    places = {key: place for place, key in enumerate(keys)}
    groups = {group for group, _ in keys}
    audiences = _Audiences(logs, parted)
    collected = [_runs_of(log, places, audiences) for log in logs.values()]
    columns = [np.concatenate(parts) for parts in zip(*collected, strict=True)]
    sorting = np.lexsort((columns[1], columns[0]))
    key, start, end, index, time_ns, view, audience, narrow, label, place = (column[sorting] for column in columns)
    of_key = np.array([sent.get(known, 0) for known in keys], np.int64)
    domain = _domains_of_keys(keys, domains or {})
    sources = _make_sources(keys, logs, domain, key, start, end, index, place, of_key)
    return Order(
        run=run,
        keys=keys,
        sent=of_key,
        open_keys=np.array([logs[sender].open for _, sender in keys], bool),
        key=key,
        start=start,
        end=end,
        index=index,
        time_ns=time_ns,
        view=view,
        audience=audience,
        narrow=narrow,
        label=label,
        uncertain=_uncertain(keys, key, view, audiences),
        past=direct_past(logs, keys, sources, "reach"),
        audiences=audiences.members.sets,
        destinations=audiences.destinations.sets,
        labels=list(audiences.labels),
        joined=audiences.joined,
        missing=frozenset(process for process, log in logs.items() if log.ending == MISSING),
        unseen=frozenset((group, name) for group in groups for name, log in logs.items() if log.lacks_views(group)),
        contents=[contents_of(logs[sender], group) for group, sender in keys],
        parted=parted,
    )


def close(order: Order) -> None:
    """Raise the direct past to the full one."""
    raise_to_full(order.past, order.time_ns)


def _uncertain(keys: list[Key], key: Ints, view: Ints, audiences: "_Audiences") -> Mask:
    """Which send runs left in a view that no view row describes; what is off record has no view."""
    described = [audiences.described(group) for group, _ in keys]
    result: Mask = view != NOT_LEFT
    for place, views in enumerate(described):
        own = key == place
        result[own] &= ~np.isin(view[own], views)
    return result


def _domains_of_keys(keys: list[Key], domains: Mapping[str, str]) -> Ints:
    """The domain of each key, as a number."""
    names: dict[str, int] = {}
    return np.array([names.setdefault(domain_of(domains, group), len(names)) for group, _ in keys], np.int64)


def _make_sources(
    keys: list[Key],
    logs: Mapping[str, LogFacts],
    domain: Ints,
    key: Ints,
    start: Ints,
    end: Ints,
    index: Ints,
    place: Ints,
    sent: Ints,
) -> Sources:
    """One source per sender and domain, and one for each key of an open log.

    `domain` is that of each key; `key` and so on are columns of all send runs; `place` orders those of a source.
    """
    senders: dict[tuple[str, int], int] = {}
    of_key = np.array(
        [senders.setdefault((sender, of), len(senders)) for (_, sender), of in zip(keys, domain.tolist(), strict=True)],
        np.int64,
    )
    is_open = np.array([logs[sender].open for _, sender in keys], bool)
    off_record = np.where(is_open, len(senders) + np.cumsum(is_open) - 1, -1)
    source = np.where(index == NO_ROW, off_record[key], of_key[key]) if len(keys) else key
    along = np.lexsort((index, place, source))
    bounds = np.searchsorted(source[along], np.arange(len(senders) + int(is_open.sum()) + 1))
    runs = [along[first:last] for first, last in pairwise(bounds)]
    begin = np.zeros(len(key), np.int64)
    for own in runs:
        begin[own[1:]] = np.cumsum(end[own[:-1]] - start[own[:-1]])
    first_run = np.searchsorted(key, np.arange(len(keys) + 1))
    return Sources(of_key, off_record, runs, begin, start, first_run, sent, domain)


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

    def __init__(self, logs: Mapping[str, LogFacts], parted: frozenset[str]) -> None:
        views: dict[tuple[str, int], set[str]] = defaultdict(set)
        installed: dict[tuple[str, int], set[str]] = defaultdict(set)
        joined: set[tuple[str, str]] = set()
        for process, log in logs.items():
            for piece in log.pieces:
                for view in piece["views"]:
                    views[view["group"], view["view"]].update(view["members"])
                    joined.add((view["group"], process))
                    installed[view["group"], view["view"]].add(process)
        missing = {process for process, log in logs.items() if log.ending == MISSING}
        for name, members in views.items():
            if name[0] in parted:
                members &= installed[name] | missing
        self.joined = frozenset(joined)
        self.members = _Sets()
        self.destinations = _Sets()
        self.labels: dict[OrderLabel, int] = {}
        """Those that order messages, numbered."""
        self._views = {view: frozenset(members) for view, members in views.items()}

    def described(self, group: str) -> list[int]:
        """The ids of the views of a group that view rows describe."""
        return [view for of, view in self._views if of == group]

    def places(self, group: str, view: int, destinations: list[str] | None) -> tuple[int, int]:
        """The place among the audiences, and among the destinations, or -1."""
        meant = None if destinations is None else frozenset(destinations)
        narrow = -1 if meant is None else self.destinations.place(meant)
        members = self._views.get((group, view), frozenset())  # not left, or in a view that no view row describes
        return self.members.place(members if meant is None else members & meant), narrow


_Columns = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]


def _runs_of(log: LogFacts, places: Mapping[Key, int], audiences: _Audiences) -> _Columns:
    """The send runs of one log as columns: key, start, end, index, time, view, audience, destinations, label, place."""
    columns: list[_Columns] = [(np.empty(0, np.int64),) * 10]
    for piece in log.pieces:
        key = np.array([places[group, log.process] for group in piece["send_groups"]], np.int64)[piece["send_group"]]
        audience, narrow = _meant(piece, audiences)
        number, end = piece["send_number"], piece["send_number"] + piece["send_count"]
        index, time_ns, view = piece["send_index"], piece["send_time_ns"], piece["send_view"]
        label = _labels(piece, audiences.labels)
        columns.append((key, number, end, index, time_ns, view, audience, narrow, label, piece["send_order"]))
    if log.open:
        columns.append(_off_record_runs(log, places))
    key, start, end, index, time_ns, view, audience, narrow, label, place = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    return key, start, end, index, time_ns, view, audience, narrow, label, place


def _labels(piece: Summary, labels: dict[OrderLabel, int]) -> Ints:
    """Which label each send run of a piece has, or -1; new ones are added."""
    if not piece["send_labels"]:
        return np.full(len(piece["send_number"]), -1)
    codes, which = np.unique(
        np.where(piece["send_label"] < 0, -1, 2 * piece["send_label"] + (piece["send_level"] == ABCAST_RANK)),
        return_inverse=True,
    )
    places = np.full(len(codes), -1)
    for at, code in enumerate(codes.tolist()):
        if code >= 0:
            label = OrderLabel(piece["send_labels"][code // 2], bool(code % 2))
            places[at] = labels.setdefault(label, len(labels))
    result: Ints = places[which]
    return result


def _meant(piece: Summary, audiences: _Audiences) -> tuple[Ints, Ints]:
    """For whom each send run of a piece was: places among the audiences, and among the destinations, or -1.

    There are few views and few sets of destinations: each combination is looked at once, as it first occurs.
    """
    sets = [*piece["send_destination_sets"], None]
    views, view = np.unique(piece["send_view"], return_inverse=True)
    codes = (piece["send_group"] * len(views) + view) * len(sets) + piece["send_destinations"] % len(sets)
    found, first, which = np.unique(codes, return_index=True, return_inverse=True)
    meant = np.empty((len(found), 2), np.int64)
    for place in np.argsort(first).tolist():
        group, rest = divmod(int(found[place]), len(views) * len(sets))
        view_place, destinations = divmod(rest, len(sets))
        meant[place] = audiences.places(piece["send_groups"][group], int(views[view_place]), sets[destinations])
    audience, narrow = meant[which].T
    return audience, narrow


def _off_record_runs(log: LogFacts, places: Mapping[Key, int]) -> _Columns:
    """What an open log may have sent after its record: one endless run for each of its keys."""
    own = [(place, log.sent.get(group, 0)) for (group, sender), place in places.items() if sender == log.process]
    key = np.array([place for place, _ in own], np.int64)
    start = np.array([count + 1 for _, count in own], np.int64)
    nothing = np.full(len(own), NO_ROW)
    return key, start, np.full(len(own), ENDLESS), *(nothing,) * 7
