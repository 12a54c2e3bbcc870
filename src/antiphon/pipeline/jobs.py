"""How jobs are set up and shown: settings that last as long as a job, and what the Spark UI calls it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from antiphon.pipeline.passes import is_connected


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, int | str]) -> Iterator[None]:
    """Settings of the session, for as long as the context lasts."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, str(value))
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def described(spark: SparkSession, words: str) -> Iterator[None]:
    """What the Spark UI shows of the jobs within."""
    if is_connected(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(f"antiphon: {words}")
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]
