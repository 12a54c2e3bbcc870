"""A real cluster: the same verdicts as in local mode while a worker is killed; what workers lack is said plainly."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.kernel.errors import UsageError
from antiphon.pipeline import auditor
from antiphon.pipeline.cluster import WorkerAnswer, ask_workers, judge_answers
from antiphon.pipeline.document import audit_document
from antiphon.pipeline.increment import code_digest
from tests.pipeline.cluster import audit_and_kill, cluster, write_history


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
