"""A history read by Spark: its packed pieces, kept by Spark, and what its files tell beside their rows.

One job reads everything and keeps it, packed; it also counts the rows of each run in each file, and tells what could
not be decoded. Held against the list of files and against manifests, these counts show what is gone: a file that a
manifest lists, a file without a readable end, one that was never completed, a damaged row group. What is gone is a
fact: the logs that it belongs to were cut short. A file that the file system does not deliver, after Spark's own
retries, is no fact about the history: that job fails, and with it the audit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.manifest import NAME as MANIFEST
from antiphon.history.segments import PARTIAL, log_name
from antiphon.history.versions import check_version
from antiphon.pipeline.file_scan import FILE_BYTES_MAX, packed_files
from antiphon.pipeline.held import LogName
from antiphon.pipeline.jobs import described, settings
from antiphon.pipeline.scan import BATCH_ROWS, FILE, packed_pieces
from antiphon.pipeline.source import CORRUPT, HistoryAddress, ListedHistory, file_name, folder_of, path_of

OPEN_COST_BYTES: Final = 256 * 1024
"""What Spark takes the opening of a file to cost when it deals files out: small files shall share a task."""
FILES_AT_ONCE: Final = 64
"""So many files go to Python together; those of a task are no more than `spark.sql.files.maxPartitionBytes`."""
TOO_LONG: Final = "exceeds the max length allowed"
"""Spark's words for a file that is larger than FILE_BYTES_MAX."""
FileDamage = tuple[str, str | None, str | None, str]
"""A file, the run and the process that lack something, if that much is known, and what it is, in words."""
_SETTINGS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
    "spark.sql.files.openCostInBytes": OPEN_COST_BYTES,
    "spark.sql.sources.binaryFile.maxLength": FILE_BYTES_MAX,
}


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

    @property
    def rows(self) -> int:
        return sum(self.runs.values())


@contextmanager
def read_history(spark: SparkSession, place: HistoryAddress, tell: Callable[[str], None]) -> Iterator[ReadHistory]:
    """Read a history; what Spark keeps of it is dropped in the end. Raises UnusableHistoryError if it is none."""
    found = ListedHistory(spark, place)
    tell(f"reading {len(found.paths):,} files" if found.paths else f"reading {place.name}")
    with ExitStack() as kept, settings(spark, _SETTINGS):
        with described(spark, f"read {place.name}"):
            pieces, counts = _read(found, kept)
        yield _known(spark, found, pieces, counts)


def _read(place: ListedHistory, kept: ExitStack) -> tuple[DataFrame, pa.Table]:
    """The packed pieces, and their counts."""
    if place.place.is_table:
        pieces = _keep(packed_pieces(place.rows()), kept)
        return pieces, _counts(pieces)
    with settings(place.spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": FILES_AT_ONCE}):
        pieces = _keep(packed_files(place.files(), place.place.runs), kept)
        try:
            return pieces, _counts(pieces)
        except (Py4JError, PySparkException) as error:
            if TOO_LONG not in str(error):
                raise
        pieces.unpersist()
        files = place.files()
        small = packed_files(files.where(f.col("length") <= FILE_BYTES_MAX), place.place.runs)
        large = [row["path"] for row in files.where(f.col("length") > FILE_BYTES_MAX).select("path").collect()]
    of_large = (packed_pieces(place.rows(path)).withColumn(FILE, f.lit(path)) for path in sorted(large))
    pieces = _keep(reduce(DataFrame.unionAll, of_large, small), kept)
    return pieces, _counts(pieces)


def _keep(frame: DataFrame, kept: ExitStack) -> DataFrame:
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.callback(frame.unpersist)
    return frame


def _counts(pieces: DataFrame) -> pa.Table:
    """The rows of each run in each file, what is damaged, and what is wrong with a row, if anything is."""
    damage = f.when(f.col("damage").isNotNull(), f.struct("first_index", "process", "damage"))
    sums = (f.sum("rows").alias("rows"), f.min("problem").alias("problem"), f.collect_list(damage).alias("damages"))
    return pieces.groupBy("run", FILE).agg(*sums).toArrow()


def _known(spark: SparkSession, place: ListedHistory, pieces: DataFrame, counts: pa.Table) -> ReadHistory:
    """Hold the counts against the files and the manifests."""
    rows = sorted(counts.to_pylist(), key=lambda row: (row[FILE] or "", row["run"] or ""))
    for row in rows:
        if row["problem"] is not None:
            file = place.place.shown if row[FILE] is None else place.place.shown / file_name(row[FILE])
            raise UnusableHistoryError(file, row["problem"])
    runs: dict[str, int] = defaultdict(int)
    rows_of_file: dict[str, int] = defaultdict(int)
    runs_of_folder: dict[str, set[str]] = defaultdict(set)
    damages: list[FileDamage] = []
    for row in rows:
        for _, process, text in sorted(tuple(damage.values()) for damage in row["damages"]):
            damages.append((row[FILE], row["run"], process, text))
        rows_of_file[row[FILE]] += row["rows"]
        if row["rows"]:
            runs[row["run"]] += row["rows"]
            runs_of_folder[folder_of(row[FILE] or "")].add(row["run"])
    gone = _gone(place, rows_of_file, is_damaged=bool(damages))
    if not runs:
        raise UnusableHistoryError(place.place.shown, _nothing(place, gone, damages))
    causes: dict[LogName, list[str]] = defaultdict(list)
    elsewhere = {folder_of(path) for path in place.paths} - runs_of_folder.keys()
    for path, run, process, text in [*damages, *((path, None, None, text) for path, text in gone.items())]:
        if run is not None and process is not None:
            causes[run, process].append(text)
        elif not (place.place.runs and folder_of(path) in elsewhere):  # else it lies among files of other runs
            by_name = log_name(file_name(path)) or file_name(path)
            for own in sorted(runs_of_folder.get(folder_of(path), runs.keys())):
                causes[own, by_name].append(text)
    held = pieces.where(f.col("body").isNotNull())
    return ReadHistory(spark, place, held, dict(runs), {log: " and ".join(texts) for log, texts in causes.items()})


def _gone(place: ListedHistory, rows_of_file: Mapping[str, int], *, is_damaged: bool) -> dict[str, str]:
    """Files that are not there, or hold nothing, each with what is the matter with it."""
    gone: dict[str, str] = {}
    if place.has_manifests:
        gone |= _held_to_manifests(place, rows_of_file, is_damaged)
    if not place.place.runs:  # Spark passes files of no length over
        gone |= {path: f"{file_name(path)} is empty" for path in place.paths if path not in rows_of_file}
    gone |= {path: f"{file_name(path)} was never completed" for path in place.unfinished}
    return dict(sorted(gone.items(), key=lambda item: (item[0] in place.paths or item[0] in place.unfinished, item)))


def _held_to_manifests(place: ListedHistory, rows_of_file: Mapping[str, int], is_damaged: bool) -> dict[str, str]:
    """What manifests list and is gone; raises where a file has other rows than listed."""
    listed = set(place.paths)
    gone: dict[str, str] = {}
    with described(place.spark, "read manifests"):
        documents = place.manifests().collect()
    for document in documents:
        _check_manifest(place, document)
        for entry in document["files"]:
            path = f"{folder_of(path_of(document['manifest']))}/{entry['name']}"
            rows = rows_of_file.get(path, 0)
            if path not in listed:
                gone[path] = f"{entry['name']}, which {MANIFEST} lists, is gone"
            elif rows not in (0, entry["rows"]) and not place.place.runs and not is_damaged:
                problem = (
                    f"it holds {rows} rows, but {MANIFEST} lists {entry['rows']}; "
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


def _nothing(
    place: ListedHistory, gone: Mapping[str, str], damages: Sequence[tuple[str, str | None, str | None, str]]
) -> str:
    if place.place.runs:
        return f"it holds no run {', '.join(map(repr, place.place.runs))}"
    cut_short = [path for path, _, _, text in damages if text.endswith("has no readable end")]
    if len(cut_short) < len(damages):
        return "no row group in it can be read"
    if not gone and not cut_short:
        return "the history holds no rows at all"
    path, text = next(iter(gone.items()), (next(iter(cut_short), ""), ""))
    if f"which {MANIFEST} lists" in text:
        return f"no file in it can be read: {text}; bring it back"
    what = "was never completed" if path.endswith(PARTIAL) else "was cut short before it was complete"
    return f"no file in it can be read: {file_name(path)} {what}; record the run again"
