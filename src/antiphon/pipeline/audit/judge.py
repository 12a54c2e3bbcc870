"""What comes out of judging a piece: counts by group and guarantee, the first violation of each, and latencies."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from antiphon.pipeline.audit import causal, content, creation, duplication, fifo, silence, total, view_sending
from antiphon.pipeline.audit.case import Already, Case, FirstViolation, RowCounts
from antiphon.pipeline.audit.logs import LogFacts
from antiphon.pipeline.audit.order import Order
from antiphon.pipeline.audit.pieces import Piece
from antiphon.pipeline.audit.rows import Key, message_rows
from antiphon.pipeline.audit.summary import Summary
from antiphon.pipeline.audit.view_intervals import Presence, presences_of
from antiphon.pipeline.guarantees import CAUSAL, CONTENT, CREATION, DUPLICATION, FIFO, SILENCE, TOTAL, VIEW_SENDING
from antiphon.pipeline.intervals import Ints, Mask, Spans
from antiphon.pipeline.latency import coarse
from antiphon.pipeline.promises import Promises

FindViolation = Callable[[Case, int], FirstViolation]
FindRoots = Callable[[Case, Mask], Iterable[tuple[int, Spans]]]
GroupPositions = Mapping[str, Mapping[int, total.Positions]]
"""group → key, as a place in the order's keys → positions."""


@dataclass(frozen=True)
class Check:
    """How a guarantee is judged delivery by delivery."""

    count: Callable[[Case], RowCounts]
    first_violation: FindViolation
    """Of a row that violates it."""
    roots: FindRoots
    """The causes of some rows that violate it: numbers by key, the key as a place in the order's keys."""


CHECKS: Final[Mapping[str, Check]] = {
    CREATION: Check(creation.count, creation.first_violation, creation.roots),
    DUPLICATION: Check(duplication.count, duplication.first_violation, duplication.roots),
    FIFO: Check(fifo.count, fifo.first_violation, fifo.roots),
    CAUSAL: Check(causal.count, causal.first_violation, causal.roots),
    CONTENT: Check(content.count, content.first_violation, content.roots),
    VIEW_SENDING: Check(view_sending.count, view_sending.first_violation, view_sending.roots),
    SILENCE: Check(silence.count, silence.first_violation, silence.roots),
}

_MESSAGE: Final = (("group", pa.string()), ("sender", pa.string()), ("number", pa.int64()))
_LISTED: Final = (
    *(("index", pa.int64()), ("sender", pa.string()), ("number", pa.int64()), ("count", pa.int64())),
    ("lacked", pa.struct(_MESSAGE)),  # the first message, by group, sender and number, that should have come before
)

JUDGED: Final = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),
        ("group", pa.string()),
        # One row per group and guarantee…
        ("guarantee", pa.string()),
        ("violations", pa.int64()),
        ("unknown", pa.int64()),
        ("checked", pa.int64()),
        # …with the first violating delivery, if any: its row and the view that it names, its message, and what it
        # lacked of which key…
        ("index", pa.int64()),
        ("view", pa.int64()),
        ("sender", pa.string()),
        ("number", pa.int64()),
        (
            "lacking",
            pa.list_(pa.struct(_MESSAGE)),
        ),
        # …and the causes of all violations, as intervals of numbers…
        (
            "roots",
            pa.list_(
                pa.struct(
                    [
                        *(("group", pa.string()), ("sender", pa.string())),
                        *(("starts", pa.list_(pa.int64())), ("ends", pa.list_(pa.int64()))),
                    ]
                )
            ),
        ),
        # …and, where that is asked for, each violating row: how many of its messages violate, and the first of them…
        ("listed", pa.list_(pa.struct(_LISTED))),
        # …one row per group for the positions that its agreed and safe messages go through…
        ("position_first", pa.int64()),
        ("position_end", pa.int64()),
        # …and one row per group and rounded latency.
        ("latency_ns", pa.int64()),
        ("count", pa.int64()),
        ("latency_ns_max", pa.int64()),
    ]
)


@dataclass(frozen=True)
class PieceKnowledge:
    """What must be known of the rest of a log to judge a piece of it."""

    known_end: int
    already: Mapping[Key, Already]
    presences: Mapping[str, tuple[Presence, ...]]
    completed_ends: Mapping[str, int]
    left: Mapping[str, int]
    apart: int

    @classmethod
    def of_log(cls, log: LogFacts, order: Order) -> Iterator[tuple[Summary, Self]]:
        """For each piece of a log, in order."""
        already: dict[Key, Already] = {}
        completed_ends = log.completed_ends()
        for piece, presences in zip(log.pieces, presences_of(log), strict=True):
            yield piece, cls(piece["known_end"], dict(already), presences, completed_ends, log.left, log.apart)
            for entry in piece["delivered"]:
                key = (entry["group"], entry["sender"])
                owed = order.owed(log.process, order.places[key])
                already[key] = already.get(key, Already()).and_then(Spans(entry["starts"], entry["ends"]), owed)


def judge(
    piece: Piece,
    order: Order,
    of_group: GroupPositions,
    known: PieceKnowledge,
    promises: Promises,
    listing: bool = False,
) -> pa.RecordBatch:
    """Hold a piece to what was promised; rows of JUDGED. `of_group`: the positions of agreed and safe messages.
    `listing`: whether each violating row is listed."""
    first_index = piece.table["index"][0].as_py()
    rows = message_rows(piece.table.slice(0, known.known_end - first_index), "deliver")
    case = Case(
        order, piece.process, rows, known.already, known.presences, known.completed_ends, known.left, known.apart
    )
    group_of_key = np.array([group for group, _ in rows.keys], object)
    masks = {group: (group_of_key == group)[rows.key] for group in sorted({group for group, _ in rows.keys})}
    found: list[dict[str, Any]] = []
    for guarantee, check in CHECKS.items():
        held = {group: mask for group, mask in masks.items() if promises.holds(guarantee, piece.run, group)}
        if held:
            counts = check.count(case)
            for group, mask in held.items():
                entry = _counted(case, counts, mask, check)
                if listing and entry["violations"]:
                    entry["listed"] = _listed(case, counts, mask, check)
                found.append({"group": group, "guarantee": guarantee} | entry)
    for group in masks:
        if promises.holds(TOTAL, piece.run, group):
            found += [{"group": group} | entry for entry in _placed(case, group, of_group, first_index)]
    latencies = case.latencies()
    for group, mask in masks.items():
        found += [{"group": group} | entry for entry in _latencies(latencies, mask)]
    log = {"run": piece.run, "process": piece.process}
    return pa.RecordBatch.from_pylist([log | entry for entry in found], JUDGED)


def _counted(case: Case, counts: RowCounts, mask: Mask, check: Check) -> dict[str, Any]:
    """The sums over some rows, the first row that violates, and the causes of all that do."""
    entry: dict[str, Any] = {name: int(column[mask].sum()) for name, column in counts._asdict().items()}
    if entry["violations"]:
        violating = mask & (counts.violations > 0)
        row = int(np.argmax(violating))
        number, lacking = check.first_violation(case, row)
        entry |= {"index": int(case.rows.index[row]), "view": int(case.rows.view[row])}
        entry |= {"sender": case.order.keys[case.place[row]][1], "number": number}
        names = (dict(zip(("group", "sender"), case.order.keys[key], strict=True)) for key, _ in lacking)
        entry["lacking"] = [name | {"number": missing} for name, (_, missing) in zip(names, lacking, strict=True)]
        entry["roots"] = [
            dict(zip(("group", "sender"), case.order.keys[key], strict=True)) | spans._asdict()
            for key, spans in check.roots(case, violating)
        ]
    return entry


def _listed(case: Case, counts: RowCounts, mask: Mask, check: Check) -> list[dict[str, Any]]:
    """Each row that violates, with the first message of it that does."""
    found = []
    for row in np.flatnonzero(mask & (counts.violations > 0)).tolist():
        number, lacking = check.first_violation(case, row)
        sender = case.order.keys[case.place[row]][1]
        entry: dict[str, Any] = {"index": int(case.rows.index[row]), "sender": sender, "number": number}
        entry["count"] = int(counts.violations[row])
        if lacking:
            place, missing = min(lacking)
            entry["lacked"] = dict(zip(("group", "sender"), case.order.keys[place], strict=True)) | {"number": missing}
        found.append(entry)
    return found


def _placed(case: Case, group: str, of_group: GroupPositions, first_index: int) -> Iterator[dict[str, int]]:
    """Which positions of the agreed and safe messages the piece goes through, if any."""
    placed = total.place(case, group, of_group.get(group, {}))
    if placed is not None:
        yield {"index": first_index, "position_first": placed.first, "position_end": placed.end}


def _latencies(latencies: tuple[Ints, Ints, Ints], mask: Mask) -> Iterator[dict[str, int]]:
    """How many messages of some rows had which rounded latency."""
    row, latency_ns, count = latencies
    own = mask[row]
    rounded, place = np.unique(coarse(latency_ns[own]), return_inverse=True)
    messages, highest = np.zeros(len(rounded), np.int64), np.zeros(len(rounded), np.int64)
    np.add.at(messages, place, count[own])
    np.maximum.at(highest, place, latency_ns[own])
    for columns in zip(rounded.tolist(), messages.tolist(), highest.tolist(), strict=True):
        yield dict(zip(("latency_ns", "count", "latency_ns_max"), columns, strict=True))
