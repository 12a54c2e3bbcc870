"""The sink: rows of a streaming query go to a spool, from which a feeder multicasts them to a group.

    frame.writeStream.format("antiphon").option("checkpointLocation", …).start("quotes-spool")

column    means
payload   binary or string: the message
level     optional: fifo, causal, agreed or safe; where there is none, the option `level`, or causal

Write tasks stage their rows, the driver publishes the batch as a whole (`antiphon.history.spool` has the rules). A task
that failed leaves a staged file that nobody names; so does a query that is killed before it commits. Publishing is
what commits: after it a batch that Spark repeats is dropped, whatever was lost with the driver.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from antiphon.history.spool import SCHEMA, SENDABLE, Spool, StagedFile
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.streaming.source import directory_of

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark tells each task which query it works for: the id that its checkpoint keeps."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a write task tells the driver."""

    file: StagedFile
    query: str


class SpoolStreamWriter(DataSourceStreamArrowWriter):
    """Stages on executors, publishes on the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._directory = directory_of(options)
        self._level = options.get("level", "causal")
        check_columns(schema)
        check_level(self._level)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None
        rows = (spooled(batch, self._level) for batch in iterator)
        return Staged(Spool(self._directory).stage(rows), context.getLocalProperty(QUERY_ID) or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  (Spark's names)
        staged = [message for message in messages if isinstance(message, Staged)]
        query = staged[0].query if staged else None
        Spool(self._directory).publish(batchId, [message.file for message in staged], query)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        Spool(self._directory).discard(message.file for message in messages if isinstance(message, Staged))


def spooled(batch: pa.RecordBatch, level: str) -> pa.RecordBatch:
    """A batch of the query as the spool has it."""
    payload = batch["payload"].cast(pa.binary())
    if payload.null_count:
        raise UsageError("a row has no payload (null); leave such rows out of what is written to the group")
    levels = pa.nulls(batch.num_rows, pa.string()) if "level" not in batch.schema.names else batch["level"]
    levels = pc.fill_null(levels.cast(pa.string()), level)
    for name in pc.unique(levels).to_pylist():
        check_level(name)
    return pa.RecordBatch.from_arrays([payload, levels], schema=SCHEMA)


def check_columns(schema: StructType) -> None:
    """Refuse what has no payload before anything runs."""
    types = {field.name: field.dataType.typeName() for field in schema.fields}
    if types.get("payload") not in ("binary", "string"):
        has = ", ".join(f"{name} ({kind})" for name, kind in types.items())
        raise UsageError(f"to be written to a group, rows need a column payload, binary or string; these have: {has}")
    if types.get("level", "string") != "string":
        raise UsageError(f"the column level is of type {types['level']}; it must be string")


def check_level(level: str) -> None:
    if level not in SENDABLE:
        raise UsageError(f"rows cannot be sent at level {level!r}; choose one of {', '.join(SENDABLE)}")
