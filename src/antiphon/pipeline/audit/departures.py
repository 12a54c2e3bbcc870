"""When messages left that did not leave at once: send runs are cut where depart rows say so.

A send row without a view was written at the call; its depart rows come later in the log, perhaps in another piece. Once
the pieces of a log are together, each such run is cut into parts that left in one view, or did not leave as far as is
known. The parts keep the row, the time and the past of the call.

What a process calls for is sent in the order of the calls (`send_order`, the index of the send row times PLACES), with
the exception that `antiphon.pipeline.reference_calls` tells: what waits in a group that stands still takes its place
behind calls below causal that left meanwhile.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from antiphon.history.start import parse_start
from antiphon.pipeline.audit.rows import CAUSAL_RANK, Texts
from antiphon.pipeline.audit.summary import SEND_COLUMNS, Summary
from antiphon.pipeline.domains import domain_of, domains_of
from antiphon.pipeline.intervals import Ints, Mask
from antiphon.pipeline.packing import pack, unpack

LAST: Final = 2**62
"""An index above that of every row."""
PLACES: Final = 2**10
"""Places for each row of a log, as in `reference_calls`."""
NOT_LEFT: Final = -1
"""In place of a view."""


def with_departures(pieces: Sequence[Summary]) -> tuple[Summary, ...]:
    """The pieces of one log, with views for all sends that left."""
    ordered = [{**piece, "send_order": PLACES * piece["send_index"]} for piece in pieces]
    if not any((piece["send_view"] == NOT_LEFT).any() for piece in pieces):
        return tuple(ordered)
    parts: dict[str, list[Ints]] = defaultdict(list)
    for piece in pieces:
        for place, group in enumerate(piece["depart_groups"]):
            own = piece["depart_group"] == place
            names = ("depart_number", "depart_count", "depart_view", "depart_index")
            parts[group].append(np.stack([piece[name][own] for name in names]))
    departures = {group: np.concatenate(own, axis=1) for group, own in parts.items()}
    cut = tuple(_cut(piece, departures) for piece in ordered)
    _move_stalled(cut, _stalls(pieces))
    return cut


def _stalls(pieces: Sequence[Summary]) -> dict[str, list[tuple[int, int]]]:
    """By group: from which row to which it stood still."""
    views: dict[str, list[int]] = defaultdict(list)
    for piece in pieces:
        for view in piece["views"]:
            views[view["group"]].append(view["index"])
    stalls: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for piece in pieces:
        for note in piece["stalled"]:
            end = next((index for index in views[note["group"]] if index > note["index"]), LAST)
            stalls[note["group"]].append((note["index"], end))
    return stalls


def _move_stalled(pieces: Sequence[Summary], stalls: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Let what waited while its group stood still take its place behind the calls that were allowed to overtake it."""
    if not stalls:
        return
    calls = _calls_of(pieces, stalls)
    has_left = calls.left < LAST
    overtakers = {
        call: _overtaken_by(calls, call, intervals)
        for group, intervals in stalls.items()
        for call in np.flatnonzero(has_left & calls.waited & (calls.group == group)).tolist()
    }
    overtakers = {call: found for call, found in overtakers.items() if len(found)}
    domains = [np.flatnonzero(has_left & (calls.domain == domain)) for domain in np.unique(calls.domain).tolist()]
    groups = [np.flatnonzero(has_left & (calls.group == group)) for group in np.unique(calls.group).tolist()]
    place = PLACES * calls.called
    for _ in range(PLACES):
        before = place.copy()
        for call, found in overtakers.items():
            place[call] = max(int(place[call]), int(place[found].max()) + 1)
        for own in domains:
            highest = np.maximum.accumulate(place[own])
            place[own] = np.where(calls.causal[own], highest, place[own])
        for own in groups:
            place[own] = np.maximum.accumulate(place[own])
        if np.array_equal(place, before):
            break
    bounds = np.cumsum([len(piece["send_index"]) for piece in pieces])[:-1]
    for piece, order in zip(pieces, np.split(place, bounds), strict=True):
        piece["send_order"] = order


class _Calls(NamedTuple):
    """The send runs of a log, in the order of the calls."""

    called: Ints
    """The index of the send row."""
    left: Ints
    """The row by which they left; LAST if they did not."""
    group: Texts
    domain: Texts
    causal: Mask
    """At causal or above."""
    waited: Mask
    """While their group stood still."""


def _calls_of(pieces: Sequence[Summary], stalls: Mapping[str, Sequence[tuple[int, int]]]) -> _Calls:
    starts = [(start["group"], parse_start(start["label"])) for piece in pieces for start in piece["starts"]]
    domains = domains_of(starts)
    index, left, level = (
        np.concatenate([piece[name] for piece in pieces]) for name in ("send_index", "left_index", "send_level")
    )
    group = np.concatenate([np.array([*piece["send_groups"], ""], object)[piece["send_group"]] for piece in pieces])
    waited = np.zeros(len(index), bool)
    for name, intervals in stalls.items():
        for begin, end in intervals:
            waited |= (group == name) & (begin < left) & (end > index)
    domain = np.array([domain_of(domains, name) for name in group], object)
    return _Calls(index, left, group, domain, level >= CAUSAL_RANK, waited)


def _overtaken_by(calls: _Calls, call: int, stalls: Sequence[tuple[int, int]]) -> Ints:
    """Those among the calls that were allowed to leave before a message that waited."""
    later = slice(call + 1, None)
    same_domain = calls.domain[later] == calls.domain[call]
    stops = np.flatnonzero(same_domain & calls.causal[later] & ~calls.waited[later])
    later = slice(call + 1, call + 1 + int(stops[0]) if len(stops) else None)
    left = calls.left[later]
    meanwhile = np.zeros(len(left), bool)
    for begin, end in stalls:
        meanwhile |= (begin < left) & (left < end)
    allowed = meanwhile & (left < calls.left[call]) & ~calls.causal[later]
    allowed &= (calls.domain[later] == calls.domain[call]) & (calls.group[later] != calls.group[call])
    return np.flatnonzero(allowed) + call + 1


def _cut(piece: Summary, departures: dict[str, Ints]) -> Summary:
    """One piece, its send runs cut at the departures."""
    count = np.ones(len(piece["send_number"]), np.int64)
    cuts_of: dict[int, Ints] = {}
    waiting = piece["send_view"] == NOT_LEFT
    for place, group in enumerate(piece["send_groups"]):
        if group in departures:
            number, length = departures[group][:2]
            cuts = cuts_of[place] = np.unique(np.concatenate((number, number + length)))
            own = np.flatnonzero(waiting & (piece["send_group"] == place))
            start, end = piece["send_number"][own], piece["send_number"][own] + piece["send_count"][own]
            count[own] += np.searchsorted(cuts, end, "left") - np.searchsorted(cuts, start, "right")
    cut = {**piece, **{name: np.repeat(piece[name], count) for name in (*SEND_COLUMNS, "send_order")}}
    cut["left_index"] = np.where(np.repeat(waiting, count), LAST, cut["send_index"])
    which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    first, last = cut["send_number"], cut["send_number"] + cut["send_count"]
    waiting = np.repeat(waiting, count)
    for place, cuts in cuts_of.items():
        own = np.flatnonzero(waiting & (cut["send_group"] == place))
        begin = np.searchsorted(cuts, first[own], "right")
        bounds = np.append(cuts, np.iinfo(np.int64).max)
        start = np.where(which[own] > 0, bounds[begin + which[own] - 1], first[own])
        end = np.minimum(bounds[begin + which[own]], last[own])
        cut["send_view"][own], cut["left_index"][own] = _left(start, departures[piece["send_groups"][place]])
        cut["send_number"][own], cut["send_count"][own] = start, end - start
    more = np.append(count, 1)
    for name in ("reach", "strong_reach"):
        cut[name] = [pack(np.repeat(unpack(packed), more)) for packed in piece[name] or ()]
    return cut


def _left(start: Ints, departures: Ints) -> tuple[Ints, Ints]:
    """In which view each part left, by its first number, and by which row."""
    number, length, view, index = departures[:, np.argsort(departures[0], kind="stable")]
    place = np.searchsorted(number, start, "right") - 1
    left = (place >= 0) & (start < (number + length)[place])
    return np.where(left, view[place], NOT_LEFT), np.where(left, index[place], LAST)
