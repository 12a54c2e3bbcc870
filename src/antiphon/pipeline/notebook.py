"""A history for notebooks: its rows as DataFrames, its checks as methods.

    from antiphon.pipeline import History

    history = History("run1")                    # or History("run1", spark), on a session that is there
    history.deliveries.groupBy("process").count()
    history.check("causal")
    history.audit()

Not to be confused with `antiphon.history.reader.History`, the list of a history's files that this one is made from.
Frames are read when they are used; `audit`, `check` and `structure` work at once and say meanwhile what they do.

On a session of Spark Connect all of this works, with two limits: the server must see the files under the same paths and
have Antiphon installed, and what an audit knows must fit into one request (128 MiB unless the server says otherwise;
`antiphon.pipeline.passes`). Streams and anything that asks for a `sparkContext` are out of reach there.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from antiphon.history.reader import HistoryFiles as HistoryFiles
from antiphon.history.segments import log_of
from antiphon.pipeline import frames
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.display import html_table
from antiphon.pipeline.failures import spark_failures
from antiphon.pipeline.passes import is_connected
from antiphon.pipeline.result import Audit, Finding
from antiphon.pipeline.session import make_session
from antiphon.pipeline.structure.finding import Structure, find_structure

FRAMES: Final = (
    *("events", "sends", "deliveries", "receives", "views", "starts", "ends", "suspicions", "notes"),
    *("messages", "latencies"),  # message by message
    *("runs", "processes", "groups"),  # with counts
)
"""The attributes that are DataFrames."""

CONNECT_HINT: Final = (
    "on Spark Connect the server must see the history under the same path, have antiphon installed for the same "
    "version of Python, and take requests as large as what the audit has to know"
)

Progress = Callable[[str], None]


class History:
    """A recorded history on Spark."""

    def __init__(
        self, path: Path | str, spark: SparkSession | None = None, *, progress: Progress | None = None
    ) -> None:
        """
        path      a directory of Parquet files with everything below it, or one file
        spark     the session to work on; without one, the session that is active, or one on this machine's cores
        progress  is told, in words, what begins; if none is given, a line on standard error says so, in terminals and
                  notebooks
        """
        self._files = HistoryFiles.open(path)
        self.path = Path(path)
        self._place = self.path.resolve()  # workers may be elsewhere, and this process may go elsewhere
        self.spark = spark if spark is not None else _some_session()
        self._progress = progress
        self._events = frames.read_events(self.spark, sorted({unit.file for unit in self._files.units}))

    @property
    def events(self) -> DataFrame:
        """All rows, as they were recorded."""
        return self._events

    @property
    def sends(self) -> DataFrame:
        """What was sent: one row per run of messages."""
        return frames.sends(self._events)

    @property
    def deliveries(self) -> DataFrame:
        """What was delivered: one row per run of messages."""
        return frames.deliveries(self._events)

    @property
    def receives(self) -> DataFrame:
        """What arrived, where that was recorded."""
        return frames.receives(self._events)

    @property
    def views(self) -> DataFrame:
        """Which views were installed, and where."""
        return frames.views(self._events)

    @property
    def starts(self) -> DataFrame:
        """Who joined what, and what was promised."""
        return frames.starts(self._events)

    @property
    def ends(self) -> DataFrame:
        """How logs ended."""
        return frames.ends(self._events)

    @property
    def suspicions(self) -> DataFrame:
        """Who suspected whom."""
        return frames.suspicions(self._events)

    @property
    def notes(self) -> DataFrame:
        """What else was noted."""
        return frames.notes(self._events)

    @property
    def messages(self) -> DataFrame:
        """One row per message that was sent."""
        return frames.messages(self._events)

    @property
    def latencies(self) -> DataFrame:
        """One row per message and process that delivered it."""
        return frames.latencies(self._events)

    @property
    def runs(self) -> DataFrame:
        """One row per run, with counts."""
        return frames.runs(self._events)

    @property
    def processes(self) -> DataFrame:
        """One row per log, with counts and how it ended."""
        return frames.processes(self._events)

    @property
    def groups(self) -> DataFrame:
        """One row per group and run, with counts."""
        return frames.groups(self._events)

    def audit(self, promise: Sequence[str] | None = None) -> Audit:
        """Hold the history to what it promised, or to the guarantees named by `promise`."""
        with self._telling() as tell:
            return audit(self._place, self.spark, promise=promise, progress=tell)

    def check(self, guarantee: str) -> Finding:
        """How one guarantee fared, promised or not."""
        return self.audit((guarantee,)).findings[0]

    def structure(self, sequencers_max: int | None = None) -> Structure:
        """Which groups overlap, and a plan made from that; see `antiphon structure`."""
        with self._telling() as tell:
            return find_structure(self._place, self.spark, sequencers_max=sequencers_max, progress=tell)

    @contextmanager
    def _telling(self) -> Iterator[Progress]:
        with spark_failures(CONNECT_HINT if is_connected(self.spark) else None):
            if self._progress is not None:
                yield self._progress
            else:
                with _progress_line() as tell:
                    yield tell

    def __repr__(self) -> str:
        cut = f", {len(self._files.leftovers):,} files cut short" if self._files.leftovers else ""
        return f"History({str(self.path)!r}: {self._files.rows:,} rows in {len(self._names()):,} files{cut})"

    def _repr_html_(self) -> str:
        """From the ends of its files alone: to look at a history starts no job."""
        logs = {log for name in self._names() if (log := log_of(Path(name))) is not None}
        facts = f"{self._files.rows:,} rows in {len(self._names()):,} files of {len(logs):,} logs"
        cut = f"; {len(self._files.leftovers):,} files were cut short" if self._files.leftovers else ""
        holds = [(name, getattr(type(self), name).__doc__) for name in FRAMES]
        return html_table(f"History {self.path}: {facts}{cut}", ("frame", "holds"), holds)

    def _names(self) -> set[str]:
        return {unit.file for unit in self._files.units}


def _some_session() -> SparkSession:
    """The session that is active; else one of our own, whose frames a notebook shows as tables."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    own = make_session()
    own.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    return own


@contextmanager
def _progress_line() -> Iterator[Progress]:
    """One line on standard error that each step writes over; nothing where nobody looks."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield lambda _: None
        return
    width = 0

    def tell(step: str) -> None:
        nonlocal width
        sys.stderr.write("\r" + f"{step} …".ljust(width))
        sys.stderr.flush()
        width = max(width, len(step) + 2)

    try:
        yield tell
    finally:
        if width:
            sys.stderr.write("\r" + " " * width + "\r")
            sys.stderr.flush()
