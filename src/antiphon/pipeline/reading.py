"""A history read by Spark: its packed pieces, kept by Spark, and what its files tell beside their rows.

One job reads everything and keeps it, packed; it also counts the rows of each run in each file. Held against the list
of files and against manifests, these counts show what is gone: a file that a manifest lists, a file without a readable
end, one that was never completed. What is gone is a fact: the logs that it belongs to were cut short.

If a file cannot be read, that job fails, after Spark's own retries. Then the history is read once more without what
cannot be read. Damaged files are read in splits so small that no two row groups share one: Spark gives up the rest of
a split where it fails, so that what is lost is the damaged row groups alone, as in the reader of one process.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.manifest import NAME as MANIFEST
from antiphon.history.segments import PARTIAL, log_name
from antiphon.history.validity import column_problems
from antiphon.history.versions import check_version
from antiphon.pipeline.held import LogName
from antiphon.pipeline.jobs import described, settings
from antiphon.pipeline.lost_rows import lost_extents
from antiphon.pipeline.scan import FILE, packed_pieces
from antiphon.pipeline.source import CORRUPT, HistoryAddress, ListedHistory, file_name, folder_of

BATCH_ROWS: Final = 131_072
"""Rows that Spark hands to Python at once; pieces are no longer."""
OPEN_COST_BYTES: Final = 256 * 1024
"""What Spark takes the opening of a file to cost when it deals files out: small files shall share a task."""
SPLIT_BYTES: Final = 1024
"""How finely damaged files are cut."""
UNREADABLE: Final = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")


@dataclass
class ReadHistory:
    """The packed pieces of a history, kept by Spark until `close`, and what is known of its files."""

    spark: SparkSession
    place: ListedHistory
    pieces: DataFrame
    """Rows of PACKED_PIECES."""
    runs: dict[str, int]
    """How many rows each run has."""
    cut_short: dict[LogName, str] = field(default_factory=dict)
    """Of which logs something is gone, and what, in words."""
    names: dict[int, str] = field(default_factory=dict)
    """The paths of the files, by FILE; found where they are needed."""

    @property
    def rows(self) -> int:
        return sum(self.runs.values())

    def file_names(self, files: list[int]) -> list[str]:
        """The names of files, by FILE."""
        self.names = self.names or self.place.hashes(self.place.paths)
        return sorted({file_name(self.names[number]) for number in files if number in self.names})


@contextmanager
def read_history(spark: SparkSession, place: HistoryAddress, tell: Callable[[str], None]) -> Iterator[ReadHistory]:
    """Read a history; what Spark keeps of it is dropped in the end. Raises UnusableHistoryError if it is none."""
    found = ListedHistory(spark, place)
    tell(f"reading {len(found.paths):,} files" if found.paths else f"reading {place.name}")
    with ExitStack() as kept, settings(spark, _SETTINGS):
        with described(spark, f"read {place.name}"):
            pieces, counts, damaged = _read(found, kept)
        yield _known(spark, found, pieces, counts, damaged)


def _read(place: ListedHistory, kept: ExitStack) -> tuple[DataFrame, pa.Table, Mapping[LogName, list[str]]]:
    """The packed pieces, their counts, and what of which logs cannot be read."""
    pieces = _keep(packed_pieces(place.rows()), kept)
    try:
        return pieces, _counts(pieces), {}
    except (Py4JError, PySparkException) as error:
        if not any(word in str(error) for word in UNREADABLE) or place.place.is_table:
            raise
    pieces.unpersist()
    return _read_what_can_be(place, kept)


def _keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.callback(frame.unpersist)
    return frame


_SETTINGS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
    "spark.sql.files.openCostInBytes": OPEN_COST_BYTES,
}


def _counts(pieces: DataFrame) -> pa.Table:
    """The rows of each run in each file, and what is wrong with a row, if anything is."""
    return pieces.groupBy("run", FILE).agg(f.sum("rows").alias("rows"), f.min("problem").alias("problem")).toArrow()


def _known(
    spark: SparkSession,
    place: ListedHistory,
    pieces: DataFrame,
    counts: pa.Table,
    damaged: Mapping[LogName, list[str]],
) -> ReadHistory:
    """Hold the counts against the files and the manifests."""
    runs: dict[str, int] = defaultdict(int)
    rows_of_file: dict[int, int] = defaultdict(int)
    runs_of_file: dict[int, set[str]] = defaultdict(set)
    for row in counts.to_pylist():
        if row["problem"] is not None:
            raise _row_error(place, row[FILE], row["problem"])
        runs[row["run"]] += row["rows"]
        rows_of_file[row[FILE]] += row["rows"]
        runs_of_file[row[FILE]].add(row["run"])
    history = ReadHistory(spark, place, pieces, dict(runs))
    causes: dict[LogName, list[str]] = defaultdict(list)
    for log, texts in damaged.items():
        causes[log] += texts
    gone = _gone(history, rows_of_file, is_damaged=bool(damaged))
    if gone:
        history.names = history.names or place.hashes(place.paths)
        runs_of_folder: dict[str, set[str]] = defaultdict(set)
        for number, of_file in runs_of_file.items():
            runs_of_folder[folder_of(_short(history.names.get(number, "")))] |= of_file
        elsewhere = {folder_of(_short(path)) for path in place.paths} - runs_of_folder.keys()
        for path, text in gone.items():
            if place.place.runs and folder_of(_short(path)) in elsewhere:
                continue  # it lies among files of other runs than those that are asked for
            process = log_name(file_name(path)) or file_name(path)
            for run in sorted(runs_of_folder.get(folder_of(_short(path)), runs.keys())):
                causes[run, process].append(text)
    if not runs:
        raise UnusableHistoryError(place.place.shown, _nothing(place, gone, bool(damaged)))
    history.cut_short = {log: " and ".join(texts) for log, texts in causes.items()}
    return history


def _gone(history: ReadHistory, rows_of_file: Mapping[int, int], *, is_damaged: bool) -> dict[str, str]:
    """Files of which nothing can be read, each with what is the matter with it."""
    place = history.place
    gone: dict[str, str] = {}
    if place.has_manifests or (len(rows_of_file) < len(place.paths) and not place.place.runs):
        history.names = place.hashes(place.paths)
    if place.has_manifests:
        gone |= _held_to_manifests(history, rows_of_file, is_damaged)
    if history.names and not place.place.runs:
        seen = {history.names[number] for number in rows_of_file}
        gone |= {path: text for path in place.paths if path not in seen and (text := _end_of(history, path))}
    gone |= {path: f"{file_name(path)} was never completed" for path in place.unfinished}
    return dict(sorted(gone.items(), key=lambda item: (item[0] in place.paths or item[0] in place.unfinished, item)))


def _held_to_manifests(history: ReadHistory, rows_of_file: Mapping[int, int], is_damaged: bool) -> dict[str, str]:
    """What manifests list and is gone; raises where a file has other rows than listed."""
    place = history.place
    rows = {_short(path): rows_of_file.get(number, 0) for number, path in history.names.items()}
    gone: dict[str, str] = {}
    with described(history.spark, "read manifests"):
        documents = place.manifests().collect()
    for document in documents:
        _check_manifest(place, document)
        for entry in document["files"]:
            path = f"{folder_of(_short(document['manifest']))}/{_encoded(entry['name'])}"
            if path not in rows:
                gone[path] = f"{entry['name']}, which {MANIFEST} lists, is gone"
            elif rows[path] not in (0, entry["rows"]) and not place.place.runs and not is_damaged:
                problem = (
                    f"it holds {rows[path]} rows, but {MANIFEST} lists {entry['rows']}; "
                    f"take the changed file, or {MANIFEST}, away"
                )
                raise UnusableHistoryError(place.place.shown / entry["name"], problem)
    return gone


def _check_manifest(place: ListedHistory, document: Any) -> None:
    file = place.place.shown / MANIFEST
    if document[CORRUPT] is not None:
        raise UnusableHistoryError(file, "it is no JSON document; it can be taken away")
    if document["schema"] is None or document["files"] is None:
        problem = 'it lacks a "schema" version or a list "files" of {"name", "rows"}; it can be taken away'
        raise UnusableHistoryError(file, problem)
    try:
        check_version(document["schema"])
    except UnusableHistoryError as error:
        raise UnusableHistoryError(file, error.problem) from None


def _end_of(history: ReadHistory, path: str) -> str | None:
    """What is the matter with a file of which no row was read; None if it holds none."""
    place, name = history.place, file_name(path)
    with described(history.spark, f"look at {name}"):
        if not place.size_of(path):
            return f"{name} is empty"
        if place.is_foreign(path):
            raise UnusableHistoryError(
                place.place.shown / name, "it is no Parquet file; take it away or name another directory"
            )
        return None if place.can_be_opened(path) else f"{name} has no readable end"


def _read_what_can_be(place: ListedHistory, kept: ExitStack) -> tuple[DataFrame, pa.Table, Mapping[LogName, list[str]]]:
    """The pieces that can be read, their counts, and what of which logs cannot, in words."""
    # Without any column, only the ends of files are read: they say how many rows there should be.
    ends = place.readable_rows().groupBy(FILE).agg(f.count("*").alias("rows")).toArrow()
    expected = dict(zip(ends[FILE].to_pylist(), ends["rows"].to_pylist(), strict=True))
    pieces = _keep(packed_pieces(place.readable_rows()), kept)
    counts = _counts(pieces)
    seen: dict[int, int] = defaultdict(int)
    for row in counts.to_pylist():
        seen[row[FILE]] += row["rows"] or 0
    damaged = [number for number, rows in expected.items() if seen[number] < rows]
    if not damaged:
        return pieces, counts, {}
    names = place.hashes(place.paths)
    finely = {"spark.sql.files.maxPartitionBytes": SPLIT_BYTES, "spark.sql.files.openCostInBytes": 0}
    with settings(place.spark, finely):
        rows = place.readable_rows([names[number] for number in damaged])
        parts = _keep(packed_pieces(rows), kept)
        texts = lost_extents(rows, parts, {number: file_name(names[number]) for number in damaged})
        pieces = pieces.where(~f.col(FILE).isin(*damaged)).unionAll(parts)
        return pieces, _counts(pieces), texts


def _row_error(place: ListedHistory, number: int, words: str) -> UnusableHistoryError:
    """Which row of which file makes no sense; that of a file that is no history at all."""
    path = place.hashes(place.paths).get(number)
    if path is None:
        return UnusableHistoryError(place.place.shown, f"a row makes no sense: {words}")
    file = place.place.shown / file_name(path)
    problems = column_problems(to_arrow_schema(place.columns_of(path)))
    problems = [problem for problem in problems if "'digest'" not in problem]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return UnusableHistoryError(file, f"it is no history of Antiphon: {', '.join(problems[:3])}{more}")
    return UnusableHistoryError(file, f"row {place.first_wrong_row(path)} makes no sense: {words}")


def _nothing(place: ListedHistory, gone: Mapping[str, str], damaged: bool) -> str:
    if place.place.runs:
        return f"it holds no run {', '.join(map(repr, place.place.runs))}"
    if damaged:
        return "no row group in it can be read"
    if not gone:
        return "the history holds no rows at all"
    path, text = next(iter(gone.items()))
    if f"which {MANIFEST} lists" in text:
        return f"no file in it can be read: {text}; bring it back"
    what = "was never completed" if path.endswith(PARTIAL) else "was cut short before it was complete"
    return f"no file in it can be read: {file_name(path)} {what}; record the run again"


def _short(path: str) -> str:
    return path.replace(":///", ":/", 1)


def _encoded(name: str) -> str:
    """The name of a file as it stands in a URI of Spark's."""
    return name.replace("%", "%25")
