"""A pass over a history on Spark: one function over numbered pieces of work, and what all of them have to know.

On a classic session, what is shared travels once to each executor, as a broadcast. Spark Connect has no broadcasts:
there it travels inside the function, within the limits that Connect sets to one request (128 MiB unless the server says
otherwise).
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

PARTITIONS_PER_CORE: Final = 4

T = TypeVar("T")
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Carried(Generic[T]):
    """A value that travels inside the function that uses it; read like a broadcast."""

    def __init__(self, value: T) -> None:
        self.value = value


def is_connected(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return ".connect." in type(spark).__module__


def share(spark: SparkSession, value: T) -> Carried[T] | Broadcast[T]:
    """What every task has to know: `value` is read from the result's attribute of that name."""
    if is_connected(spark):
        return Carried(value)
    return spark.sparkContext.broadcast(value)


def over_numbers(spark: SparkSession, count: int, work: Work, schema: pa.Schema) -> DataFrame:
    """Run `work` over the numbers 0, 1… `count` - 1."""
    if is_connected(spark):
        partitions_max = int(spark.conf.get("spark.sql.shuffle.partitions") or PARTITIONS_PER_CORE)
    else:
        partitions_max = PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism
    numbers = spark.range(0, count, 1, max(1, min(count, partitions_max)))
    return numbers.mapInArrow(work, from_arrow_schema(schema))
