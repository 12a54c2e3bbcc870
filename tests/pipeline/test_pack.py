"""Packed histories: the same rows, the same verdicts, few files, and what was lost stays lost."""

import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.history.log import MemoryLog
from antiphon.history.manifest import close_history
from antiphon.history.reader import HistoryFiles
from antiphon.history.recorder import Recorder
from antiphon.history.schema import Row
from antiphon.history.segments import segment_file
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.pack import Packed, pack_history
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import Audit
from tests.pipeline.histories import make_history
from tests.pipeline.script import make_logs

pytestmark = pytest.mark.spark


def write(directory: Path, logs: list[MemoryLog], rows_per_segment: int = 8) -> None:
    """Segments as the recorder names them, each run in a folder of its own."""
    for log in logs:
        folder = directory / log.run
        folder.mkdir(parents=True, exist_ok=True)
        table = log.table()
        for segment, first in enumerate(range(0, len(table), rows_per_segment)):
            file = segment_file(folder, log.process, log.incarnation, segment)
            pq.write_table(table.slice(first, rows_per_segment), file)


def runs(count: int) -> list[MemoryLog]:
    return [
        log
        for seed in range(count)
        for log in make_history(Random(seed), run=f"run {seed}%", processes=3, groups=2, steps=50, views=1, crashes=1)
    ]


def sorted_rows(directory: Path) -> list[Row]:
    rows = HistoryFiles.open(directory).read_rows()
    return sorted(rows, key=lambda row: (row.run, row.process, row.incarnation, row.index))


def judged(audit: Audit) -> list[tuple[object, ...]]:
    return [
        (found.guarantee, found.verdict, found.violations, found.unknown, found.checked) for found in audit.findings
    ]


def test_the_rows_and_the_verdict_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    logs = runs(4)
    logs += make_logs(run="broken", p="s1 s2 quiet", q="d:p2 d:p1 d:p1 quiet")
    write(tmp_path / "many", logs)
    close_history(tmp_path / "many")
    before = len(list((tmp_path / "many").rglob("*.parquet")))
    packed = pack_history(spark, str(tmp_path / "many"), str(tmp_path / "few"))
    assert packed == Packed(runs=5, rows=len(sorted_rows(tmp_path / "many")), files_before=before, files=5, lost=0)
    assert before > 20
    assert sorted_rows(tmp_path / "few") == sorted_rows(tmp_path / "many")
    audits = [quick_audit(tmp_path / name) for name in ("many", "few")]
    assert audits[0].verdict == "broken"
    assert judged(audits[0]) == judged(audits[1])
    assert (audits[0].events, audits[0].runs) == (audits[1].events, audits[1].runs)


def test_a_large_run_lies_in_several_files_in_order(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "many", runs(1))
    packed = pack_history(spark, f"file://{tmp_path}/many", f"file://{tmp_path}/few", rows_per_file=15)
    assert packed.files == -(-packed.rows // 15) > 2
    (folder,) = (tmp_path / "few").glob("of_run=*")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [manifest["runs"], sum(entry["rows"] for entry in manifest["files"])] == [["run 0%"], packed.rows]
    ends = [tuple(entry[end].values()) for entry in manifest["files"] for end in ("first", "last")]
    assert ends == sorted(ends)
    names = {path.name for path in folder.glob("*.parquet")}
    assert {entry["name"] for entry in manifest["files"]} == names
    whole = spark.read.option("pathGlobFilter", "*.parquet").parquet(f"{tmp_path}/few")
    assert [whole.where(f"of_run = '{run}'").count() for run in ("run 0%", "nonesuch")] == [packed.rows, 0]


def test_what_is_lost_stays_lost(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "many", make_logs(run="r", p="s1 s2 quiet", q="d:p1 d:p2 quiet", r="d:p1 d:p2 quiet"))
    write(tmp_path / "many", make_logs(run="whole", p="s1 quiet", q="d:p1 quiet"))
    close_history(tmp_path / "many")
    (tmp_path / "many" / "r" / "p-1-00000.parquet").unlink()
    (tmp_path / "many" / "r" / "z-1-00000.parquet.partial").write_bytes(b"PAR1")
    packed = pack_history(spark, str(tmp_path / "many"), str(tmp_path / "few"))
    assert packed.lost == 2
    unfinished = [set(HistoryFiles.open(tmp_path / name).unfinished()) for name in ("many", "few")]
    assert unfinished[0] == unfinished[1] == {("r", "p/1"), ("r", "z/1")}
    audits = [quick_audit(tmp_path / name) for name in ("many", "few")]
    assert judged(audits[0]) == judged(audits[1])
    assert "unknown" in {found.verdict for found in audits[0].findings}


def test_old_rows_are_brought_up_to_date(spark: SparkSession, tmp_path: Path) -> None:
    old, new = make_logs(run="r", p="s1 quiet", q="d:p1 quiet"), make_logs(run="s", p="s1 quiet", q="d:p1 quiet")
    write(tmp_path / "many", new)
    for log in old:
        table = log.table()
        place = table.column_names.index("label")
        labels = [label and label.replace('"schema":2', '"schema":1') for label in table["label"].to_pylist()]
        table = table.set_column(place, table.schema.field("label"), [labels]).drop_columns("digest")
        (tmp_path / "many" / "r").mkdir(exist_ok=True)
        file = segment_file(tmp_path / "many" / "r", log.process, 1, 0)
        pq.write_table(table.replace_schema_metadata({"antiphon.schema": "1"}), file)
    pack_history(spark, str(tmp_path / "many"), str(tmp_path / "few"))
    assert sorted_rows(tmp_path / "few") == sorted_rows(tmp_path / "many")
    delivered = [row.destinations for row in sorted_rows(tmp_path / "few") if row.kind == "deliver"]
    assert delivered == [(), None]


def test_places_that_cannot_be_used(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*nowhere; name the history to pack"):
        pack_history(spark, str(tmp_path / "nowhere"), str(tmp_path / "few"))
    with Recorder(tmp_path / "h", run="r", process="p") as log:
        log.stop(0)
    (tmp_path / "few").mkdir()
    with pytest.raises(UsageError, match="few exists; name another place"):
        pack_history(spark, str(tmp_path / "h"), str(tmp_path / "few"))
