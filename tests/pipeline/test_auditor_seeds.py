"""A bounded sample of simulated seeds through both auditors; `make twin` runs fifty."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.pipeline.result import KEPT
from tests.simulation.spark_twin import compare


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_spark_and_the_reference_agree(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    verdict, events, by_spark, by_reference = compare(seed, spark, tmp_path)
    assert verdict == KEPT
    assert events > 100
    assert by_spark == by_reference
    assert by_spark["causal"][3] > 0
