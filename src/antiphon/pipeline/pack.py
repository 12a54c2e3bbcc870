"""Packing: many small files of a history become few sorted ones, by Spark, from any file system to any other.

Runs are recorded into a file per process and segment: thousands of short runs are thousands of files, and opening them
costs more than reading them. A packed history has the same rows in the same columns:

    TARGET/of_run=RUN/part-….parquet    rows sorted by process, incarnation and index, about ROWS_PER_FILE in each
    TARGET/of_run=RUN/manifest.json     what lies there: rows of each file, and where it begins and ends

`of_run` is a copy of the column `run`, for the folder's name alone: the files keep `run`, so that whoever opens one by
itself has whole rows, and a Spark session that reads TARGET can leave out other runs by their folders. Rows of schema
version 1 are brought up to date. A run that is larger than a file takes several, cut by ranges of the sort order.

What is lost stays lost: of a segment that was never completed, or that a manifest lists and that is gone, the manifest
of its runs lists the name. So the log counts as cut short before and after. A file that is damaged makes the packing
fail: nothing of it would be left to tell.

Driver: one line per file and per lost segment. Shuffle: all rows, once, by range.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.manifest import NAME as MANIFEST
from antiphon.history.schema import SCHEMA, SCHEMA_VERSION
from antiphon.history.segments import PARTIAL, SUFFIX
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.passes import is_connected

ROWS_PER_FILE: Final = 2_000_000
PARTITION: Final = "of_run"
LOG: Final = ("run", "process", "incarnation")
FOLDER: Final = "regexp_replace(_metadata.file_path, '/[^/]*$', '')"


@dataclass(frozen=True)
class Packed:
    """What became of a history."""

    runs: int
    rows: int
    files_before: int
    files: int
    lost: int
    """Segments that are lost, by name."""


def pack_history(spark: SparkSession, source: str, target: str, rows_per_file: int = ROWS_PER_FILE) -> Packed:
    """Write the rows under `source` as a packed history to `target`, which must not exist yet."""
    if is_connected(spark):
        raise UsageError("a history is packed on a session of its own: Spark Connect gives no way to write a manifest")
    rows, files_before = _read(spark, source)
    lost = _lost(spark, source, rows)
    count = rows.count()
    if not count:
        raise UsageError(f"{source} holds no rows; there is nothing to pack")
    order = [PARTITION, "process", "incarnation", "index"]
    placed = _up_to_date(rows.select(*SCHEMA.names)).withColumn(PARTITION, f.col("run"))
    parts = placed.repartitionByRange(math.ceil(count / rows_per_file), *order).sortWithinPartitions(*order)
    try:
        parts.write.partitionBy(PARTITION).option("compression", "zstd").parquet(target)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise UsageError(f"{target} exists; name another place for the packed history") from error
    found = _contents(spark, target)
    by_folder: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in found:
        by_folder.setdefault((entry["folder"], entry["run"]), []).append(entry)
    for (folder, run), entries in by_folder.items():
        _write_manifest(spark, folder, run, entries, lost.get(run, ()))
    return Packed(
        runs=len({run for _, run in by_folder}),
        rows=sum(entry["rows"] for entry in found),
        files_before=files_before,
        files=len(found),
        lost=len(set().union(*lost.values())),
    )


def _read(spark: SparkSession, place: str) -> tuple[DataFrame, int]:
    reader = spark.read.schema(from_arrow_schema(SCHEMA)).option("recursiveFileLookup", "true")
    try:
        rows = reader.option("pathGlobFilter", f"*{SUFFIX}").parquet(place)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise UsageError(f"there is no {place}; name the history to pack") from error
    return rows, len(rows.inputFiles())


def _up_to_date(rows: DataFrame) -> DataFrame:
    """Rows as the present version has them; a log's start rows say of which version it is (`history.versions`)."""
    told = rows.where("kind = 'start'").select(*LOG, f.from_json("label", "schema INT")["schema"].alias("version"))
    old = told.groupBy(*LOG).agg(f.min("version").alias("version")).where(f.col("version") < SCHEMA_VERSION)
    is_unknown = f.expr("version IS NOT NULL AND kind = 'deliver' AND destinations IS NULL")
    nobody = f.array().cast("array<string>")
    joined = rows.join(old, [*LOG], "left")
    return joined.withColumn("destinations", f.when(is_unknown, nobody).otherwise(f.col("destinations"))).select(
        *SCHEMA.names
    )


def _lost(spark: SparkSession, source: str, rows: DataFrame) -> dict[str, set[str]]:
    """The names of segments that were never completed, or that are listed and gone, by the runs beside them."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    beside = listing.option("pathGlobFilter", f"{{{MANIFEST},*{SUFFIX}{PARTIAL}}}").load(source)
    present = {unquote(path) for path in rows.inputFiles()}
    lost: dict[str, set[str]] = {}
    for path in (unquote(path) for path in beside.inputFiles()):
        folder, _, name = path.rpartition("/")
        if name.endswith(PARTIAL):
            lost.setdefault(folder, set()).add(name.removesuffix(PARTIAL))
    for manifest in beside.where(f.col("path").endswith(MANIFEST)).select("path", "content").collect():
        folder = _folder_among(present, unquote(manifest["path"]).rpartition("/")[0])
        for entry in json.loads(bytes(manifest["content"])).get("files", ()):
            if f"{folder}/{entry['name']}" not in present:
                lost.setdefault(folder, set()).add(entry["name"])
    if not lost:
        return {}
    runs: dict[str, set[str]] = {}
    for row in rows.selectExpr(f"{FOLDER} AS folder", "run").distinct().collect():
        runs.setdefault(_path(row["folder"]), set()).add(row["run"])
    everywhere = set().union(*runs.values())
    result: dict[str, set[str]] = {}
    for folder, names in lost.items():
        for run in runs.get(_path(folder), everywhere):
            result.setdefault(run, set()).update(names)
    return result


def _path(name: str) -> str:
    """A folder without the two ways in which Spark writes a local one."""
    return unquote(name).replace(":///", ":/", 1)


def _folder_among(present: Iterable[str], folder: str) -> str:
    """The folder as it is written in the names of the files that are there."""
    for path in present:
        if _path(path.rpartition("/")[0]) == _path(folder):
            return path.rpartition("/")[0]
    return folder


def _contents(spark: SparkSession, target: str) -> list[dict[str, Any]]:
    """Each file of a packed history: folder, name, run, rows, first and last place, and the processes in it."""
    rows = spark.read.schema(from_arrow_schema(SCHEMA)).option("recursiveFileLookup", "true").parquet(target)
    place = f.struct("process", "incarnation", "index")
    by_file = rows.select("*", "_metadata.file_path", "_metadata.file_name").groupBy("file_path", "file_name", "run")
    found = by_file.agg(
        f.count("*").alias("rows"),
        f.min(place).alias("first"),
        f.max(place).alias("last"),
        f.sort_array(f.collect_set(f.concat_ws("/", "process", "incarnation"))).alias("processes"),
    )
    return [
        {**row.asDict(recursive=True), "folder": unquote(row["file_path"]).rpartition("/")[0]}
        for row in found.orderBy("run", "file_name").collect()
    ]


def _write_manifest(
    spark: SparkSession, folder: str, run: str, entries: list[dict[str, Any]], lost: Iterable[str]
) -> None:
    files = [
        {
            "name": entry["file_name"],
            "rows": entry["rows"],
            **{
                end: {"process": f"{entry[end]['process']}/{entry[end]['incarnation']}", "index": entry[end]["index"]}
                for end in ("first", "last")
            },
        }
        for entry in entries
    ]
    document = {
        "schema": SCHEMA_VERSION,
        "runs": [run],
        "processes": sorted({process for entry in entries for process in entry["processes"]}),
        "files": [*files, *({"name": name, "rows": 0} for name in sorted(lost))],
    }
    java: Any = spark
    path = java._jvm.org.apache.hadoop.fs.Path(f"{folder}/{MANIFEST}")
    stream = path.getFileSystem(java._jsc.hadoopConfiguration()).create(path, True)
    try:
        stream.write(bytearray((json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()))
    finally:
        stream.close()
