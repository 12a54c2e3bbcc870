"""Structured Streaming over live groups: `register(spark)`, then the format "antiphon" can be read and written.

Sources and sinks that are written in Python, read Arrow and plan by limits came to Spark after 4.0: streams want 4.3.
"""

from typing import Final

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from antiphon.kernel.errors import UsageError

try:
    from antiphon.pipeline.streaming.sink import SpoolStreamWriter
    from antiphon.pipeline.streaming.source import ROW_SCHEMA, JournalStreamReader
except ImportError as error:
    raise UsageError(f"streams need pyspark 4.3, and this is {pyspark.__version__} ({error.msg}); update it") from error

FORMAT: Final = "antiphon"


class GroupDataSource(DataSource):
    """A journal to read from, a spool to write to."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> JournalStreamReader:  # noqa: N802  (Spark's names)
        return JournalStreamReader(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SpoolStreamWriter:  # noqa: N802
        if overwrite:
            raise UsageError("what was multicast cannot be taken back: write in output mode append or update")
        return SpoolStreamWriter(self.options, schema)


def register(spark: SparkSession) -> None:
    """Make the format known to a session. Executors need the package `antiphon` installed."""
    spark.dataSource.register(GroupDataSource)


__all__ = ["FORMAT", "GroupDataSource", "register"]
