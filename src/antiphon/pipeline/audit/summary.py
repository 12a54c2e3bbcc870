"""The first pass: what the rest of the audit must know of a piece of a log.

One row per piece. Of every send run it says how far the process had delivered each sender's messages by then, counted
from the beginning of the piece: added up over the pieces of a log, that is what lies in the message's past. Of every
sender it says which numbers were delivered; where the view changes within the piece, also stretch by stretch, and where
there are barriers, between them. So what leaves a piece is one line per send run, and a few intervals.

The rows of a piece count up to the first gap in its index; what lies behind it is only counted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEAVES, LEFT
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import AGREED_RANK, CAUSAL_RANK, SAFE_RANK, Key, MessageRows, message_rows
from antiphon.pipeline.intervals import Ints, union

Summary = dict[str, Any]
"""One row of SUMMARY as plain values and arrays."""

_LONGS: Final = pa.list_(pa.int64())
_DELIVERED: Final = (("group", pa.string()), ("sender", pa.string()), ("starts", _LONGS), ("ends", _LONGS))
_VIEW: Final = (("group", pa.string()), ("view", pa.int64()), ("members", pa.list_(pa.string())), ("index", pa.int64()))
_BARRIER: Final = (("group", pa.string()), ("sender", pa.string()), ("number", pa.int64()), ("index", pa.int64()))
_GROUP_FIELDS: Final = (
    *("sent", "delivered", "delivered_bytes"),  # single messages and their bytes
    *("first_ns", "last_ns"),
)

SUMMARY: Final = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),
        ("task", pa.int64()),
        ("rows", pa.int64()),  # all of them
        ("events", pa.int64()),
        ("first_index", pa.int64()),
        ("known_end", pa.int64()),  # behind the last index before the first gap
        ("has_gap", pa.bool_()),
        ("end_kind", pa.string()),  # of the last row before the gap
        ("end_label", pa.string()),
        ("early_end", pa.bool_()),  # a stop or crash row with more rows behind it
        ("starts", pa.list_(pa.struct([("group", pa.string()), ("label", pa.string())]))),
        ("views", pa.list_(pa.struct(_VIEW))),
        ("leaves", pa.list_(pa.string())),  # the groups that the process announces to leave, or has left; null for all
        ("left", pa.list_(pa.struct([("group", pa.string()), ("index", pa.int64())]))),  # it is out of these
        (
            "groups",
            pa.list_(pa.struct([("group", pa.string()), *((name, pa.int64()) for name in _GROUP_FIELDS)])),
        ),
        # What was delivered, by key, as intervals.
        ("delivered", pa.list_(pa.struct(_DELIVERED))),
        # The same for groups with view rows in this piece, behind so many of these.
        ("stretches", pa.list_(pa.struct([*_DELIVERED, ("stretch", pa.int64())]))),
        # What of it was agreed or safe, behind so many view rows of the group in this piece.
        ("ordered", pa.list_(pa.struct([*_DELIVERED, ("stretch", pa.int64()), ("level", pa.int64())]))),
        # Barriers, and what was delivered behind so many of them in this piece, for the groups that have some.
        ("barriers", pa.list_(pa.struct(_BARRIER))),
        ("between", pa.list_(pa.struct([*_DELIVERED, ("stretch", pa.int64())]))),
        # Send runs in order of index. `reach` has one line per run, and one more for the end of the piece, of one entry
        # per entry of `delivered`; `strong_reach` is the same for deliveries at causal and above, empty if all are.
        ("send_group", pa.list_(pa.string())),
        ("send_number", _LONGS),
        ("send_count", _LONGS),
        ("send_index", _LONGS),
        ("send_time_ns", _LONGS),
        ("send_view", _LONGS),
        ("send_destinations", pa.list_(pa.list_(pa.string()))),
        ("reach", _LONGS),
        ("strong_reach", _LONGS),
        # Which row group of the task cannot be read, and why; or why the history is unusable. No more is set then.
        ("damaged", pa.int64()),
        ("problem", pa.string()),
    ]
)


def summarise(piece: Piece, task: int, limits: Mapping[Key, int]) -> pa.RecordBatch:
    """One row of SUMMARY. `limits`: how many messages complete logs sent, where something beyond that was delivered."""
    table = piece.table
    index = table["index"].to_numpy()
    steps = np.diff(index)
    if (steps == 0).any():
        raise UnusableHistoryError(None, f"the log of {piece.process} holds two rows with the same index")
    known_rows = int(np.argmax(steps > 1)) + 1 if (steps > 1).any() else len(index)
    known = table.slice(0, known_rows)
    deliveries, sends = message_rows(known, "deliver"), message_rows(known, "send")
    ends = pc.is_in(known["kind"], pa.array(["stop", "crash"])).to_numpy()
    views = known.filter(pc.equal(known["kind"], "view")).select([name for name, _ in _VIEW]).to_pylist()
    barriers = _barriers(deliveries)
    places = np.append(sends.index, int(index[0]) + known_rows)
    summary: Summary = {
        "run": piece.run,
        "process": piece.process,
        "task": task,
        "rows": len(table),
        "events": pc.sum(pc.fill_null(table["count"], 1)).as_py(),
        "first_index": int(index[0]),
        "known_end": int(index[0]) + known_rows,
        "has_gap": known_rows < len(index),
        "end_kind": known["kind"][-1].as_py(),
        "end_label": known["label"][-1].as_py(),
        "early_end": bool(ends[:-1].any()),
        "starts": known.filter(pc.equal(known["kind"], "start")).select(["group", "label"]).to_pylist(),
        "views": views,
        "leaves": _leaves(known),
        "left": _left(known),
        "groups": _groups(known, sends, deliveries),
        "delivered": _delivered(deliveries),
        "stretches": list(_stretches(deliveries, views)),
        "ordered": list(_ordered(deliveries, views)),
        "barriers": barriers,
        "between": list(_stretches(deliveries, barriers)),
        "send_group": [sends.keys[key][0] for key in sends.key.tolist()],
        "send_number": sends.start,
        "send_count": sends.end - sends.start,
        "send_index": sends.index,
        "send_time_ns": sends.time_ns,
        "send_view": sends.view,
        "send_destinations": known.filter(pc.equal(known["kind"], "send"))["destinations"].to_pylist(),
        "reach": reach(deliveries, places, limits).ravel(),
        "strong_reach": _strong_reach(deliveries, places, limits).ravel(),
        "damaged": None,
        "problem": None,
    }
    arrays = [pa.array([summary[field.name]], field.type) for field in SUMMARY]
    return pa.RecordBatch.from_arrays(arrays, schema=SUMMARY)


def summaries_of(table: pa.Table) -> list[Summary]:
    """The rows of a table of SUMMARY, with lists of numbers as arrays."""
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        numbers = table.schema.field(name).type == _LONGS
        columns[name] = [_array(value) for value in table[name]] if numbers else table[name].to_pylist()
    summaries = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    for summary in summaries:
        for name in ("delivered", "stretches", "ordered", "between"):
            for entry in summary[name] or ():
                entry |= {side: np.array(entry[side], np.int64) for side in ("starts", "ends")}
    return summaries


def _array(value: pa.ListScalar) -> Ints | None:
    return None if value.values is None else value.values.to_numpy().astype(np.int64)


def reach(deliveries: MessageRows, at: Ints, limits: Mapping[Key, int]) -> Ints:
    """How far each key had been delivered before the rows `at`: one line per row, one column per key."""
    result = np.zeros((len(at), len(deliveries.keys)), np.int64)
    for place, key in enumerate(deliveries.keys):
        rows = deliveries.of_key(place)
        highest = np.maximum.accumulate(highest_sent(deliveries.start[rows], deliveries.end[rows], limits.get(key)))
        before = np.searchsorted(deliveries.index[rows], at)
        result[:, place] = np.concatenate(([0], highest))[before]
    return result


def highest_sent(starts: Ints, ends: Ints, limit: int | None) -> Ints:
    """The highest number of each run that was sent at all, or 0: nobody sent what lies beyond the limit."""
    return ends - 1 if limit is None else np.where(starts <= limit, np.minimum(ends - 1, limit), 0)


def _strong_reach(deliveries: MessageRows, at: Ints, limits: Mapping[Key, int]) -> Ints:
    strong = deliveries.level >= CAUSAL_RANK
    return np.empty(0, np.int64) if strong.all() else reach(deliveries.chosen(strong), at, limits)


def _delivered(deliveries: MessageRows) -> list[dict[str, Any]]:
    return [_entry(deliveries, place, deliveries.of_key(place)) for place in range(len(deliveries.keys))]


def _stretches(deliveries: MessageRows, cuts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What was delivered between certain rows of the same group, for the groups that have such rows."""
    groups = {cut["group"] for cut in cuts}
    for place, (group, _) in enumerate(deliveries.keys):
        if group in groups:
            yield from _cut(deliveries, place, deliveries.of_key(place), cuts)


def _ordered(deliveries: MessageRows, views: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What was delivered as agreed or safe, between view rows."""
    for place in range(len(deliveries.keys)):
        rows = deliveries.of_key(place)
        for level in (AGREED_RANK, SAFE_RANK):
            for entry in _cut(deliveries, place, rows[deliveries.level[rows] == level], views):
                yield entry | {"level": level}


def _cut(deliveries: MessageRows, place: int, rows: Ints, cuts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Some rows of a key, cut up by rows of its group."""
    group = deliveries.keys[place][0]
    bounds = np.array([cut["index"] for cut in cuts if cut["group"] == group], np.int64)
    stretch = np.searchsorted(bounds, deliveries.index[rows], "right")
    for behind in np.unique(stretch).tolist():
        yield _entry(deliveries, place, rows[stretch == behind]) | {"stretch": behind}


def _entry(deliveries: MessageRows, place: int, rows: Ints) -> dict[str, Any]:
    group, sender = deliveries.keys[place]
    spans = union((deliveries.start[rows], deliveries.end[rows]))
    return {"group": group, "sender": sender, "starts": spans.starts, "ends": spans.ends}


def _barriers(deliveries: MessageRows) -> list[dict[str, Any]]:
    """One by one: there are few."""
    result = []
    for row in np.flatnonzero(deliveries.barrier).tolist():
        group, sender = deliveries.keys[deliveries.key[row]]
        number, index = int(deliveries.start[row]), int(deliveries.index[row])
        result.append({"group": group, "sender": sender, "number": number, "index": index})
    return result


def _leaves(known: pa.Table) -> list[str | None]:
    """Of which groups a row announces that the process leaves them, or says that it has left."""
    rows = known.filter(pc.is_in(known["kind"], pa.array(["note", "stop"]))).select(["kind", "label", "group"])
    return [
        row["group"]
        for row in rows.to_pylist()
        if (row["kind"], row["label"]) in (("note", LEAVES), ("stop", LEFT))
        or (row["label"] == LEFT and row["group"] is not None)
    ]


def _left(known: pa.Table) -> list[dict[str, Any]]:
    chosen = pc.and_(pc.equal(known["kind"], "note"), pc.equal(known["label"], LEFT))
    notes = known.filter(pc.and_(chosen, pc.is_valid(known["group"])))
    return list(notes.select(["group", "index"]).to_pylist())


def _groups(known: pa.Table, sends: MessageRows, deliveries: MessageRows) -> list[dict[str, Any]]:
    """Counts and times, by group."""
    result: dict[str, dict[str, Any]] = {}
    of_group = known.filter(pc.is_valid(known["group"])).group_by("group")
    for row in of_group.aggregate([("time_ns", "min"), ("time_ns", "max")]).to_pylist():
        counts = dict.fromkeys(_GROUP_FIELDS, 0)
        result[row["group"]] = counts | {"first_ns": row["time_ns_min"], "last_ns": row["time_ns_max"]}
    for rows, name in ((sends, "sent"), (deliveries, "delivered")):
        for (group, _), count in zip(rows.keys, _sums(rows, rows.end - rows.start), strict=True):
            result[group][name] += count
    for (group, _), size in zip(deliveries.keys, _sums(deliveries, deliveries.size), strict=True):
        result[group]["delivered_bytes"] += size
    return [{"group": group} | facts for group, facts in sorted(result.items())]


def _sums(rows: MessageRows, values: Ints) -> list[int]:
    """The exact sum of values per key."""
    sums = np.zeros(len(rows.keys), np.int64)
    np.add.at(sums, rows.key, values)
    return [int(value) for value in sums]
