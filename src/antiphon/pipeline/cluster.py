"""What an audit on a cluster needs of its workers, asked for before the audit begins.

Each worker must run a Python of the same minor version as this one, in which this very Antiphon can be imported. The
history Spark reads itself, from wherever the session can. A job in which something of this is missing would fail
somewhere in the middle, with a stack trace; or never begin, where the master has no worker to give. So a small job asks
first, and what is missing is said in one sentence.
"""

from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from antiphon.pipeline.errors import SparkError
from antiphon.pipeline.increment import code_digest

EXECUTOR_WAIT_S: Final = 60.0
POLL_S: Final = 0.1

PYTHON_HINT: Final = "set PYSPARK_PYTHON to a Python of this version that the workers have"
KNOWN_FAILURES: Final = {
    "PYTHON_VERSION_MISMATCH": f"the workers run another version of Python than this machine; {PYTHON_HINT}",
    "Cannot run program": f"the workers do not have the Python that they were told to run; {PYTHON_HINT}",
    "No module named 'pyspark'": "the workers' Python finds no pyspark; install antiphon[spark] there",
}
"""What Spark says where the Python of a worker does not even start, and what it means."""


class WorkerAnswer(NamedTuple):
    """What one worker says."""

    host: str
    problem: str
    """Why Antiphon cannot be imported, or ""."""
    code: str
    """The digest of its code."""


def check_workers(spark: SparkSession) -> None:
    """Raises SparkError, with what to do, if the cluster cannot audit."""
    _await_executor(spark)
    ask_workers(spark)


def ask_workers(spark: SparkSession) -> None:
    """Raises SparkError if a worker that there is cannot do its part."""
    slots = max(2, spark.sparkContext.defaultParallelism)
    try:
        answers = spark.sparkContext.parallelize(range(slots), slots).map(_question()).collect()
    except Py4JJavaError as error:
        said = str(error)
        for words, meaning in KNOWN_FAILURES.items():
            if words in said:
                raise SparkError(meaning) from error
        raise
    judge_answers(WorkerAnswer(*answer) for answer in answers)


def judge_answers(answers: Iterable[WorkerAnswer]) -> None:
    """Raises for the first worker that cannot do its part."""
    for answer in answers:
        if answer.problem:
            raise SparkError(
                f"the Python of the worker on {answer.host} cannot import Antiphon ({answer.problem}); "
                "install this version of antiphon[spark] there, and set PYSPARK_PYTHON to that Python"
            )
        if answer.code != code_digest():
            raise SparkError(
                f"the worker on {answer.host} has another version of Antiphon than this machine; install the same one"
            )


def _question() -> Callable[[int], tuple[str, str, str]]:
    """What to ask each worker. It travels by value, and so also to where there is no Antiphon."""

    def ask(_: int) -> tuple[str, str, str]:
        import socket

        problem = code = ""
        try:
            from antiphon.pipeline.increment import code_digest

            code = code_digest()
        except Exception as error:  # whatever it is, it must be told
            problem = f"{type(error).__name__}: {error}"
        return socket.gethostname(), problem, code

    return ask


def _await_executor(spark: SparkSession) -> None:
    """Wait until the master has given an executor: without one, a job would wait for ever, and silently."""
    known = spark.sparkContext._jsc.sc()
    deadline = monotonic() + EXECUTOR_WAIT_S
    while known.getExecutorMemoryStatus().size() < 2:  # one of them is the driver
        if monotonic() > deadline:
            raise SparkError(
                f"the master {spark.sparkContext.master} gave no executor within {EXECUTOR_WAIT_S:.0f} seconds; see "
                "whether its workers are up and have a free core and the memory that spark.executor.memory asks for"
            )
        sleep(POLL_S)
