"""The continuous audit: findings about a running group, as a stream of rows, from the journals of its listeners.

    findings = watch(spark, ["journal-1", "journal-2"])
    findings.writeStream.format("console").option("checkpointLocation", …).start()

What is judged, and what cannot be on a running group, says `antiphon.pipeline.streaming.watch`. Its state is kept by
Spark with the query's checkpoint: killed and started again, the query goes on where it was, and neither misses nor
repeats a finding that its sink has. Several groups are several tasks, with a state each: a listener's journal tells one
group's messages in one order, and that is what has to be followed. Journals of several groups may be named at once.

With `status`, each batch also has one row per listener with the verdict `followed`: how far it is followed, and, as
JSON, the members of its view, its messages and the time of its last row. `antiphon watch` makes a page of that.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from antiphon.history.journal import facts_of
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.streaming import FORMAT, register
from antiphon.pipeline.streaming.watch import WATCHED_COLUMNS, ListenerStatus, LiveFinding, Watch, watched

FINDINGS: Final = "group STRING, guarantee STRING, verdict STRING, listener STRING, offset LONG, view LONG, text STRING"
STATE: Final = "watch BINARY"
FOLLOWED: Final = "followed"
ROWS_PER_BATCH: Final = 200_000
"""Per journal: what a task takes in at once, without payloads."""


def watch(
    spark: SparkSession, journals: Sequence[str], *, rows_per_batch: int = ROWS_PER_BATCH, status: bool = False
) -> DataFrame:
    """Findings about the groups that these journals tell of, as they go; none as long as all is well."""
    if not journals:
        raise UsageError("name the journal of at least one listener to watch")
    register(spark)
    streams = [
        spark.readStream.format(FORMAT)
        .option("maxRows", str(rows_per_batch))
        .load(journal)
        .withColumn("content", f.xxhash64("payload"))
        .select("group", *WATCHED_COLUMNS)
        for journal in journals
    ]
    rows = reduce(DataFrame.unionByName, streams)
    listeners = Counter(str(facts_of(Path(journal)).get("group")) for journal in journals)
    judge = partial(_judge, listeners, status)
    return rows.groupBy(f.col("group")).applyInPandasWithState(
        judge, FINDINGS, STATE, "append", GroupStateTimeout.NoTimeout
    )


def _judge(
    listeners: Mapping[str, int],
    status: bool,
    key: tuple[str],
    frames: Iterator[pd.DataFrame],
    state: GroupState,
) -> Iterator[pd.DataFrame]:
    """One group's new rows, from all journals; a listener's own order is that of its offsets."""
    (group,) = key
    rows = [row for frame in frames for row in watched(_columns(frame))]
    rows.sort(key=lambda row: (row.listener, row.offset))
    watch = Watch(listeners.get(group, 1), state.get[0] if state.exists else None)
    findings = list(watch.feed(rows))
    if status:
        findings += [_followed(told) for told in watch.status()]
    state.update((watch.save(),))
    if findings:
        yield pd.DataFrame([(group, *finding) for finding in findings], columns=["group", *LiveFinding._fields])


def _followed(told: ListenerStatus) -> LiveFinding:
    facts = {"members": told.members, "messages": told.messages, "time_ns": told.time_ns}
    return LiveFinding("", FOLLOWED, told.listener, told.offset, told.view, json.dumps(facts))


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Plain values: numbers with nulls among them come as floats otherwise."""
    table = pa.Table.from_pandas(frame[list(WATCHED_COLUMNS)], preserve_index=False)
    whole = {"view", "sender_incarnation", "number", "offset", "content", "time_ns"}
    return {
        name: (table[name].cast(pa.int64()) if name in whole else table[name]).to_pylist() for name in WATCHED_COLUMNS
    }
