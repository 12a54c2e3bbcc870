"""One Spark session for all tests of the pipeline: starting it is what costs."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from antiphon.pipeline.session import make_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = make_session()
    yield session
    session.stop()
