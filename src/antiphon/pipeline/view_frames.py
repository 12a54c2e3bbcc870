"""view_agreement and primary on Spark, as joins, windows and aggregations over view rows.

A view row is one process that installs one view. There are few of them beside deliveries, but they are of all logs of a
run, and the two checks compare each with those of other logs: that is what DataFrames are for. The rules are those of
`antiphon.pipeline.reference`. In short:

view_agreement   a row is violated if its members are not those of most rows with its id (of equally many, those of the
                 first row, logs by name), or if its id is no higher than that of the row before it in the log, or if
                 its process is not among its members
primary          of each id, the second and later sets of members are violated; the first one too, but for that of the
                 lowest id, unless it holds a majority of the first set of the id below, where those that left count

What comes back is one row per run, group and guarantee: counts, root causes, and the first violation in plain values,
which the driver puts into words.
"""

import json
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from antiphon.pipeline.audit.view_intervals import ViewCounts
from antiphon.pipeline.guarantees import PRIMARY, VIEW_AGREEMENT
from antiphon.pipeline.promises import Promises
from antiphon.pipeline.view_rows import (
    ABSENT,
    DIFFERS,
    FALLS,
    FORK,
    GAP,
    GROUPS,
    IN_DOUBT,
    MINORITY,
    VIEW_ROWS,
    GroupCounts,
    Logs,
    first_violation,
    held_groups,
    view_rows,
)


def count_views(spark: SparkSession, logs: Logs, promises: Promises) -> list[GroupCounts]:
    """Both guarantees in all groups that are held to them; groups by name."""
    groups = held_groups(logs, promises)
    if not groups:
        return []
    rows = spark.createDataFrame(pa.Table.from_pylist(view_rows(logs), VIEW_ROWS))
    held = spark.createDataFrame(pa.Table.from_pylist(groups, GROUPS))
    found = view_agreement(rows, held).unionAll(primary(rows, held)).orderBy("run", "group", "guarantee").collect()
    return [
        GroupCounts(
            row["run"],
            row["group"],
            row["guarantee"],
            ViewCounts(
                *(row["violations"], row["unknown"], row["checked"]),
                first_violation(row["group"], json.loads(row["first"]), list(logs[row["run"]]))
                if row["first"]
                else None,
                row["roots"],
            ),
        )
        for row in found
    ]


def view_agreement(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """One row per group that is held to it: run, group, guarantee, violations, unknown, checked, roots, first."""
    held = rows.join(groups.where(f.col(VIEW_AGREEMENT)).select("run", "group"), ["run", "group"])
    of_log = Window.partitionBy("run", "group", "log").orderBy("index")
    alike = Window.partitionBy("run", "group", "view", "members")
    of_view = Window.partitionBy("run", "group", "view").orderBy(f.desc("alike"), "first_alike")
    judged = (
        held.withColumn("before", f.lag(f.struct("view", "index")).over(of_log))
        .withColumn("alike", f.count("*").over(alike))
        .withColumn("first_alike", f.min(f.struct("log", "index")).over(alike))
        .withColumn("standard", f.first("members").over(of_view))
        .withColumn("standard_row", f.first("first_alike").over(of_view))
        .withColumn(
            "fault",
            f.when(f.col("members") != f.col("standard"), DIFFERS)
            .when(f.col("view") <= f.col("before.view"), FALLS)
            .when(~f.array_contains("members", f.col("process")), ABSENT),
        )
    )
    faulty = f.col("fault").isNotNull()
    shown = f.struct("log", "index", "fault", "view", "members", "before", "standard_row")
    return (
        judged.groupBy("run", "group")
        .agg(
            f.lit(VIEW_AGREEMENT).alias("guarantee"),
            f.count("fault").alias("violations"),
            f.lit(0).cast("long").alias("unknown"),
            f.count("*").alias("checked"),
            f.least(
                f.count_distinct(f.when(faulty, f.col("view"))), f.count_distinct(f.when(faulty, f.col("log")))
            ).alias("roots"),
            f.to_json(f.min(f.when(faulty, shown))).alias("first"),
        )
        .select(*_COLUMNS)
    )


def primary(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """The same for the chain of primary views."""
    held = rows.join(groups.where(f.col(PRIMARY)).select("run", "group"), ["run", "group"])
    sets = held.groupBy("run", "group", "view", "members").agg(f.min(f.struct("log", "index")).alias("row"))
    rank = f.row_number().over(Window.partitionBy("run", "group", "view").orderBy("row"))
    views = (
        sets.withColumn("rank", rank)
        .groupBy("run", "group", "view")
        .agg(
            (f.count("*") - 1).alias("forks"),
            *(f.max(f.when(f.col("rank") == 1, f.col(name))).alias(name) for name in ("members", "row")),
            *(f.max(f.when(f.col("rank") == 2, f.col(name))).alias(f"fork_{name}") for name in ("members", "row")),
        )
    )
    chain = Window.partitionBy("run", "group").orderBy("view")
    follows = f.lag("view").over(chain) == f.col("view") - 1
    judged = (
        views.withColumn("is_first", f.lag("view").over(chain).isNull())
        .withColumn("electors", f.when(follows, f.lag("members").over(chain)))
        .withColumn("row_before", f.when(follows, f.lag("row").over(chain)))
        .withColumn("follows", f.coalesce(follows, f.lit(False)))
        .join(groups.select("run", "group", "left", "open"), ["run", "group"])
        .withColumn("surely", _among("members", "left"))
        .withColumn("perhaps", _among("members", "left", "open"))
        .withColumn("fault", _succession())
        .withColumn("broken", f.coalesce(f.col("fault").isin(MINORITY, GAP), f.lit(False)))
        .withColumn("wrong", f.col("broken") | (f.col("forks") > 0))
        .withColumn("wrong_before", f.col("follows") & f.coalesce(f.lag("wrong").over(chain), f.lit(False)))
        .withColumn("begins", f.col("wrong") & ~f.col("wrong_before"))
    )
    shown = f.struct(
        "view",
        f.when(f.col("broken"), f.col("fault")).otherwise(FORK).alias("fault"),
        *("row", "members", "fork_row", "fork_members", "row_before"),
        f.size("surely").alias("present"),
        f.size("electors").alias("electors"),
    )
    return (
        judged.groupBy("run", "group")
        .agg(
            f.lit(PRIMARY).alias("guarantee"),
            f.sum(f.col("forks") + f.col("broken").cast("long")).alias("violations"),
            f.count(f.when(f.col("fault") == IN_DOUBT, 1)).alias("unknown"),
            f.sum(f.col("forks") + 1).alias("checked"),
            f.count(f.when(f.col("begins"), 1)).alias("roots"),
            f.to_json(f.min(f.when(f.col("wrong"), shown))).alias("first"),
        )
        .select(*_COLUMNS)
    )


_COLUMNS: Final = ("run", "group", "guarantee", "violations", "unknown", "checked", "roots", "first")


def _among(*names: str) -> Column:
    """Which of the electors are in one of these sets."""
    together = f.col(names[0])
    for name in names[1:]:
        together = f.array_union(together, f.col(name))
    return f.array_intersect("electors", together)


def _succession() -> Column:
    """What is wrong with how a view follows the one before; null if nothing is."""
    return (
        f.when(f.col("is_first"), None)
        .when(f.col("electors").isNull(), f.when(f.size("open") > 0, IN_DOUBT).otherwise(GAP))
        .when(_is_majority("surely"), None)
        .when(_is_majority("perhaps"), IN_DOUBT)
        .otherwise(MINORITY)
    )


def _is_majority(present: str) -> Column:
    """More than half of the electors, or exactly half with the oldest."""
    doubled, all_of_them = 2 * f.size(present), f.size("electors")
    oldest = f.array_contains(present, f.element_at("electors", 1))
    return (doubled > all_of_them) | ((doubled == all_of_them) & oldest)
