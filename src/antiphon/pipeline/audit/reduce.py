"""What the second pass found, added up. Each piece sends a few hundred rows of JUDGED, so the driver does it alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antiphon.pipeline.audit.preparation import Placement
from antiphon.pipeline.audit.total import Placed
from antiphon.pipeline.intervals import Spans, union

Member = tuple[str, str, str]
"""Run, process and group."""


class Found(NamedTuple):
    """What was found of one guarantee, over all pieces."""

    violations: int
    unknown: int
    checked: int
    roots: int
    first_violation: Mapping[str, Any] | None
    """The first violating delivery, by run, process and index: a row of JUDGED."""


class Latencies(NamedTuple):
    """Nanoseconds from send to delivery, rounded but for the greatest."""

    p50: int
    p99: int
    greatest: int


def placements(judged: pa.Table) -> list[Placement]:
    """Which positions of the agreed and safe messages each piece goes through."""
    rows = judged.filter(pc.is_valid(judged["position_first"]))
    names = ("run", "group", "process", "index")
    return [
        (*(row[name] for name in names), Placed(row["position_first"], row["position_end"]))
        for row in rows.select([*names, "position_first", "position_end"]).to_pylist()
    ]


def listed(judged: pa.Table) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every violating deliver row that the pieces list, each with the row of JUDGED that it comes from."""
    rows = judged.filter(pc.greater(pc.fill_null(pc.list_value_length(judged["listed"]), 0), 0))
    order = [(name, "ascending") for name in ("run", "process", "index")]
    for row in rows.select(["run", "process", "group", "guarantee", "index", "listed"]).sort_by(order).to_pylist():
        for entry in row["listed"]:
            yield row, entry


def findings(judged: pa.Table) -> dict[str, Found]:
    """By guarantee."""
    rows = judged.filter(pc.is_valid(judged["guarantee"]))
    counts = ("violations", "unknown", "checked")
    sums = rows.group_by("guarantee").aggregate([(name, "sum") for name in counts]).to_pylist()
    broken = rows.filter(pc.greater(rows["violations"], 0))
    order = [(name, "ascending") for name in ("run", "process", "index")]
    first_violations: dict[str, Mapping[str, Any]] = {}
    for row in broken.sort_by(order).to_pylist():
        first_violations.setdefault(row["guarantee"], row)
    causes = root_counts(broken.to_pylist())
    return {
        row["guarantee"]: Found(
            *(row["violations_sum"], row["unknown_sum"], row["checked_sum"]),
            *(causes.get(row["guarantee"], 0), first_violations.get(row["guarantee"])),
        )
        for row in sums
    }


def root_counts(broken: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """By guarantee: the distinct root causes that rows of JUDGED name, run by run."""
    parts: dict[tuple[str, str, str, str], list[Spans]] = defaultdict(list)
    for row in broken:
        for cause in row["roots"] or ():
            spans = Spans(np.array(cause["starts"], np.int64), np.array(cause["ends"], np.int64))
            parts[row["guarantee"], row["run"], cause["group"], cause["sender"]].append(spans)
    counts: dict[str, int] = defaultdict(int)
    for (guarantee, *_), spans_of_key in parts.items():
        counts[guarantee] += union(*spans_of_key).size()
    return counts


def latencies(judged: pa.Table) -> dict[Member, Latencies]:
    """By member of a group: the smallest values that half, and 99 in 100, of its messages do not exceed."""
    rows = judged.filter(pc.is_valid(judged["latency_ns"]))
    names = ["run", "process", "group"]
    together = rows.group_by([*names, "latency_ns"]).aggregate([("count", "sum"), ("latency_ns_max", "max")])
    found: dict[Member, list[tuple[int, int, int]]] = {}
    for row in together.to_pylist():
        member = (row["run"], row["process"], row["group"])
        found.setdefault(member, []).append((row["latency_ns"], row["count_sum"], row["latency_ns_max_max"]))
    return {member: _percentiles(own) for member, own in found.items()}


def _percentiles(counted: list[tuple[int, int, int]]) -> Latencies:
    values, counts, greatest = np.array(sorted(counted), np.int64).T
    so_far = np.cumsum(counts)
    p50, p99 = (int(values[np.searchsorted(100 * so_far, share * so_far[-1])]) for share in (50, 99))
    return Latencies(p50, p99, int(greatest.max()))
