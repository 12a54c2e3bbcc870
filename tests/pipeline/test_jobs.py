"""Settings for the time of a job, and how many of its tasks are done."""

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark import SparkStageInfo
from pyspark.sql import SparkSession

from antiphon.pipeline.jobs import described, settings, tasks_of


def stage(active: int, completed: int, tasks: int) -> SparkStageInfo:
    return SparkStageInfo(1, 0, "", tasks, active, completed, 0)


def test_tasks_of_the_stages_under_way() -> None:
    skipped = stage(0, 0, 7)
    assert tasks_of([skipped, stage(2, 5, 9), None, stage(0, 3, 3)]) == (8, 12)
    assert tasks_of([]) == (0, 0)


class Settings:
    """The settings of a session."""

    def __init__(self) -> None:
        self.values = {"known": "1"}

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


def test_settings_are_put_back() -> None:
    own = Settings()
    with settings(cast(SparkSession, SimpleNamespace(conf=own)), {"known": 2, "new": 3}):
        assert own.values == {"known": "2", "new": "3"}
    assert own.values == {"known": "1"}


@pytest.mark.spark
def test_jobs_are_described(spark: SparkSession) -> None:
    with described(spark, "count"):
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "antiphon: count"
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None
