"""Who was in which group, and how much each sent there: measured on Spark, added up by (group, process name).

Rows are read row group by row group, each is reduced to one line per group and process (`shares_of`, Arrow to Arrow and
free of Spark), and Spark SQL adds up those lines: no event is shuffled, none reaches the driver. A plan is for the runs
to come, so a process is its name, whatever its incarnation, and runs of one history are taken together.

Memory: a task holds its row group; the driver holds one line per group and process.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles, Unit, read_unit
from antiphon.pipeline.passes import over_numbers

ORDERED: Final = ("agreed", "safe")
COUNTS: Final = ("messages", "bytes", "ordered", "private", "delivered")

SHARE: Final = pa.schema(
    [
        ("group", pa.string()),
        ("process", pa.string()),
        *((name, pa.int64()) for name in COUNTS),
        ("view_first", pa.int64()),
        ("view_last", pa.int64()),
    ]
)
_FOUND: Final = SHARE.append(pa.field("problem", pa.string()))

ADDED_UP: Final = """
    SELECT group, process, sum(messages) AS messages, sum(bytes) AS bytes, sum(ordered) AS ordered,
           sum(private) AS private, sum(delivered) AS delivered,
           min(view_first) AS view_first, max(view_last) AS view_last, min(problem) AS problem
    FROM {found} GROUP BY group, process
"""


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one process had to do with one group."""

    group: str
    process: str
    messages: int
    """Sent to the whole group; what was sent to one member only is counted in `private`."""
    bytes: int
    """Payload bytes of `messages`."""
    ordered: int
    """How many of `messages` were agreed or safe."""
    private: int
    delivered: int
    view_first: int | None
    """The first and the last view of the group that list the process, if any does."""
    view_last: int | None

    @property
    def is_member(self) -> bool:
        """Whether the process was in a view of the group, or was handed messages there."""
        return self.view_first is not None or self.delivered > 0


@dataclass(frozen=True)
class Traffic:
    """All shares, ordered by group and process."""

    shares: tuple[Share, ...]

    @cached_property
    def members(self) -> Mapping[str, frozenset[str]]:
        """Group → names of all processes that were ever members."""
        members: dict[str, set[str]] = {}
        for share in self.shares:
            own = members.setdefault(share.group, set())
            if share.is_member:
                own.add(share.process)
        return {group: frozenset(names) for group, names in sorted(members.items())}

    @cached_property
    def messages(self) -> Mapping[str, int]:
        """Group → messages sent to the whole group."""
        return self._sums("messages")

    @cached_property
    def bytes(self) -> Mapping[str, int]:
        return self._sums("bytes")

    @cached_property
    def ordered(self) -> Mapping[str, int]:
        return self._sums("ordered")

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str], Share]:
        """(group, process) → share."""
        return {(share.group, share.process): share for share in self.shares}

    def _sums(self, name: str) -> dict[str, int]:
        sums = dict.fromkeys(self.members, 0)
        for share in self.shares:
            sums[share.group] += getattr(share, name)
        return sums


def measure(path: Path | str, spark: SparkSession, progress: Callable[[str], None] | None = None) -> Traffic:
    """The traffic of the history at `path`. Raises UnusableHistoryError if it is no history, or has no group."""
    history = HistoryFiles.open(Path(path).resolve())  # workers may be elsewhere
    units = history.units
    if progress is not None:
        progress(f"measuring {history.rows:,} rows")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from _found(units[place])

    found = over_numbers(spark, len(units), work, _FOUND)
    rows = spark.sql(ADDED_UP, found=found).toArrow().to_pylist()
    problems = sorted(row["problem"] for row in rows if row["problem"] is not None)
    if problems:
        raise UnusableHistoryError(None, problems[0])
    if not rows:
        raise UnusableHistoryError(Path(path), "no row of it names a group, so there is no structure to find")
    shares = [Share(**{name: row[name] for name in SHARE.names}) for row in rows]
    return Traffic(tuple(sorted(shares, key=lambda share: (share.group, share.process))))


def _found(unit: Unit) -> Iterator[pa.RecordBatch]:
    """The shares in one row group; what makes the history unusable travels as a row, since exceptions travel badly."""
    try:
        table = shares_of(read_unit(unit))
        yield from table.append_column("problem", pa.nulls(len(table), pa.string())).to_batches()
    except UnusableHistoryError as error:
        yield pa.RecordBatch.from_pylist([{"problem": str(error)}], _FOUND)


def shares_of(table: pa.Table) -> pa.Table:
    """The lines of SHARE for some rows of a history; a group and process may have several lines."""
    views = table.filter(pc.equal(table["kind"], "view"))
    parts = [_exchanged(table.filter(pc.is_in(table["kind"], pa.array(["send", "deliver"])))), _listed(views)]
    return pa.concat_tables(parts)


def _exchanged(rows: pa.Table) -> pa.Table:
    sent = pc.equal(rows["kind"], "send")
    private = pc.is_valid(rows["destinations"])
    to_all = pc.and_(sent, pc.invert(private))
    ordered = pc.and_(to_all, pc.is_in(rows["level"], pa.array(ORDERED)))
    counted = {
        "messages": (to_all, "count"),
        "bytes": (to_all, "size"),
        "ordered": (ordered, "count"),
        "private": (pc.and_(sent, private), "count"),
        "delivered": (pc.invert(sent), "count"),
    }
    columns = {name: pc.if_else(where, pc.fill_null(rows[of], 0), 0) for name, (where, of) in counted.items()}
    lines = pa.table({"group": rows["group"], "process": rows["process"], **columns})
    sums = lines.group_by(["group", "process"], use_threads=False).aggregate([(name, "sum") for name in COUNTS])
    unknown = pa.nulls(len(sums), pa.int64())
    return pa.Table.from_arrays(
        [sums["group"], sums["process"], *(sums[f"{name}_sum"] for name in COUNTS), unknown, unknown], schema=SHARE
    )


def _listed(views: pa.Table) -> pa.Table:
    """Who is listed in views, in which first and last."""
    members = views["members"].combine_chunks()
    parents = pc.list_parent_indices(members)
    names = pc.replace_substring_regex(pc.list_flatten(members), "/[0-9]*$", "")
    lines = pa.table({"group": views["group"].take(parents), "process": names, "view": views["view"].take(parents)})
    ranges = lines.group_by(["group", "process"], use_threads=False).aggregate([("view", "min"), ("view", "max")])
    nothing = pa.array([0] * len(ranges), pa.int64())
    return pa.Table.from_arrays(
        [ranges["group"], ranges["process"], *[nothing] * len(COUNTS), ranges["view_min"], ranges["view_max"]],
        schema=SHARE,
    )
