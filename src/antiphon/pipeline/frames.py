"""The rows of a history as Spark DataFrames with columns for people: native reads of its Parquet files, filtered.

In `events` the columns are those of `antiphon.history.schema`. In the others a process is one column,
"name/incarnation", `messages` counts the messages that a row stands for, `number` is the first of them, and `bytes` is
their payload together. What names the row stands first, then what it tells, then time and place in the log. Nothing is
read before a frame is used.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from antiphon.history.schema import SCHEMA

GLOB: Final = "\\{}[]*?"
START: Final = "stack STRING, policy STRING, levels ARRAY<STRING>, promises ARRAY<STRING>"

PROCESS: Final = "concat(process, '/', incarnation) AS process"
SENDER: Final = "concat(sender, '/', sender_incarnation) AS sender"
CARRIED: Final = ("number", "count AS messages", "level", "size AS bytes")
PLACE: Final = ("time_ns", "index")


def read_events(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """All rows, as they were recorded."""
    return spark.read.schema(from_arrow_schema(SCHEMA)).parquet(*(_spark_path(file) for file in files))


def _spark_path(file: str) -> str:
    """The name of a local file as Spark takes it: no pattern, and not looked for in another file system."""
    path = str(Path(file).resolve())
    return "file:" + "".join(f"\\{letter}" if letter in GLOB else letter for letter in path)


def sends(events: DataFrame) -> DataFrame:
    kept = ("run", "group", "view", SENDER, *CARRIED, "destinations", "label", *PLACE)
    return _of(events, "send").selectExpr(*kept)


def receives(events: DataFrame) -> DataFrame:
    return _of(events, "receive").selectExpr("run", PROCESS, "group", "view", SENDER, *CARRIED, *PLACE)


def deliveries(events: DataFrame) -> DataFrame:
    return _of(events, "deliver").selectExpr("run", PROCESS, "group", "view", SENDER, *CARRIED, "label", *PLACE)


def views(events: DataFrame) -> DataFrame:
    return _of(events, "view").selectExpr("run", PROCESS, "group", "view", "members", *PLACE)


def starts(events: DataFrame) -> DataFrame:
    """What was promised, group by group; the label is taken apart."""
    told = _of(events, "start").withColumn("told", f.from_json("label", START))
    return told.selectExpr("run", PROCESS, "group", "told.*", *PLACE)


def suspicions(events: DataFrame) -> DataFrame:
    return _of(events, "suspect").selectExpr("run", PROCESS, "group", "view", "label AS suspected", *PLACE)


def notes(events: DataFrame) -> DataFrame:
    return _of(events, "note").selectExpr("run", PROCESS, "group", "label AS note", *PLACE)


def ends(events: DataFrame) -> DataFrame:
    """How logs ended; a log that was cut short has no row here."""
    return _of(events, "stop", "crash").selectExpr("run", PROCESS, "kind", "label AS why", *PLACE)


def messages(events: DataFrame) -> DataFrame:
    """One row per message that was sent."""
    each = _each(sends(events))
    return each.selectExpr("run", "group", "sender", "number", "level", "view", "destinations", "time_ns")


def latencies(events: DataFrame) -> DataFrame:
    """One row per message and process that delivered it: how long after it was sent, by the clocks of the two.

    Message by message, so Spark has to bring sends and deliveries together: narrow it by run or group before it is
    used on a long history, or see the observations of an audit, which need no such thing.
    """
    name = ["run", "group", "sender", "number"]
    sent = _each(sends(events)).selectExpr(*name, "time_ns AS sent_ns")
    delivered = _each(deliveries(events)).selectExpr(*name, "level", "process", "time_ns AS delivered_ns")
    both = delivered.join(sent, name)
    return both.selectExpr(*name, "level", "process", "sent_ns", "delivered_ns", "delivered_ns - sent_ns AS latency_ns")


def runs(events: DataFrame) -> DataFrame:
    """One row per run."""
    return _summed(
        events, ["run"], "count(DISTINCT process, incarnation) AS processes", "count(DISTINCT group) AS groups"
    )


def processes(events: DataFrame) -> DataFrame:
    """One row per log; `end` is null where it was cut short."""
    summed = _summed(
        events,
        ["run", "process", "incarnation"],
        "max_by(kind, index) FILTER (WHERE kind IN ('stop', 'crash')) AS end",
        "max_by(label, index) FILTER (WHERE kind IN ('stop', 'crash')) AS why",
    )
    return summed.withColumn("process", f.expr("concat(process, '/', incarnation)")).drop("incarnation")


def groups(events: DataFrame) -> DataFrame:
    """One row per group and run."""
    return _summed(
        events.where("group IS NOT NULL"),
        ["run", "group"],
        "count(DISTINCT process) AS processes",
        "count(DISTINCT view) FILTER (WHERE kind = 'view') AS views",
    )


def _of(events: DataFrame, *kinds: str) -> DataFrame:
    return events.where(events["kind"].isin(*kinds))


def _each(runs_of_messages: DataFrame) -> DataFrame:
    """One row per message instead of one per run of messages."""
    numbers = f.explode(f.expr("sequence(number, number + messages - 1)"))
    return runs_of_messages.withColumn("number", numbers).drop("messages", "bytes")


def _summed(events: DataFrame, by: list[str], *also: str) -> DataFrame:
    sums = (
        "count(*) AS rows",
        "sum(coalesce(count, 1)) AS events",
        "coalesce(sum(count) FILTER (WHERE kind = 'send'), 0) AS sent",
        "coalesce(sum(count) FILTER (WHERE kind = 'deliver'), 0) AS delivered",
        "coalesce(sum(size) FILTER (WHERE kind = 'send'), 0) AS sent_bytes",
        "min(time_ns) AS first_ns",
        "max(time_ns) AS last_ns",
    )
    return events.groupBy(*by).agg(*(f.expr(column) for column in (*also, *sums))).orderBy(*by)
