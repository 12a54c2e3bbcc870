"""The first pass: what the rest of the audit must know of a piece of a log.

One row per piece. Of every send run it says how far the process had delivered each sender's messages by then, counted
from the beginning of the piece: added up over the pieces of a log, that is what lies in the message's past. Of every
sender it says which numbers were delivered; where the view changes within the piece, also stretch by stretch. So what
leaves a piece is one line per send run, and a few intervals.

The rows of a piece count up to the first gap in its index; what lies behind it is only counted.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEAVES, LEFT
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import Key, MessageRows, message_rows
from antiphon.pipeline.intervals import Ints, union

Summary = dict[str, Any]
"""One row of SUMMARY as plain values and arrays."""

_LONGS: Final = pa.list_(pa.int64())
_DELIVERED: Final = (("group", pa.string()), ("sender", pa.string()), ("starts", _LONGS), ("ends", _LONGS))
_VIEW: Final = (("group", pa.string()), ("view", pa.int64()), ("members", pa.list_(pa.string())), ("index", pa.int64()))
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
        ("leaves", pa.bool_()),  # the process announces that it leaves, or has left
        (
            "groups",
            pa.list_(pa.struct([("group", pa.string()), *((name, pa.int64()) for name in _GROUP_FIELDS)])),
        ),
        # What was delivered, by key, as intervals.
        ("delivered", pa.list_(pa.struct(_DELIVERED))),
        # The same for groups with view rows in this piece, behind so many of these.
        ("stretches", pa.list_(pa.struct([*_DELIVERED, ("stretch", pa.int64())]))),
        # Send runs in order of index; `reach` has one entry per run and entry of `delivered`, run by run.
        ("send_group", pa.list_(pa.string())),
        ("send_number", _LONGS),
        ("send_count", _LONGS),
        ("send_index", _LONGS),
        ("send_time_ns", _LONGS),
        ("send_view", _LONGS),
        ("send_destinations", pa.list_(pa.list_(pa.string()))),
        ("reach", _LONGS),
        ("problem", pa.string()),  # what makes the history unusable; nothing else is set then
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
        "groups": _groups(known, sends, deliveries),
        "delivered": _delivered(deliveries),
        "stretches": _stretches(deliveries, views),
        "send_group": [sends.keys[key][0] for key in sends.key.tolist()],
        "send_number": sends.start,
        "send_count": sends.end - sends.start,
        "send_index": sends.index,
        "send_time_ns": sends.time_ns,
        "send_view": sends.view,
        "send_destinations": known.filter(pc.equal(known["kind"], "send"))["destinations"].to_pylist(),
        "reach": reach(deliveries, sends.index, limits).ravel(),
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
        for entry in (*(summary["delivered"] or ()), *(summary["stretches"] or ())):
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


def _delivered(deliveries: MessageRows) -> list[dict[str, Any]]:
    result = []
    for place, (group, sender) in enumerate(deliveries.keys):
        rows = deliveries.of_key(place)
        spans = union((deliveries.start[rows], deliveries.end[rows]))
        result.append({"group": group, "sender": sender, "starts": spans.starts, "ends": spans.ends})
    return result


def _stretches(deliveries: MessageRows, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was delivered between view rows of the same group."""
    result = []
    for place, (group, sender) in enumerate(deliveries.keys):
        changes = np.array([view["index"] for view in views if view["group"] == group], np.int64)
        if not len(changes):
            continue
        rows = deliveries.of_key(place)
        stretch = np.searchsorted(changes, deliveries.index[rows])
        for behind in np.unique(stretch).tolist():
            own = rows[stretch == behind]
            spans = union((deliveries.start[own], deliveries.end[own]))
            entry = {"group": group, "sender": sender, "starts": spans.starts, "ends": spans.ends}
            result.append(entry | {"stretch": behind})
    return result


def _leaves(known: pa.Table) -> bool:
    """Whether a row announces that the process leaves, or says that it has left."""
    rows = known.filter(pc.is_in(known["kind"], pa.array(["note", "stop"]))).select(["kind", "label"]).to_pylist()
    return any((row["kind"], row["label"]) in (("note", LEAVES), ("stop", LEFT)) for row in rows)


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
