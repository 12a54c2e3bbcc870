"""A sample of what `make planted` does at length."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.pipeline import reference
from antiphon.pipeline.auditor import audit
from antiphon.pipeline.guarantees import TOTAL
from bench.planting import PLANTED
from tests.pipeline.planted import check, plant


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_each_violation_is_found_by_both_auditors(seed: int) -> None:
    events, planted, problem = check(seed)
    assert problem is None
    assert events > 1000
    assert (len(+planted) > 5) == (seed > 0)


@pytest.mark.spark
def test_many_histories_at_once_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    made = [plant(seed, tmp_path / f"{seed}") for seed in range(100, 106)]
    found = audit(tmp_path, spark)
    assert found.runs == len(made)
    counted = {finding.guarantee: finding.violations for finding in found.findings}
    assert counted == {finding.guarantee: finding.violations for finding in reference.audit(tmp_path).findings}
    planted = {guarantee: sum(each.planted[guarantee] for each in made) for guarantee in PLANTED}
    planted[TOTAL] = counted[TOTAL]  # two that are planted side by side may make one knot
    assert counted == planted
    assert counted[TOTAL] > 0
    assert all(finding.example is not None for finding in found.findings if finding.violations)
