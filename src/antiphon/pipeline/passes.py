"""A pass over a history on Spark: one function over numbered pieces of work. What all of them have to know gets there
by `antiphon.pipeline.shipping`."""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

PARTITIONS_PER_CORE: Final = 4

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def is_connected(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return ".connect." in type(spark).__module__


def over_numbers(spark: SparkSession, count: int, work: Work, schema: pa.Schema) -> DataFrame:
    """Run `work` over the numbers 0, 1… `count` - 1."""
    if is_connected(spark):
        partitions_max = int(spark.conf.get("spark.sql.shuffle.partitions") or PARTITIONS_PER_CORE)
    else:
        partitions_max = PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism
    numbers = spark.range(0, count, 1, max(1, min(count, partitions_max)))
    return numbers.mapInArrow(work, from_arrow_schema(schema))
