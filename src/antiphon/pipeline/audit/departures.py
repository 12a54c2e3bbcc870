"""When messages left that did not leave at once: send runs are cut where depart rows say so.

A send row without a view was written at the call; its depart rows come later in the log, perhaps in another piece. Once
the pieces of a log are together, each such run is cut into parts that left in one view, or did not leave as far as is
known. The parts keep the row, the time and the past of the call.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from antiphon.pipeline.audit.summary import SEND_COLUMNS, Summary
from antiphon.pipeline.intervals import Ints
from antiphon.pipeline.packing import pack, unpack

NOT_LEFT: Final = -1
"""In place of a view."""


def with_departures(pieces: Sequence[Summary]) -> tuple[Summary, ...]:
    """The pieces of one log, with views for all sends that left."""
    if not any((piece["send_view"] == NOT_LEFT).any() for piece in pieces):
        return tuple(pieces)
    parts: dict[str, list[Ints]] = defaultdict(list)
    for piece in pieces:
        for place, group in enumerate(piece["depart_groups"]):
            own = piece["depart_group"] == place
            columns = [piece[name][own] for name in ("depart_number", "depart_count", "depart_view")]
            parts[group].append(np.stack(columns))
    departures = {group: np.concatenate(own, axis=1) for group, own in parts.items()}
    return tuple(_cut(piece, departures) for piece in pieces)


def _cut(piece: Summary, departures: dict[str, Ints]) -> Summary:
    """One piece, its send runs cut at the departures."""
    count = np.ones(len(piece["send_number"]), np.int64)
    cuts_of: dict[int, Ints] = {}
    waiting = piece["send_view"] == NOT_LEFT
    for place, group in enumerate(piece["send_groups"]):
        if group in departures:
            number, length, _ = departures[group]
            cuts = cuts_of[place] = np.unique(np.concatenate((number, number + length)))
            own = np.flatnonzero(waiting & (piece["send_group"] == place))
            start, end = piece["send_number"][own], piece["send_number"][own] + piece["send_count"][own]
            count[own] += np.searchsorted(cuts, end, "left") - np.searchsorted(cuts, start, "right")
    cut = {**piece, **{name: np.repeat(piece[name], count) for name in SEND_COLUMNS}}
    which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    first, last = cut["send_number"], cut["send_number"] + cut["send_count"]
    waiting = np.repeat(waiting, count)
    for place, cuts in cuts_of.items():
        own = np.flatnonzero(waiting & (cut["send_group"] == place))
        begin = np.searchsorted(cuts, first[own], "right")
        bounds = np.append(cuts, np.iinfo(np.int64).max)
        start = np.where(which[own] > 0, bounds[begin + which[own] - 1], first[own])
        end = np.minimum(bounds[begin + which[own]], last[own])
        cut["send_view"][own] = _views(start, departures[piece["send_groups"][place]])
        cut["send_number"][own], cut["send_count"][own] = start, end - start
    more = np.append(count, 1)
    for name in ("reach", "strong_reach"):
        cut[name] = [pack(np.repeat(unpack(packed), more)) for packed in piece[name] or ()]
    return cut


def _views(start: Ints, departures: Ints) -> Ints:
    """In which view each part left, by its first number."""
    number, length, view = departures[:, np.argsort(departures[0], kind="stable")]
    place = np.searchsorted(number, start, "right") - 1
    left: Ints = np.where((place >= 0) & (start < (number + length)[place]), view[place], NOT_LEFT)
    return left
