"""Tables of results: complete, by run, the same after writing twice; and the queries of docs/queries.md."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.pipeline.auditor import audit
from antiphon.pipeline.output import TABLES
from antiphon.pipeline.quick import quick_audit
from tests.pipeline.script import make_rows
from tests.pipeline.test_auditor import write_history

pytestmark = pytest.mark.spark

QUERIES: Final = Path(__file__).resolve().parents[2] / "docs" / "queries.md"


def files_of(folder: Path) -> dict[str, bytes]:
    """Each data file by the folder of its table and run, without the name that Spark gives it."""
    return {str(file.parent.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.parquet")}


def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    history, output = tmp_path / "history", tmp_path / "tables"
    wrong = make_rows(p="s1 s2 d:p1 d:p2 quiet", q="d:p2 d:p1 quiet")
    right = make_rows(p="s1 d:p1 quiet", q="d:p1 quiet")
    write_history(history, [*wrong, *(replace(row, run="x y/z") for row in right)])
    found = audit(history, spark, output=str(output))
    assert found == quick_audit(history)
    tables = {name: pq.read_table(output / name, partitioning="hive").to_pylist() for name in TABLES}
    assert len(tables["verdicts"]) == 2 * len(found.findings)
    assert len(tables["observations"]) == len(found.observations)
    for finding in found.findings:
        own = [row for row in tables["violations"] if row["guarantee"] == finding.guarantee]
        assert sum(row["count"] for row in own) == finding.violations
        assert {row["run"] for row in own} <= {"r"}
    before = files_of(output)
    audit(history, spark, output=f"file://{output}")
    assert files_of(output) == before, "writing twice changes nothing"
    assert len(before) == 5  # verdicts and observations of two runs, violations of one

    for name in TABLES:
        spark.read.option("basePath", str(output / name)).parquet(str(output / name)).createOrReplaceTempView(name)
    spark.read.option("recursiveFileLookup", "true").parquet(str(history)).createOrReplaceTempView("events")
    queries = re.findall(r"```sql\n(.*?)```", QUERIES.read_text(), re.S)
    assert len(queries) == 10
    for query in queries:
        assert spark.sql(query).count(), query

    # The run is recorded again, and right this time: what was violated must not stay.
    write_history(history, right)
    audit(history, spark, output=str(output))
    assert sorted({row["run"] for row in pq.read_table(output / "verdicts", partitioning="hive").to_pylist()}) == [
        "r",
        "x y/z",
    ]
    assert not files_of(output / "violations")
