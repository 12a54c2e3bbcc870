"""How failures of Spark are told: as one sentence, with what Java or the server said, and not as a stack trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from antiphon.pipeline.errors import SparkError

SAID_LENGTH_MAX: Final = 300


@contextmanager
def spark_failures(hint: str | None = None) -> Iterator[None]:
    """Within, a failure of Spark becomes a SparkError that ends with `hint`, and an interrupt stays one."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        raise SparkError(f"Spark failed: {_said(error)}" + (f"; {hint}" if hint else "")) from error


def _was_interrupted(error: BaseException) -> bool:
    """Whether an interrupt set it off: Spark cancels its jobs then, and their failures cover the interrupt up."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _said(error: Exception) -> str:
    """What a worker, Java or the server has to say, without the calls that led there, on one bounded line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith(_PYTHON_ERRORS)]
    server = [line.removeprefix("details = ").strip('"') for line in lines if line.startswith("details = ")]
    java = [line.removeprefix(": ") for line in str(error).splitlines() if line.startswith(": ")]
    said = " ".join((raised[-1:] or server or java or lines or [type(error).__name__])[0].split())
    return said if len(said) <= SAID_LENGTH_MAX else said[: SAID_LENGTH_MAX - 1] + "…"


_PYTHON_ERRORS: Final = ("ModuleNotFoundError:", "ImportError:", "MemoryError")
"""Where a worker fails, the last line of its own trace says more than the many lines around it."""
