"""What of a group whose views part and merge is in one order everywhere: what was delivered before transitional rows.

And of what was delivered behind them, what somebody else delivered as safe before its own, in the same view. The rules
are those of `antiphon.pipeline.reference_components`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.rows import Key
from antiphon.pipeline.audit.view_intervals import GroupIntervals
from antiphon.pipeline.intervals import EMPTY, Ints, Mask, Spans, clip, span, union


@dataclass(frozen=True)
class Parting:
    """What is known of a group whose views part and merge, for its order."""

    safe: Mapping[int, Mapping[str, Spans]]
    """By view and sender: what anybody delivered as safe before the transitional row."""
    late: Mapping[str, Spans]
    """By process: the rows that lie behind transitional rows, up to the next view row."""
    views: Mapping[str, tuple[Ints, Ints]]
    """By process: the indexes of its view rows, and the ids."""

    def is_late(self, process: str, index: Ints) -> Mask:
        return self.late.get(process, EMPTY).holds(index)

    def decided(self, process: str, keys: Sequence[Key], rows: "TotalRows") -> "TotalRows":
        """Of safe deliveries behind transitional rows, what somebody delivered before one in the same view."""
        if not len(rows.key):
            return rows
        begins, ids = self.views[process]
        parts: list[tuple[int, int, int, int]] = []
        for key, start, end, index in zip(*(column.tolist() for column in rows), strict=True):
            view = int(ids[np.searchsorted(begins, index) - 1])
            known = self.safe.get(view, {}).get(keys[key][1], EMPTY)
            for first, last in zip(*(side.tolist() for side in clip(known, start, end)), strict=True):
                parts.append((key, first, last, index))
        return TotalRows(*np.array(parts, np.int64).reshape(-1, 4).T)


class TotalRows(NamedTuple):
    """Deliveries that take part: keys, as places in some list, numbers [start, end), and the index of the row."""

    key: Ints
    start: Ints
    end: Ints
    row: Ints

    def chosen(self, mask: Mask) -> "TotalRows":
        return TotalRows(*(column[mask] for column in self))

    def and_also(self, others: "TotalRows") -> "TotalRows":
        if not len(others.key):
            return self
        columns = [np.concatenate(pair) for pair in zip(self, others, strict=True)]
        along = np.lexsort((columns[1], columns[3]))
        return TotalRows(*(column[along] for column in columns))


def parting_of(view_intervals: GroupIntervals, logs: Mapping[str, LogFacts]) -> Parting:
    """What the order of a group that parts hangs on."""
    safe: dict[int, dict[str, Spans]] = defaultdict(dict)
    late, views = {}, {}
    for process, own in view_intervals.items():
        ends = [*(interval.index for interval in own[1:]), logs[process].rows]
        spans = [span(each.transit, end) for each, end in zip(own, ends, strict=True) if each.transit is not None]
        late[process] = union(*spans)
        views[process] = (
            np.array([interval.index for interval in own], np.int64),
            np.array([interval.view for interval in own], np.int64),
        )
        for interval in own:
            for sender, of_sender in interval.regular.safe.items():
                known = safe[interval.view].get(sender, EMPTY)
                safe[interval.view][sender] = union(known, of_sender)
    return Parting(safe, late, views)
