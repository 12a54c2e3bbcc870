"""Source, sink and continuous audit in Spark: repeated batches, restarts, and what is refused.

A query that is killed after its sink has the batch and before its checkpoint says so leaves a checkpoint without the
last entry of `commits`; taking that away brings the next run into just this position. With real processes and real
kills the same is shown by tests/streams/scenario.py.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from antiphon.cli.watch import follow
from antiphon.history.journal import JournalReader, JournalRow, segments
from antiphon.history.journal_writer import JournalWriter
from antiphon.history.spool import Position, Spool
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.streaming import register
from antiphon.pipeline.streaming.audit import watch
from antiphon.pipeline.streaming.sink import spooled
from antiphon.pipeline.streaming.source import JournalStreamReader, Span, with_time
from antiphon.report.live_page import LivePage
from antiphon.streams.feeder import Feeder
from tests.runtime.cluster import until
from tests.runtime.places import founded
from tests.streams.test_streams import rows_seen, seat

pytestmark = pytest.mark.spark
LIMIT_S = 120.0


def message(number: int, sender: str = "a", listener: str = "l/1", level: str = "causal") -> JournalRow:
    time_ns = 1_700_000_000_000_000_000 + number * 1_000_000
    payload = b"%d" % number
    return JournalRow(time_ns, "message", "g", listener, 1, None, sender, 1, number, level, False, payload)


def append(directory: Path, rows: list[JournalRow], listener: str = "l", segment_bytes: int = 1 << 26) -> None:
    with JournalWriter(directory, group="g", listener=listener, segment_bytes=segment_bytes) as journal:
        for start in range(0, len(rows), 10):
            journal.append(rows[start : start + 10])


def run_query(frame: DataFrame, sink: str, to: Path, checkpoint: Path) -> None:
    """All that is there now."""
    stream = frame.writeStream.format(sink).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = stream.start(str(to))
    try:
        query.awaitTermination()
    finally:
        query.stop()


def forget_last_commit(checkpoint: Path) -> int:
    """As a query leaves it that is killed after its sink has committed a batch; which batch."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    return last


def journal_stream(spark: SparkSession, directory: Path, **options: str) -> DataFrame:
    register(spark)
    return spark.readStream.format("antiphon").options(**options).load(str(directory))


def test_each_row_is_in_the_output_once_though_a_batch_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    journal, out, checkpoint = tmp_path / "journal", tmp_path / "out", tmp_path / "checkpoint"
    append(journal, [message(number) for number in range(50)], segment_bytes=8000)
    frame = journal_stream(spark, journal, maxRows="50", partitionRows="20", keep="unread").drop("members")
    run_query(frame, "parquet", out, checkpoint)
    assert forget_last_commit(checkpoint) == 0
    append(journal, [message(number) for number in range(50, 70)])
    run_query(frame, "parquet", out, checkpoint)
    rows = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [row["offset"] for row in rows] == list(range(70))
    assert [bytes(row["payload"]) for row in rows] == [b"%d" % number for number in range(70)]
    assert rows[3]["time"].timestamp() == pytest.approx(1_700_000_000.003)
    assert segments(journal)[0] > 0  # what the query has done with is let go


def test_a_sink_query_killed_between_commit_and_checkpoint_multicasts_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal, checkpoint, spool = tmp_path / "journal", tmp_path / "checkpoint", Spool(tmp_path / "spool")
    append(journal, [message(number) for number in range(40)])
    frame = journal_stream(spark, journal, partitionRows="15").select("payload", "level")
    run_query(frame, "antiphon", spool.directory, checkpoint)
    assert forget_last_commit(checkpoint) == 0

    async def live() -> None:
        async with asyncio.timeout(LIMIT_S), founded() as places:
            feeder = Feeder(spool, seat(places, "mouth"))
            task = asyncio.create_task(feeder.run())
            await until(lambda: spool.position() == Position(1, 61))
            for place in places:
                assert await rows_seen(place, 60) == ([b"%d" % number for number in range(60)], 0)
            feeder.stop()
            await task

    with ThreadPoolExecutor(1) as thread:  # Spark knows its session in the main thread only
        group = thread.submit(asyncio.run, live())
        while spool.position() != Position(0, 41):  # sent and let go before it is repeated
            assert not group.done(), group.exception()
            time.sleep(0.01)
        append(journal, [message(number) for number in range(40, 60)])
        run_query(frame, "antiphon", spool.directory, checkpoint)
        group.result()
    assert list((spool.directory / "staged").iterdir()) == []


def test_findings_about_a_running_group_survive_a_restart_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    members = ["a/1", "b/1", "x/1", "y/1"]
    orders = {"x": ["a", "b", "a", "b"], "y": ["a", "b", "b", "a"]}
    for name in orders:
        view = JournalRow(1, "view", "g", f"{name}/1", 1, members)
        append(tmp_path / name, [view], name)
        append(tmp_path / name, _sequence(orders[name][:2], f"{name}/1", 1), name)
    frame = watch(spark, [str(tmp_path / name) for name in orders])
    run_query(frame, "parquet", out, checkpoint)
    for name in orders:
        append(tmp_path / name, _sequence(orders[name][2:], f"{name}/1", 2), name)
    run_query(frame, "parquet", out, checkpoint)
    (found,) = spark.read.parquet(str(out)).collect()
    assert (found["group"], found["guarantee"], found["verdict"], found["view"]) == ("g", "total", "broken", 1)
    assert {found["listener"]} <= {"x/1", "y/1"}
    assert "as agreed message 3" in found["text"]


def _sequence(senders: list[str], listener: str, number: int) -> list[JournalRow]:
    return [message(number, sender, listener, "safe") for sender in senders]


def test_the_page_follows_a_running_group(spark: SparkSession, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    view = JournalRow(1, "view", "g", "l/1", 1, ["a/1", "l/1"])
    append(journal, [view, message(1), message(2), message(1)])
    page = LivePage.open(tmp_path / "page.html")
    follow(watch(spark, [str(journal)], status=True), page, [journal], tmp_path / "checkpoint", once=True)
    read = LivePage.open(tmp_path / "page.html")
    assert read == page
    assert read.counts == {"g": {"duplication broken": 1}}
    assert {name: (own["offset"], own["view"]) for name, own in read.listeners["g"].items()} == {"l/1": (3, 1)}
    assert "0 rows behind" in page.file.read_text()


def test_another_checkpoint_is_refused_by_a_spool_that_is_in_use(spark: SparkSession, tmp_path: Path) -> None:
    journal, spool = tmp_path / "journal", Spool(tmp_path / "spool")
    append(journal, [message(1)])
    spool.publish(0, [], "a query of before")
    frame = journal_stream(spark, journal).select("payload")
    with pytest.raises(StreamingQueryException, match="has another checkpoint"):
        run_query(frame, "antiphon", spool.directory, tmp_path / "checkpoint")


def test_the_reader_plans_within_limits_and_refuses_what_is_not_its_journal(tmp_path: Path) -> None:
    append(tmp_path, [message(number) for number in range(50)])
    options = {"path": str(tmp_path), "partitionrows": "20", "maxrows": "35"}
    reader = JournalStreamReader(options)
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(start, limit)
    assert (start["offset"], end["offset"], reader.reportLatestOffset()["offset"]) == (0, 35, 50)
    assert reader.partitions(start, end) == [Span(0, 20), Span(20, 35)]
    assert reader.partitions(end, end) == []
    reader.prepareForTriggerAvailableNow()
    append(tmp_path, [message(50)])
    assert reader.latestOffset(end, limit)["offset"] == 50
    assert JournalStreamReader(options | {"startingoffset": "latest"}).initialOffset()["offset"] == 51
    assert JournalStreamReader(options | {"startingoffset": "7"}).initialOffset()["offset"] == 7
    with pytest.raises(Exception, match="holds the offsets 0 to 51"):
        JournalStreamReader(options | {"startingoffset": "52"}).initialOffset()
    with pytest.raises(Exception, match="another journal"):
        reader.partitions(start, {"journal": "other", "offset": 3})
    with pytest.raises(Exception, match="it was cut; use a new checkpoint"):
        reader.latestOffset({**start, "offset": 99}, limit)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "name the directory"),
        ({"maxrows": "0"}, "option maxrows is '0'"),
        ({"partitionrows": "x"}, "option partitionrows is 'x'"),
        ({"keep": "some"}, "it can be all or unread"),
        ({"startingoffset": "-1"}, "earliest, latest or an offset"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, str], why: str) -> None:
    append(tmp_path, [message(1)])
    path = {} if not options else {"path": str(tmp_path)}
    with pytest.raises(UsageError, match=why):
        JournalStreamReader(options | path)


def test_rows_that_cannot_be_sent_are_refused(tmp_path: Path) -> None:
    append(tmp_path, [message(1), message(2, level="reliable")])
    (batch,) = map(with_time, JournalReader(tmp_path).read(0, 2))
    assert spooled(batch.slice(0, 1), "safe").to_pylist() == [{"payload": b"1", "level": "causal"}]
    assert spooled(batch.slice(0, 1).select(["payload"]), "safe")["level"].to_pylist() == ["safe"]
    with pytest.raises(UsageError, match="cannot be sent at level 'reliable'"):
        spooled(batch, "safe")
    with pytest.raises(UsageError, match="no payload"):
        spooled(pa.RecordBatch.from_arrays([pa.nulls(1, pa.binary())], names=["payload"]), "safe")
