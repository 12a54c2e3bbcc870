"""What a piece delivered, as intervals: by key, and cut up by rows of the key's group, all in one go.

A *stretch* of a group is what lies between certain of its rows in a piece (its view rows, or its barriers): behind so
many of them. In the summary of a piece the intervals of all keys and stretches are a few packed columns together;
`entries` takes them apart again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit.rows import Key, MessageRows
from antiphon.pipeline.intervals import Ints, Mask
from antiphon.pipeline.packing import pack, unpack

_COLUMNS: Final = ("key", "stretch", "level", "count", "bounds")
PACKED: Final = pa.struct([(name, pa.binary()) for name in _COLUMNS])
"""Of each key, stretch and level: how many intervals, and, one after the other, where these begin and end."""


def stretch_of(deliveries: MessageRows, cuts: Sequence[Mapping[str, Any]]) -> Ints:
    """For each row: behind how many cuts of its group it is."""
    result = np.zeros(len(deliveries.key), np.int64)
    for group in {cut["group"] for cut in cuts}:
        own = deliveries.of_group(group)
        bounds = np.array([cut["index"] for cut in cuts if cut["group"] == group], np.int64)
        result[own] = np.searchsorted(bounds, deliveries.index[own], "right")
    return result


def packed(deliveries: MessageRows, chosen: Mask | None, stretch: Ints, level: Ints | None) -> dict[str, bytes]:
    """The intervals of some rows, by key, stretch and level; without `level`, of all levels together."""
    levels = np.zeros(len(stretch), np.int64) if level is None else level
    columns = [deliveries.key, stretch, levels, deliveries.start, deliveries.end]
    if chosen is not None:
        columns = [column[chosen] for column in columns]
    key, stretch, levels, start, end = columns
    width = int(stretch.max(initial=0)) + 1, int(levels.max(initial=0)) + 1
    codes, counts, bounds = _union_by((key * width[0] + stretch) * width[1] + levels, start, end)
    rest, levels = np.divmod(codes, width[1])
    key, stretch = np.divmod(rest, width[0])
    return {name: pack(column) for name, column in zip(_COLUMNS, (key, stretch, levels, counts, bounds), strict=True)}


def entries(found: Mapping[str, bytes], keys: Sequence[Key], *names: str) -> Iterator[dict[str, Any]]:
    """One by one: group, sender, starts and ends, and where they are named, stretch and level."""
    columns = {name: unpack(found[name]) for name in _COLUMNS}
    bounds = columns["bounds"]
    starts, ends = bounds[::2], bounds[1::2]
    last = np.cumsum(columns["count"])
    first = (last - columns["count"]).tolist()
    more = [(name, columns[name].tolist()) for name in names]
    for place, (key, begin, end) in enumerate(zip(columns["key"].tolist(), first, last.tolist(), strict=True)):
        group, sender = keys[key]
        entry = {"group": group, "sender": sender, "starts": starts[begin:end], "ends": ends[begin:end]}
        for name, values in more:
            entry[name] = values[place]
        yield entry


def _union_by(codes: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """The union of intervals with the same code: the codes, how many intervals each has, and their bounds in turn."""
    order = np.lexsort((starts, codes))
    codes, starts, reach = codes[order], starts[order], ends[order]
    same = codes[1:] == codes[:-1]
    if (same & (reach[1:] < reach[:-1])).any():
        breaks = np.flatnonzero(~same) + 1
        reach = np.concatenate([np.maximum.accumulate(part) for part in np.split(reach, breaks)])
    fresh = ~same | (starts[1:] > reach[:-1])
    edge = np.ones(min(len(codes), 1), bool)
    first, last = np.concatenate((edge, fresh)), np.concatenate((fresh, edge))
    found, counts = np.unique(codes[first], return_counts=True)
    bounds = np.stack((starts[first], reach[last]), axis=1).ravel()
    return found, counts, bounds
