"""A real cluster: the same verdicts as in local mode while a worker is killed; what workers lack is said plainly."""

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antiphon.kernel.errors import UsageError
from antiphon.pipeline import auditor
from antiphon.pipeline.cluster import WorkerAnswer, ask_workers, judge_answers
from antiphon.pipeline.document import audit_document
from antiphon.pipeline.increment import code_digest
from antiphon.pipeline.quick import quick_audit
from tests.pipeline.cluster import audit_and_kill, cluster, write_history
from tests.pipeline.webhdfs import Store, upload, webhdfs


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.mkdir()
    write_history(history, rounds=3_000)
    expected = audit_document(auditor.audit(history, spark))
    assert expected["verdict"] == "broken"
    with cluster(tmp_path / "spark") as running:
        assert audit_and_kill(history, tmp_path, running) == (1, expected)


@pytest.mark.spark
@pytest.mark.slow
def test_a_file_system_that_nobody_shares_and_a_worker_killed(tmp_path: Path) -> None:
    """Driver and workers see the history, and write the results, through WebHDFS alone; it lies in memory elsewhere."""
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    write_history(recorded, rounds=3_000)
    expected, store = quick_audit(recorded), Store()
    upload(store, recorded, "/runs")
    shutil.rmtree(recorded)
    with webhdfs(store) as root, cluster(tmp_path / "spark") as running:
        options = ("--output", f"{root}/results")
        assert audit_and_kill(f"{root}/runs", tmp_path, running, *options) == (1, audit_document(expected))
    assert store.opened
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in store.below("/results"):
        assert "_temporary" not in path, "something of a killed task was left"
        if path.endswith(".parquet"):
            data = store.entries[path]
            assert data is not None
            tables[path.split("/")[2]] += pq.read_table(pa.BufferReader(data)).to_pylist()
    found = {row["guarantee"]: (row["verdict"], row["violations"]) for row in tables["verdicts"]}
    assert found == {finding.guarantee: (finding.verdict, finding.violations) for finding in expected.findings}
    assert len(tables["verdicts"]) == len(expected.findings)
    listed: Counter[str] = Counter()
    for row in tables["violations"]:
        listed[row["guarantee"]] += row["count"]
    assert listed == {finding.guarantee: finding.violations for finding in expected.findings if finding.violations}
    assert [row["process"] for row in tables["observations"]] == ["a/1", "b/1", "c/1", "d/1"]


@pytest.mark.spark
def test_workers_that_have_all_they_need_are_taken(spark: SparkSession) -> None:
    ask_workers(spark)


LACKING = {
    "cannot import Antiphon": WorkerAnswer("h1", "ModuleNotFoundError: No module named 'antiphon'", ""),
    "has another version of Antiphon": WorkerAnswer("h1", "", "other"),
}


@pytest.mark.parametrize("words", LACKING)
def test_what_a_worker_lacks_is_said(words: str) -> None:
    judge_answers([WorkerAnswer("h0", "", code_digest())])
    with pytest.raises(UsageError, match=f"the worker on h1 {words}|of the worker on h1 {words}"):
        judge_answers([WorkerAnswer("h0", "", code_digest()), LACKING[words]])
