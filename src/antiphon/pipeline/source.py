"""Where a history lies, as Spark sees it: files under a URI of any file system that the session knows, or a table.

Spark lists and reads; Python opens nothing. Of files whose names begin with `_` or `.` Spark takes no notice, as
everywhere; the recorder writes no such names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.manifest import NAME as MANIFEST
from antiphon.history.schema import SCHEMA
from antiphon.history.segments import PARTIAL, SUFFIX
from antiphon.pipeline.file_scan import RUN
from antiphon.pipeline.jobs import settings
from antiphon.pipeline.passes import is_connected
from antiphon.pipeline.places import is_plain

GLOB: Final = "\\{}[]*?"
BESIDE: Final = f"{{{MANIFEST},*{SUFFIX}{PARTIAL}}}"
"""What tells something of a history beside its rows."""
PARTITIONS: Final = (RUN, "of_run")
"""Columns of folders that name a run, as Spark and `antiphon.pipeline.pack` write them."""
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
        """The Parquet files, as Spark names them in the column `path`."""
        self.unfinished: list[str] = []
        """Files that were never completed."""
        self._manifests: list[str] = []
        if place.is_table:
            return
        self._root = spark_path(spark, place.name)
        try:
            self._listed = self._by_folder(self._lister(f"*{SUFFIX}").load(self._root))
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

    def files(self) -> DataFrame:
        """The files that may hold rows of the runs that are asked for, with path, length and content."""
        files = self._listed
        for name in PARTITIONS:
            if self.place.runs and name in files.columns:
                files = files.where(f.col(name).isin(*self.place.runs))
        return files

    def rows(self, path: str | None = None) -> DataFrame:
        """All rows of the table that are asked for, or those of a file. What cannot be read fails the job."""
        if path is None:
            table = self._table()
        else:
            reader = self.spark.read.option("parquet.page.verify-checksum.enabled", "true")
            reader = reader.schema(from_arrow_schema(SCHEMA))
            table = (reader.option("basePath", self._root) if RUN in self._listed.columns else reader).parquet(
                *_plain([path])
            )
        columns = [f.col(field.name).cast(field.dataType).alias(field.name) for field in from_arrow_schema(SCHEMA)]
        rows = table.select(*columns)
        return rows.where(f.col("run").isin(*self.place.runs)) if self.place.runs else rows

    def manifests(self) -> DataFrame:
        """What is listed in the manifests: manifest (its path), version, corrupt, name and rows of each file."""
        schema = f"schema LONG, files ARRAY<STRUCT<name: STRING, rows: LONG>>, {CORRUPT} STRING"
        read = self.spark.read.schema(schema).options(multiLine=True, columnNameOfCorruptRecord=CORRUPT)
        return read.json(_plain(self._manifests)).selectExpr("*", "_metadata.file_path AS manifest")

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

    def _by_folder(self, listed: DataFrame) -> DataFrame:
        """The files, with the run as a column where folders name it: so Spark can leave other runs out unread."""
        self.paths = _files(listed)
        if not any(self.paths and all(f"/{name}=" in path for path in self.paths) for name in PARTITIONS):
            return listed
        with settings(self.spark, {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}):
            reader = self.spark.read.format("binaryFile").option("pathGlobFilter", f"*{SUFFIX}")
            return reader.load(self._root)

    def _lister(self, names: str) -> DataFrameReader:
        listed = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        return listed.option("pathGlobFilter", names)


CORRUPT: Final = "_corrupt"


def _plain(paths: Sequence[str]) -> list[str]:
    """Paths that Spark listed, as it takes them again: no patterns."""
    return ["".join(f"\\{letter}" if letter in GLOB else letter for letter in path) for path in paths]


def path_of(uri: str) -> str:
    """A path that Spark gives as a URI, as it stands in the column `path` of a file."""
    return unquote(uri).replace(":///", ":/", 1)


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


def folder_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


def _files(frame: DataFrame) -> list[str]:
    """The files of a relation, which Spark has listed to make it."""
    return sorted(map(path_of, frame.inputFiles()))
