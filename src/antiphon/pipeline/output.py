"""Results as tables: `verdicts`, `violations` and `observations` below a URI, one folder per run.

Spark writes them. A run that is audited again replaces its own folders and leaves those of other runs alone, so that
writing twice changes nothing; a folder of an earlier audit that the new one has no rows for is removed. Other formats
than Parquet must be known to the session, and are overwritten run by run by the same rule.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from antiphon.pipeline.jobs import described, settings
from antiphon.pipeline.passes import is_connected
from antiphon.pipeline.run_results import OBSERVATION, VERDICT, VIOLATION
from antiphon.pipeline.source import spark_path

VERDICTS: Final = (
    *("guarantee", "verdict", "violations", "unknown", "checked", "roots", "reason", "example"),
    "example_events",
)
VIOLATIONS: Final = ("guarantee", "group", "process", "index", "sender", "number", "count", "reason", "root_cause")
OBSERVATIONS: Final = (
    *("process", "group", "sent", "delivered", "delivered_bytes"),
    *("latency_ns_p50", "latency_ns_p99", "latency_ns_max", "first_ns", "last_ns", "ending"),
)
TABLES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "verdicts": (VERDICT, VERDICTS),
    "violations": (VIOLATION, VIOLATIONS),
    "observations": (OBSERVATION, OBSERVATIONS),
}
"""By name: which rows of RESULTS, and which columns of them."""

_BY_RUN: Final = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


def table_frames(results: DataFrame) -> dict[str, DataFrame]:
    """The tables, from rows of RESULTS."""
    return {
        name: results.where(f.col("kind") == kind).select("run", *columns) for name, (kind, columns) in TABLES.items()
    }


def write_tables(spark: SparkSession, results: DataFrame, uri: str, kind: str = "parquet") -> None:
    """Write all tables; the columns come first, the run is the name of the folder."""
    root = spark_path(spark, uri, pattern=False).rstrip("/")
    tables = table_frames(results)
    runs = tables["verdicts"].select("run").distinct()
    for name, frame in tables.items():
        with settings(spark, _BY_RUN), described(spark, f"write {name} to {uri}"):
            stale = _stale(spark, f"{root}/{name}", kind, frame, runs)
            in_order = frame.repartition("run").sortWithinPartitions("run", *_ORDERS[name])
            in_order.write.mode("overwrite").format(kind).partitionBy("run").save(f"{root}/{name}")
            for folder in stale:
                _remove(spark, f"{root}/{name}/{folder}")


_ORDERS: Final = {
    "verdicts": ("guarantee",),
    "violations": ("guarantee", "group", "process", "index", "sender", "number"),
    "observations": ("process", "group"),
}


def _stale(spark: SparkSession, path: str, kind: str, frame: DataFrame, runs: DataFrame) -> list[str]:
    """The folders of runs that are audited here, were written before, and have no rows now."""
    try:
        known = spark.read.format(kind).option("basePath", path).load(path)
    except AnalysisException:
        return []  # there is no such table yet
    known = known.select(f.col("run").cast("string").alias("run"), "_metadata.file_path").distinct()
    gone = known.join(runs, "run", "left_semi").join(frame.select("run").distinct(), "run", "left_anti")
    return sorted({row["file_path"].rsplit("/", 2)[-2] for row in gone.collect()})


def _remove(spark: SparkSession, folder: str) -> None:
    """Delete a folder, through the file system that the session knows it by."""
    assert not is_connected(spark), "over Spark Connect results are written to a fresh place"
    hadoop = spark.sparkContext._jvm.org.apache.hadoop  # type: ignore[union-attr]
    path = hadoop.fs.Path(folder)
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)
