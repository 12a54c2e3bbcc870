"""The one place that makes a Spark session.

Without a master, Spark runs inside this process on all cores, as `local[N,3]`: plain `local[N]` never retries a task.
The workers run this very Python, everything listens on the loopback interface only, and nothing is printed: what the
JVM has to say goes to a file that lives as long as this process. With a master, the cluster's own settings hold; what
the audit needs there, `antiphon.pipeline.cluster` asks for.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from antiphon.pipeline.errors import SparkError
from antiphon.pipeline.java import PID_FILE, find_java, write_java_home

LOOPBACK: Final = "127.0.0.1"
TRIES: Final = 3
BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a few seconds of work, most of what Java does is to optimise for many."""


def is_local(master: str | None) -> bool:
    """Whether Spark runs inside this process."""
    return master is None or master.startswith("local")


def make_session(master: str | None = None, *, brief: bool = False) -> SparkSession:
    """A session on `master`, or on the cores of this machine. A session that is already running is used as it is.
    `brief`: for a short history; Java then starts quickly and does not get quicker."""
    home = Path(tempfile.mkdtemp(prefix="antiphon-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    log = write_java_home(find_java(), home)
    environment = {"JAVA_HOME": str(home)}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    builder = (
        SparkSession.builder.appName("antiphon")
        .master(master or f"local[{cores},{TRIES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    )
    if is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
        builder = (
            builder.config("spark.driver.host", LOOPBACK)
            .config("spark.driver.bindAddress", LOOPBACK)
            .config("spark.driver.memory", "2g")
            .config("spark.sql.shuffle.partitions", str(cores))
        )
        if brief:
            builder = builder.config("spark.driver.extraJavaOptions", BRIEF_JAVA)
    try:
        with _set(environment):
            return builder.getOrCreate()
    except KeyboardInterrupt:
        _end_java(home)
        raise
    except (PySparkRuntimeError, OSError) as error:
        raise SparkError(f"Spark did not start: {_last_line(log) or error}") from error


def _end_java(home: Path) -> None:
    """End the Java that was being started: it would never learn that nobody waits for it any more."""
    with suppress(OSError, ValueError):
        os.kill(int((home / PID_FILE).read_text()), signal.SIGTERM)


@contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables, for as long as Spark starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _last_line(log: Path) -> str:
    """What the JVM said last, apart from the calls that led there."""
    lines = [line.strip() for line in log.read_text(errors="replace").split("\n")] if log.exists() else []
    return next((line for line in reversed(lines) if line and not line.startswith(("at ", "..."))), "")
