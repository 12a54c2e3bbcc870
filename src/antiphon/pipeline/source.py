"""Where a history lies, as Spark sees it: files under a URI of any file system that the session knows, or a table.

Spark lists and reads; Python opens nothing. Of files whose names begin with `_` or `.` Spark takes no notice, as
everywhere; the recorder writes no such names.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.manifest import NAME as MANIFEST
from antiphon.history.reader import MAGIC
from antiphon.history.schema import SCHEMA
from antiphon.history.segments import PARTIAL, SUFFIX
from antiphon.pipeline.passes import is_connected
from antiphon.pipeline.places import is_plain
from antiphon.pipeline.scan import FILE, find_problems

GLOB: Final = "\\{}[]*?"
BESIDE: Final = f"{{{MANIFEST},*{SUFFIX}{PARTIAL}}}"
"""What tells something of a history beside its rows."""
_PATH_NOT_FOUND: Final = "PATH_NOT_FOUND"


@dataclass(frozen=True)
class HistoryAddress:
    """A URI, or the name of a table, and which runs of it to read: all if none are named."""

    name: str
    is_table: bool = False
    runs: tuple[str, ...] = ()

    @property
    def shown(self) -> Path:
        """For messages."""
        return Path(self.name)


def spark_path(spark: SparkSession, name: str, *, pattern: bool = True) -> str:
    """A place as Spark takes it. A plain path is one of this machine if the session's own file system is that; where
    Spark would take it as a pattern, it is made to mean itself."""
    if not is_plain(name) or not _is_default_local(spark):
        return name
    path = str(Path(name).resolve())
    return "file:" + ("".join(f"\\{letter}" if letter in GLOB else letter for letter in path) if pattern else path)


def _is_default_local(spark: SparkSession) -> bool:
    if is_connected(spark):
        return True
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    return not default or default.startswith("file:")


class ListedHistory:
    """The files of a history, or its table, listed and not yet read."""

    def __init__(self, spark: SparkSession, place: HistoryAddress) -> None:
        """Raises UnusableHistoryError if there is nothing of the kind."""
        self.spark = spark
        self.place = place
        self.paths: list[str] = []
        """The Parquet files."""
        self.unfinished: list[str] = []
        """Files that were never completed."""
        self._manifests: list[str] = []
        if place.is_table:
            return
        self._root = spark_path(spark, place.name)
        try:
            self.paths = _files(self._reader().parquet(self._root))
            beside = _files(self._lister(BESIDE).load(self._root))
        except AnalysisException as error:
            if error.getCondition() == _PATH_NOT_FOUND:
                raise UnusableHistoryError(place.shown, "there is no such file or directory") from error
            raise
        self.unfinished = [path for path in beside if path.endswith(PARTIAL)]
        self._manifests = [path for path in beside if path.endswith(MANIFEST)]
        if not self.paths and not self.unfinished and not self._manifests:
            raise UnusableHistoryError(place.shown, f"the directory holds no history: no file in it ends with {SUFFIX}")

    @property
    def has_manifests(self) -> bool:
        return bool(self._manifests)

    def rows(self) -> DataFrame:
        """All rows that are asked for, with FILE. A file that cannot be read fails the job."""
        if not self.place.is_table:
            return self._of_runs(_with_file(self._reader().parquet(self._root)))
        table = self._table()
        columns = [f.col(field.name).cast(field.dataType).alias(field.name) for field in from_arrow_schema(SCHEMA)]
        return self._of_runs(table.select(*columns, f.lit(0).cast("long").alias(FILE)))

    def readable_rows(self, paths: Sequence[str] | None = None) -> DataFrame:
        """The same, of some files, without what cannot be read: a file is given up where it fails."""
        reader = self._reader().option("ignoreCorruptFiles", "true")
        return self._of_runs(
            _with_file(reader.parquet(self._root) if paths is None else reader.parquet(*_plain(paths)))
        )

    def manifests(self) -> DataFrame:
        """What is listed in the manifests: manifest (its path), version, corrupt, name and rows of each file."""
        schema = f"schema LONG, files ARRAY<STRUCT<name: STRING, rows: LONG>>, {CORRUPT} STRING"
        read = self.spark.read.schema(schema).options(multiLine=True, columnNameOfCorruptRecord=CORRUPT)
        return read.json(_plain(self._manifests)).selectExpr("*", "_metadata.file_path AS manifest")

    def hashes(self, paths: Collection[str]) -> dict[int, str]:
        """The paths of files, by FILE. Spark writes a path without a host in two ways: each counts."""
        ways = {way: path for path in paths for way in (path, path.replace(":///", ":/", 1))}
        if not ways:
            return {}
        known = self.spark.createDataFrame(pa.table({"path": pa.array(sorted(ways), pa.string())}))
        table = known.select(f.xxhash64("path").alias(FILE), "path").toArrow()
        return {
            number: ways[way] for number, way in zip(*(column.to_pylist() for column in table.columns), strict=True)
        }

    def size_of(self, path: str) -> int:
        """The bytes of a file. Spark passes files of no length over."""
        listed = self._lister("*").load(_plain([path])).select("length").first()
        return 0 if listed is None else int(listed["length"])

    def is_foreign(self, path: str) -> bool:
        """Whether a file does not even begin as Parquet files do."""
        whole = self._lister("*").load(_plain([path]))
        head = whole.select(f.substring("content", 1, len(MAGIC)).alias("head")).first()
        return head is not None and not MAGIC.startswith(bytes(head["head"]))

    def can_be_opened(self, path: str) -> bool:
        """Whether a file has an end that tells its columns."""
        try:
            self.columns_of(path)
        except (AnalysisException, Py4JError, PySparkException):
            return False
        return True

    def columns_of(self, path: str) -> StructType:
        """The columns of a file, by its own word."""
        return self.spark.read.parquet(*_plain([path])).schema

    def first_wrong_row(self, path: str) -> int:
        """The place in a file of the first row that makes no sense."""
        rows = self._reader().parquet(*_plain([path])).select(*SCHEMA.names, "_metadata.row_index")
        return min(int(row["place"]) for row in rows.mapInArrow(find_problems, "place LONG").collect())

    def _table(self) -> DataFrame:
        try:
            table = self.spark.table(self.place.name)
        except AnalysisException as error:
            raise UnusableHistoryError(self.place.shown, "there is no such table") from error
        missing = [repr(name) for name in SCHEMA.names if name not in table.columns]
        if missing:
            raise UnusableHistoryError(
                self.place.shown, f"it is no history of Antiphon: column {', '.join(missing[:3])} is missing"
            )
        return table

    def _of_runs(self, rows: DataFrame) -> DataFrame:
        return rows.where(f.col("run").isin(*self.place.runs)) if self.place.runs else rows

    def _reader(self) -> DataFrameReader:
        found = self.spark.read.schema(from_arrow_schema(SCHEMA))
        found = found.option("parquet.page.verify-checksum.enabled", "true")
        if self.paths and all("/run=" in path for path in self.paths):
            return found  # Spark wrote it, partitioned by run: the column is in the names of folders
        return found.option("recursiveFileLookup", "true").option("pathGlobFilter", f"*{SUFFIX}")

    def _lister(self, names: str) -> DataFrameReader:
        listed = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        return listed.option("pathGlobFilter", names)


CORRUPT: Final = "_corrupt"


def _with_file(rows: DataFrame) -> DataFrame:
    return rows.select(*SCHEMA.names, f.xxhash64("_metadata.file_path").alias(FILE))


def _plain(paths: Sequence[str]) -> list[str]:
    """Paths that Spark listed, as it takes them again: no patterns."""
    return ["".join(f"\\{letter}" if letter in GLOB else letter for letter in decoded(path)) for path in paths]


def decoded(path: str) -> str:
    """A path that Spark gave as a URI, with the letters that it stands for."""
    return unquote(path)


def file_name(path: str) -> str:
    """The last part of a path that Spark gave."""
    return decoded(path.rsplit("/", 1)[-1])


def folder_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


def _files(frame: DataFrame) -> list[str]:
    """The files of a relation, which Spark has listed to make it."""
    return sorted(frame.inputFiles())
