"""One streaming query of the scenario: `python -m tests.streams.query KIND JOURNAL TO CHECKPOINT [DIE]`.

`collect` writes the messages of a journal to Parquet, `forward` the payloads of the members' messages to a spool, and
`watch` the findings about the group to Parquet. With DIE, a file that is not there yet, `forward` makes it and
kills everything, itself, Java and all workers, after the sink has committed a batch and before Spark can write that
down.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from antiphon.pipeline.session import make_session
from antiphon.pipeline.streaming import GroupDataSource, register
from antiphon.pipeline.streaming.audit import watch
from antiphon.pipeline.streaming.sink import SpoolStreamWriter


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
    spark = make_session()
    register(spark)
    spark.dataSource.register(MortalDataSource)
    rows = spark.readStream.format("antiphon").option("maxRows", "4000").load(journal.split(",")[0])
    frame: DataFrame
    if kind == "collect":
        frame = rows.where("kind = 'message'").select("offset", "sender", "number", "level", "payload", "time")
    elif kind == "forward":
        frame = rows.where("kind = 'message' AND feed IS NULL").select("payload")
    else:
        frame = watch(spark, journal.split(","))
    sink = "parquet" if kind != "forward" else "mortal" if die else "antiphon"
    stream = frame.writeStream.format(sink).option("checkpointLocation", checkpoint)
    if die:
        stream = stream.option("die", die)
    query = stream.trigger(processingTime="200 milliseconds").start(to)
    print("running", flush=True)
    query.awaitTermination()


main(*sys.argv[1:])
