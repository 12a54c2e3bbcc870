"""One streaming query of the scenario: `python -m tests.streams.query KIND JOURNAL TO CHECKPOINT [DIE]`.

`collect` writes the messages of the first of the journals (JOURNAL,JOURNAL) to Parquet, and beside it the findings
about the group, from all of them. `forward` writes the payloads of the members' messages to a spool. If the file DIE is
not there yet, it makes it and kills everything, itself, Java and all workers, after the sink has committed a batch and
before Spark can write that down.

Spark gives a source's process ten seconds to report, and no more: a query that ends by that, on a machine that is busy,
is started again, in the same Spark, from its checkpoint. Any other failure is one.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from antiphon.pipeline.session import make_session
from antiphon.pipeline.streaming import GroupDataSource, register
from antiphon.pipeline.streaming.audit import watch
from antiphon.pipeline.streaming.sink import SpoolStreamWriter

TOO_LATE = "Python worker failed to connect back"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives a minute: to compile its code well would take longer than it lives."""


class MortalWriter(SpoolStreamWriter):
    """Commits, and takes everything down with it the first time."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._die = Path(options["die"])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if not self._die.exists():
            self._die.write_text(str(batchId))
            os.killpg(int(os.environ["QUERY_PROCESS_GROUP"]), signal.SIGKILL)


class MortalDataSource(GroupDataSource):
    """The same source and sink, but for what comes after the commit."""

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # type: ignore[override]  # noqa: N802
        return MortalWriter(self.options, schema)


def main(kind: str, journal: str, to: str, checkpoint: str, die: str = "") -> None:
    os.setsid()
    os.environ["QUERY_PROCESS_GROUP"] = str(os.getpid())
    os.environ["JAVA_TOOL_OPTIONS"] = QUICK_START
    spark = make_session()
    register(spark)
    spark.dataSource.register(MortalDataSource)
    rows = spark.readStream.format("antiphon").option("maxRows", "4000").load(journal.split(",")[0])
    if kind == "collect":
        messages = rows.where("kind = 'message'").select("offset", "sender", "number", "level", "payload", "time")
        findings = watch(spark, journal.split(","))
        keep_up(
            lambda: start(messages, "parquet", to, checkpoint),
            lambda: start(findings, "parquet", f"{to}-findings", f"{checkpoint}-findings"),
        )
    else:
        forwarded = rows.where("kind = 'message' AND feed IS NULL").select("payload")
        keep_up(lambda: start(forwarded, "mortal", to, checkpoint, die=die))


def start(frame: DataFrame, sink: str, to: str, checkpoint: str, **options: str) -> StreamingQuery:
    stream = frame.writeStream.format(sink).option("checkpointLocation", checkpoint).options(**options)
    return stream.trigger(processingTime="200 milliseconds").start(to)


def keep_up(*begins: Callable[[], StreamingQuery]) -> None:
    """Run queries, for ever; they are started one after the other, since each start takes a machine to itself."""
    queries: list[StreamingQuery] = []
    for begin in begins:
        queries.append(begin())
        while queries[-1].lastProgress is None:
            look_after(queries, begins)
    print("running", flush=True)
    while True:
        look_after(queries, begins)


def look_after(queries: list[StreamingQuery], begins: tuple[Callable[[], StreamingQuery], ...]) -> None:
    time.sleep(0.1)
    for place, query in enumerate(queries):
        if query.isActive:
            continue
        error = query.exception()
        if error is None or TOO_LATE not in str(error):
            raise SystemExit(f"the query has ended: {error}")
        print("a worker was late, and its query is started again", flush=True)
        queries[place] = begins[place]()


main(*sys.argv[1:])
