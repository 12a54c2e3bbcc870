"""The API for notebooks: frames that agree with the rows, checks that agree with the audit, and the document, run."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import antiphon.pipeline
from antiphon.history.errors import UnusableHistoryError
from antiphon.history.reader import HistoryFiles as HistoryFiles
from antiphon.history.recorder import Recorder
from antiphon.history.schema import Row
from antiphon.pipeline.errors import SparkError
from antiphon.pipeline.failures import spark_failures
from antiphon.pipeline.notebook import FRAMES, History, _progress_line
from antiphon.simulator.run import SimulationOptions, simulate

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "notebooks.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the document, in a place whose name Spark could take for a pattern."""
    place = tmp_path_factory.mktemp("runs") / "a {b} [c] 100%"
    options = SimulationOptions(members=4, messages=200, faults="all")
    logs = [Recorder(place / "run1", run="sim", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
    return place


@pytest.fixture(scope="module")
def rows(directory: Path) -> list[Row]:
    return HistoryFiles.open(directory / "run1").read_rows()


@pytest.fixture(scope="module")
def history(directory: Path, spark: SparkSession) -> History:
    return History(directory / "run1", spark)


@pytest.mark.spark
def test_the_document_does_what_it_says(directory: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    names: dict[str, object] = {}
    blocks = BLOCK.findall(DOCUMENT.read_text())
    assert len(blocks) == 6
    for code, expected in blocks:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(code, str(DOCUMENT), "exec"), names)
        if expected:
            assert printed.getvalue().strip() == expected.strip()


@pytest.mark.spark
def test_frames_hold_the_rows_of_their_kind(history: History, rows: list[Row]) -> None:
    kinds = Counter(row.kind for row in rows)
    assert history.events.count() == len(rows)
    for frame, kind in (("sends", "send"), ("deliveries", "deliver"), ("views", "view"), ("starts", "start")):
        assert getattr(history, frame).count() == kinds[kind]
    sends = {(row.group, f"{row.process}/1", row.number): (row.count, row.size) for row in rows if row.kind == "send"}
    assert sends == {
        (sent["group"], sent["sender"], sent["number"]): (sent["messages"], sent["bytes"])
        for sent in history.sends.collect()
    }
    start = history.starts.first()
    assert start is not None
    assert start["stack"] == "vector"
    assert "causal" in start["promises"]


@pytest.mark.spark
def test_messages_and_latencies_go_message_by_message(history: History, rows: list[Row]) -> None:
    sent: dict[tuple[str | None, int], int] = {}
    latencies: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row.kind == "send":
            sent |= {(row.sender, row.number + step): row.time_ns for step in range(row.count)}  # type: ignore[operator, arg-type]
    for row in rows:
        if row.kind == "deliver":
            for step in range(row.count or 0):
                assert row.number is not None
                latencies[row.process, row.time_ns - sent[row.sender, row.number + step]] += 1
    assert history.messages.count() == len(sent)
    found = history.latencies.groupBy("process", "latency_ns").count().collect()
    assert {(row["process"].removesuffix("/1"), row["latency_ns"]): row["count"] for row in found} == latencies


@pytest.mark.spark
def test_counts_and_checks_agree_with_the_audit(history: History, spark: SparkSession, directory: Path) -> None:
    told: list[str] = []
    own = History(directory / "run1", spark, progress=told.append).audit()
    assert told[0].startswith("reading ")
    [run] = history.runs.collect()
    assert (run["events"], run["rows"], run["processes"], run["groups"]) == (own.events, own.rows, 4, 1)
    [group] = history.groups.collect()
    assert (group["sent"], group["delivered"], group["processes"], group["views"]) == (800, 3200, 4, 1)
    assert history.check("fifo") == next(found for found in own.findings if found.guarantee == "fifo")
    assert own._repr_html_().count("<tr>") == 1 + len(own.findings)


@pytest.mark.spark
def test_looking_at_a_history_tells_its_size_and_its_frames(history: History, rows: list[Row]) -> None:
    assert repr(history).endswith(f"run1': {len(rows):,} rows in 4 files)")
    shown = history._repr_html_()
    assert f"{len(rows):,} rows in 4 files of 4 logs" in shown
    for name in FRAMES:
        assert f">{name}</td>" in shown
        assert getattr(History, name).__doc__


@pytest.mark.spark
def test_what_a_notebook_shows_is_escaped(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "<b>run</b>"
    with Recorder(place, run="r", process="p") as log:
        log.stop(1)
    (place / "q-1-00000.parquet.partial").touch()
    history = History(place, spark)
    assert "&lt;b&gt;" in history._repr_html_()
    assert "1 files were cut short" in history._repr_html_()
    assert "cut short" in repr(history)


@pytest.mark.spark
def test_what_is_no_history_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnusableHistoryError, match="there is no such file"):
        History(tmp_path / "none", spark)


@pytest.mark.processes
def test_the_name_is_loaded_when_it_is_asked_for() -> None:
    code = "import sys, antiphon.pipeline; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert antiphon.pipeline.History is History
    with pytest.raises(AttributeError, match="no attribute 'Histories'"):
        antiphon.pipeline.Histories  # noqa: B018


def test_progress_is_one_line_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Terminal(), "\rreading …\r         \r"), (StringIO(), "")):
        monkeypatch.setattr("sys.stderr", stream)
        with _progress_line() as tell:
            tell("reading")
        assert stream.getvalue() == expected


def test_a_failure_of_spark_is_one_sentence() -> None:
    def fail(text: str) -> Iterator[None]:
        raise PySparkException(text)

    trace = (
        "[UDF] failed\nTraceback:\n  File x\nModuleNotFoundError: No module named 'antiphon'\n\nJVM stacktrace:\nat y"
    )
    with pytest.raises(SparkError) as refusal, spark_failures("look there"):
        fail(trace)
    assert str(refusal.value) == "Spark failed: ModuleNotFoundError: No module named 'antiphon'; look there"
    rendezvous = '<Rendezvous of RPC that terminated with:\n\tstatus = X\n\tdetails = "Received message too large"\n>'
    with pytest.raises(SparkError, match=r"^Spark failed: Received message too large$"), spark_failures():
        fail(rendezvous)
    with pytest.raises(SparkError) as refusal, spark_failures():
        fail("x" * 1000 + "\nmore")
    assert len(str(refusal.value)) < 350
