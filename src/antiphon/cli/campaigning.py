"""A Spark session for a command, whose failures become one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from antiphon.cli.console import one_line
from antiphon.kernel.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_spark() -> None:
    if find_spec("pyspark") is None:
        raise UsageError("a campaign runs on Spark, which is not installed; pip install 'antiphon[spark]'")


@contextmanager
def on_spark(master: str | None) -> Iterator["SparkSession"]:
    """A session for the block; what fails in an executor is raised as UsageError."""
    # Imported here, since Spark is an extra and its import is slow.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from antiphon.pipeline.session import make_session

    try:
        yield make_session(master)
    except (Py4JError, PySparkException) as error:
        hint = "" if master is None else f"; see whether the master {master} can be reached from here"
        raise UsageError(f"Spark failed: {one_line(_cause(str(error)))}{hint}") from error


def _cause(text: str) -> str:
    """The error of the Python worker, where there is one, else what Java says first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("Traceback"):
            frames = lines[number + 1 :]
            said = [line for line in frames if "Error" in line.split(":")[0] and not line.startswith("File ")]
            return said[0] if said else line
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
