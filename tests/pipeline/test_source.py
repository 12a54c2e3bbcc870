"""Where histories lie: URIs of file systems that Python cannot open, tables, folders by run, awkward names."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from antiphon.history.errors import UnusableHistoryError
from antiphon.history.manifest import close_history
from antiphon.history.schema import Row
from antiphon.pipeline import reading, reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.errors import SparkError
from antiphon.pipeline.failures import spark_failures
from antiphon.pipeline.quick import quick_audit
from antiphon.pipeline.result import BROKEN, KEPT, UNKNOWN
from antiphon.pipeline.source import HistoryAddress
from tests.pipeline.histories import make_history, rows_of
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import write_history
from tests.pipeline.test_reference_equality import make_rows as make_spoiled_rows
from tests.pipeline.webhdfs import Store, upload, webhdfs

pytestmark = pytest.mark.spark


def rows_by_spark(spark: SparkSession, history: Path) -> DataFrame:
    read = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    return read.parquet(f"file:{history.parent}")


def spoiled_rows() -> list[Row]:
    for seed in range(20, 60):
        rows = make_spoiled_rows(Random(seed), corruptions=6)
        try:
            verdict = reference.audit(rows).verdict
        except UnusableHistoryError:
            continue
        if verdict == BROKEN:
            return rows
    raise AssertionError("no seed makes a history that can be judged")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Broken, closed by a manifest that lists one file too many, in a folder with letters of patterns."""
    folder = tmp_path_factory.mktemp("source") / "a {b} [c]%20"
    write_history(folder, spoiled_rows(), row_group_size=30)
    lost = next(folder.rglob("*.parquet"))
    shutil.copy(lost, lost.with_name("zz-1-00000.parquet"))
    close_history(folder)
    lost.with_name("zz-1-00000.parquet").unlink()
    return folder


@pytest.fixture
def mounted(spark: SparkSession, history: Path) -> Iterator[str]:
    """A file system of Hadoop's that is not the local one, and that Python knows nothing of."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    name = "fs.viewfs.mounttable.antiphon.link./runs"
    settings.set(name, f"file://{history.parent}")
    yield "viewfs://antiphon/runs"
    settings.unset(name)


def test_another_file_system(spark: SparkSession, history: Path, mounted: str) -> None:
    expected = quick_audit(history)
    assert expected.verdict == BROKEN
    assert any("zz-1-00000.parquet, which manifest.json lists, is gone" in (f.reason or "") for f in expected.findings)
    assert audit(mounted, spark) == expected
    assert audit(str(history), spark) == expected


def test_a_table_and_some_of_its_runs(spark: SparkSession, history: Path) -> None:
    expected = quick_audit(history)
    rows_by_spark(spark, history).createOrReplaceTempView("recorded")
    found = audit(HistoryAddress("recorded", is_table=True), spark)
    assert (found.events, found.runs) == (expected.events, expected.runs)
    assert [f.violations for f in found.findings] == [f.violations for f in expected.findings]
    one = audit(HistoryAddress("recorded", is_table=True, runs=("run 0",)), spark)
    assert one.runs == 1
    with pytest.raises(UnusableHistoryError, match="it holds no run 'nonesuch'"):
        audit(HistoryAddress("recorded", is_table=True, runs=("nonesuch",)), spark)
    with pytest.raises(UnusableHistoryError, match="there is no such table"):
        audit(HistoryAddress("nonesuch", is_table=True), spark)


def test_folders_by_run_as_spark_writes_them(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    rows_by_spark(spark, history).write.partitionBy("run").parquet(f"file:{tmp_path}/by_run")
    found = audit(f"file://{tmp_path}/by_run", spark)
    assert [f.violations for f in found.findings] == [f.violations for f in quick_audit(history).findings]


def test_a_run_is_not_blamed_for_what_another_lacks(spark: SparkSession, tmp_path: Path) -> None:
    right = make_rows(p="s1 d:p1 quiet", q="d:p1 quiet")
    write_history(tmp_path, [*right, *(replace(row, run="other") for row in right)])
    (tmp_path / "other" / "q-1-00001.parquet.partial").touch()
    found = {name: audit(HistoryAddress(str(tmp_path), runs=(name,)), spark) for name in ("r", "other")}
    assert {name: (result.verdict, result.runs) for name, result in found.items()} == {
        "r": (KEPT, 1),
        "other": (UNKNOWN, 1),
    }


def test_a_long_run_is_spread_over_tasks(spark: SparkSession, history: Path) -> None:
    assert audit(history, spark, whole_run_rows_max=0) == quick_audit(history)


def test_a_long_run_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(make_history(Random(2), processes=3, groups=2, steps=60))
    Random(2).shuffle(rows)
    write_history(tmp_path, rows[:-1])
    for place, file in enumerate(sorted(tmp_path.rglob("*.parquet"))):
        file.rename(tmp_path / f"{place}.parquet")
    found = audit(tmp_path, spark, whole_run_rows_max=0)
    assert found == quick_audit(tmp_path)
    assert found.verdict == UNKNOWN


def test_large_files_are_read_row_by_row(spark: SparkSession, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sorted(file.stat().st_size for file in history.rglob("*.parquet"))
    middle = sizes[len(sizes) // 2]
    assert sizes[0] < middle
    monkeypatch.setattr(reading, "FILE_BYTES_MAX", middle - 1)
    monkeypatch.setitem(reading._SETTINGS, "spark.sql.sources.binaryFile.maxLength", middle - 1)
    assert audit(history, spark) == quick_audit(history)


def test_what_a_file_system_does_not_deliver_is_no_damage(spark: SparkSession, history: Path) -> None:
    """The audit fails, where a damaged file would leave the verdict open."""
    store = Store()
    upload(store, history, "/runs")
    expected = quick_audit(history)
    with webhdfs(store) as root:
        assert audit(f"{root}/runs", spark) == expected
        store.withheld.add(next(path for path in store.below("/runs") if path.endswith(".parquet")))
        with pytest.raises(SparkError, match="Spark failed"), spark_failures():
            audit(f"{root}/runs", spark)


def test_nothing_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnusableHistoryError, match="there is no such file or directory"):
        audit(f"file://{tmp_path}/nonesuch", spark)
    with pytest.raises(UnusableHistoryError, match="no file in it ends with"):
        audit(tmp_path, spark)
