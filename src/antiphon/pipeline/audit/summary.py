"""The first pass: what the rest of the audit must know of a piece of a log.

One row per piece. Of every send run it says how far the process had delivered each sender's messages by then, counted
from the beginning of the piece: added up over the pieces of a log, that is what lies in the message's past. Of every
sender it says which numbers were delivered; where the view changes within the piece, also stretch by stretch, and where
there are barriers, between them. So what leaves a piece is one line per send run, and a few intervals; numbers leave it
packed (`antiphon.pipeline.packing`), and `reach`, the largest part, stays so until it is needed.

The rows of a piece count up to the first gap in its index; what lies behind it is only counted.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.schema import LEAVES, LEFT, READS_APART, RECOVERS, STALLED, UNTOLD
from antiphon.kernel.labels import SEPARATOR
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import (
    ABCAST_RANK,
    AGREED_RANK,
    CAUSAL_RANK,
    CAUSAL_TOTAL_RANK,
    RELIABLE_RANK,
    SAFE_RANK,
    Key,
    MessageRows,
    message_rows,
)
from antiphon.pipeline.audit.stretches import PACKED, entries, packed, stretch_of
from antiphon.pipeline.intervals import Ints, Mask
from antiphon.pipeline.packing import pack, unpack

Summary = dict[str, Any]
"""One row of SUMMARY as plain values and arrays."""

_VIEW: Final = (("group", pa.string()), ("view", pa.int64()), ("members", pa.list_(pa.string())), ("index", pa.int64()))
_BARRIER: Final = (("group", pa.string()), ("sender", pa.string()), ("number", pa.int64()), ("index", pa.int64()))
_PRIVATE: Final = (
    *(("group", pa.string()), ("sender", pa.string()), ("start", pa.int64()), ("end", pa.int64())),
    ("destinations", pa.list_(pa.string())),
)
_GROUP_FIELDS: Final = (
    *("sent", "delivered", "delivered_bytes"),  # single messages and their bytes
    *("first_ns", "last_ns"),
)

_INTERVALS: Final[Mapping[str, tuple[str, ...]]] = {
    "delivered": (),
    "stretches": ("stretch",),
    "ordered": ("stretch", "level"),
    "between": ("stretch",),
    "unsaid": (),
}
"""What is cut up into entries, and what these name beside their key."""

SEND_COLUMNS: Final = (
    *("send_group", "send_number", "send_count", "send_index", "send_time_ns", "send_view", "send_destinations"),
    *("send_level", "send_size", "send_digested", "send_label"),
)
DEPART_COLUMNS: Final = ("depart_group", "depart_number", "depart_count", "depart_view", "depart_index")

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
        ("transitions", pa.list_(pa.struct(_VIEW))),  # the transitional rows
        ("leaves", pa.list_(pa.string())),  # the groups that the process announces to leave, or has left; null for all
        ("left", pa.list_(pa.struct([("group", pa.string()), ("index", pa.int64())]))),  # it is out of these
        ("recovers", pa.list_(pa.struct([("group", pa.string()), ("index", pa.int64())]))),  # on an operator's word
        ("untold", pa.list_(pa.struct([("group", pa.string()), ("index", pa.int64())]))),  # with views not on record
        ("apart", pa.int64()),  # from which row on the process reads each group apart
        ("stalled", pa.list_(pa.struct([("group", pa.string()), ("index", pa.int64())]))),  # these stand still
        (
            "groups",
            pa.list_(pa.struct([("group", pa.string()), *((name, pa.int64()) for name in _GROUP_FIELDS)])),
        ),
        # What was delivered, by key, as intervals.
        ("keys", pa.list_(pa.struct([("group", pa.string()), ("sender", pa.string())]))),
        ("delivered", PACKED),
        # The same for groups with view rows, transitional rows or notes that an operator has the process go on in this
        # piece, behind so many of these.
        ("stretches", PACKED),
        # What of it was agreed or safe, behind so many such rows of the group in this piece.
        ("ordered", PACKED),
        # The groups in which something was delivered as abcast.
        ("abcasts", pa.list_(pa.string())),
        # Barriers, and what was delivered behind so many of them in this piece, for the groups that have some.
        ("barriers", pa.list_(pa.struct(_BARRIER))),
        ("between", PACKED),
        # Deliveries that name destinations, and what was delivered without a word on them (schema version 1).
        ("private", pa.list_(pa.struct(_PRIVATE))),
        ("unsaid", PACKED),
        # Send runs in order of index: places in `send_groups`, and in `send_destination_sets`, where -1 is none; a view
        # of -1 where `depart_…` tell it, if they do; the digests of those that have some, four bytes per message;
        # places in `send_labels` of the labels that order messages, or -1.
        ("send_groups", pa.list_(pa.string())),
        ("send_destination_sets", pa.list_(pa.list_(pa.string()))),
        ("send_labels", pa.list_(pa.string())),
        *((name, pa.binary()) for name in SEND_COLUMNS),
        ("send_digest", pa.binary()),
        ("depart_groups", pa.list_(pa.string())),
        *((name, pa.binary()) for name in DEPART_COLUMNS),
        # For each entry of `delivered`, how far it had been delivered before each send run, and at the end of all;
        # `strong_reach` is the same for deliveries at causal and above, empty if all are.
        ("reach", pa.list_(pa.binary())),
        ("strong_reach", pa.list_(pa.binary())),
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
    views, transitions = _configurations(known, "view"), _configurations(known, "transitional")
    recovers = _notes(known, RECOVERS)
    barriers = _barriers(deliveries)
    of_abcast = deliveries.level == ABCAST_RANK
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
        "transitions": transitions,
        "leaves": _leaves(known),
        "left": _notes(known, LEFT),
        "recovers": recovers,
        "untold": _notes(known, UNTOLD),
        "apart": _reads_apart(known),
        "stalled": _notes(known, STALLED),
        "groups": _groups(known, sends, deliveries),
        "keys": [dict(zip(("group", "sender"), key, strict=True)) for key in deliveries.keys],
        "abcasts": sorted({deliveries.keys[key][0] for key in np.unique(deliveries.key[of_abcast]).tolist()}),
        "barriers": barriers,
        **_intervals(deliveries, cuts_of(views, transitions, recovers), barriers),
        **_destinations(known, deliveries),
        **_sends(known, sends),
        **_departures(message_rows(known, "depart")),
        "reach": reach(deliveries, places, limits),
        "strong_reach": _strong_reach(deliveries, places, limits),
        "damaged": None,
        "problem": None,
    }
    arrays = [pa.array([summary[field.name]], field.type) for field in SUMMARY]
    return pa.RecordBatch.from_arrays(arrays, schema=SUMMARY)


def cuts_of(
    views: list[dict[str, Any]], transitions: list[dict[str, Any]], recovers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """View rows, transitional rows and an operator's words together, in order: where what was delivered is cut up."""
    if not transitions and not recovers:
        return views
    return sorted((*views, *transitions, *recovers), key=lambda cut: int(cut["index"]))


def _configurations(known: pa.Table, kind: str) -> list[dict[str, Any]]:
    rows = known.filter(pc.equal(known["kind"], kind))
    return list(rows.select([name for name, _ in _VIEW]).to_pylist())


def summaries_of(table: pa.Table) -> list[Summary]:
    """The rows of a table of SUMMARY, with arrays for what was packed, but for `reach` and `strong_reach`."""
    summaries: list[Summary] = table.to_pylist()
    for summary in summaries:
        keys = [(key["group"], key["sender"]) for key in summary.pop("keys") or ()]
        for name, more in _INTERVALS.items():
            if summary[name] is not None:
                summary[name] = list(entries(summary[name], keys, *more))
        for name in (*SEND_COLUMNS, *DEPART_COLUMNS):
            if summary[name] is not None:
                summary[name] = unpack(summary[name])
    return summaries


def _sends(known: pa.Table, sends: MessageRows) -> dict[str, Any]:
    """The columns of the send runs."""
    destinations = known.filter(pc.equal(known["kind"], "send"))["destinations"].combine_chunks()
    named = np.flatnonzero(pc.is_valid(destinations).to_numpy(zero_copy_only=False))
    sets: dict[tuple[str, ...], int] = {}
    meant = np.full(len(sends.key), -1)
    for place in named.tolist():
        meant[place] = sets.setdefault(tuple(destinations[place].as_py()), len(sets))
    digested = np.array([digest is not None for digest in sends.digest], np.int64)
    labels, label = _order_labels(known, sends)
    columns = (
        *(sends.key, sends.start, sends.end - sends.start, sends.index, sends.time_ns, sends.view, meant),
        *(sends.level, sends.size, digested, label),
    )
    return {
        "send_labels": labels,
        "send_digest": bytes.fromhex("".join(sends.digest[digested > 0])),
        "send_groups": [group for group, _ in sends.keys],
        "send_destination_sets": [list(members) for members in sets],
        **{name: pack(column) for name, column in zip(SEND_COLUMNS, columns, strict=True)},
    }


def _order_labels(known: pa.Table, sends: MessageRows) -> tuple[list[str], Ints]:
    """The labels that order messages, and which of them each send run has, or -1."""
    texts = known.filter(pc.equal(known["kind"], "send"))["label"].combine_chunks()
    compared = pc.fill_null(pc.match_substring(texts, SEPARATOR), False).to_numpy(zero_copy_only=False)
    ordering = (sends.level == ABCAST_RANK) | ((sends.level == RELIABLE_RANK) & compared.astype(bool))
    places: dict[str, int] = {}
    label = np.full(len(sends.key), -1)
    for place in np.flatnonzero(ordering).tolist():
        label[place] = places.setdefault(texts[place].as_py() or "", len(places))
    return list(places), label


def _departures(departs: MessageRows) -> dict[str, Any]:
    """The columns of the depart rows."""
    columns = (departs.key, departs.start, departs.end - departs.start, departs.view, departs.index)
    return {
        "depart_groups": [group for group, _ in departs.keys],
        **{name: pack(column) for name, column in zip(DEPART_COLUMNS, columns, strict=True)},
    }


def _destinations(known: pa.Table, deliveries: MessageRows) -> dict[str, Any]:
    """What the deliver rows themselves say about whom their messages were for."""
    lists = known.filter(pc.equal(known["kind"], "deliver"))["destinations"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
    private = []
    for row in np.flatnonzero(lengths > 0).tolist():
        group, sender = deliveries.keys[deliveries.key[row]]
        bounds = {"start": int(deliveries.start[row]), "end": int(deliveries.end[row])}
        private.append({"group": group, "sender": sender, **bounds, "destinations": lists[row].as_py()})
    unsaid = packed(deliveries, lengths == 0, np.zeros(len(lengths), np.int64), None)
    return {"private": private, "unsaid": unsaid}


def reach(deliveries: MessageRows, at: Ints, limits: Mapping[Key, int]) -> list[bytes]:
    """For each key, packed: how far it had been delivered before each of the rows `at`."""
    result = []
    for place, key in enumerate(deliveries.keys):
        rows = deliveries.of_key(place)
        highest = np.maximum.accumulate(highest_sent(deliveries.start[rows], deliveries.end[rows], limits.get(key)))
        before = np.searchsorted(deliveries.index[rows], at)
        result.append(pack(np.concatenate(([0], highest))[before]))
    return result


def highest_sent(starts: Ints, ends: Ints, limit: int | None) -> Ints:
    """The highest number of each run that was sent at all, or 0: nobody sent what lies beyond the limit."""
    return ends - 1 if limit is None else np.where(starts <= limit, np.minimum(ends - 1, limit), 0)


def _strong_reach(deliveries: MessageRows, at: Ints, limits: Mapping[Key, int]) -> list[bytes]:
    strong = deliveries.level >= CAUSAL_RANK
    return [] if strong.all() else reach(deliveries.chosen(strong), at, limits)


def _intervals(
    deliveries: MessageRows, cuts: list[dict[str, Any]], barriers: list[dict[str, Any]]
) -> dict[str, dict[str, bytes]]:
    """What was delivered, by key, stretch and level."""
    behind_views, behind_barriers = stretch_of(deliveries, cuts), stretch_of(deliveries, barriers)
    level = np.where(deliveries.level == CAUSAL_TOTAL_RANK, AGREED_RANK, deliveries.level)
    ordered = (level == AGREED_RANK) | (level == SAFE_RANK)
    return {
        "delivered": packed(deliveries, None, np.zeros_like(behind_views), None),
        "stretches": packed(deliveries, _of_groups(deliveries, cuts), behind_views, None),
        "ordered": packed(deliveries, ordered, behind_views, level),
        "between": packed(deliveries, _of_groups(deliveries, barriers), behind_barriers, None),
    }


def _of_groups(deliveries: MessageRows, cuts: list[dict[str, Any]]) -> Mask:
    """The rows of groups that are cut up."""
    groups = {cut["group"] for cut in cuts}
    result: Mask = np.array([group in groups for group, _ in deliveries.keys], bool)[deliveries.key]
    return result


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


def _reads_apart(known: pa.Table) -> int | None:
    """The first row that says so."""
    chosen = pc.and_(pc.equal(known["kind"], "note"), pc.equal(known["label"], READS_APART))
    first: int | None = pc.min(known.filter(chosen)["index"]).as_py()
    return first


def _notes(known: pa.Table, label: str) -> list[dict[str, Any]]:
    """The groups of which the process notes something."""
    chosen = pc.and_(pc.equal(known["kind"], "note"), pc.equal(known["label"], label))
    notes = known.filter(pc.and_(chosen, pc.is_valid(known["group"])))
    return list(notes.select(["group", "index"]).to_pylist())


def _groups(known: pa.Table, sends: MessageRows, deliveries: MessageRows) -> list[dict[str, Any]]:
    """Counts and times, by group."""
    result: dict[str, dict[str, Any]] = {}
    of_group = known.filter(pc.is_valid(known["group"])).group_by("group", use_threads=False)
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
