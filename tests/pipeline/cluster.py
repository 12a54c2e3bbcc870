"""A real Spark cluster on this machine: a master and two workers, from pyspark's own jars, on loopback.

`python -m tests.pipeline.cluster` audits a history in local mode, then on the cluster, then on the cluster while one
worker is ended by SIGKILL in the middle of its work, and compares what the three print. `--rounds` makes the history
longer. Whatever happens, everything that was started is ended and everything that was written is removed.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antiphon.history.log import MemoryLog
from antiphon.history.schema import SCHEMA
from antiphon.history.segments import segment_file
from antiphon.pipeline.java import find_java, write_java_home
from antiphon.pipeline.session import LOOPBACK
from bench.peers.driver import free_ports
from tests.pipeline.histories import PROMISES

ROOT: Final = Path(__file__).resolve().parents[2]
MEMBERS: Final = ("a", "b", "c", "d")
ROW_GROUP_ROWS: Final = 2_000
WAIT_S: Final = 300.0
POLL_S: Final = 0.05
EXECUTOR_MEMORY: Final = "512m"

AUDIT: Final = "from antiphon.cli.main import main; main()"


@dataclass
class Daemon:
    """A master or a worker, in a process group of its own together with the executors that it starts."""

    process: subprocess.Popen[bytes]
    log: Path
    """What it says, and what its executors say."""

    def said(self, words: str) -> int:
        """How often its log holds some words."""
        return self.log.read_text(errors="replace").count(words) if self.log.exists() else 0

    def kill(self) -> None:
        """SIGKILL to it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    master: str
    environment: dict[str, str]
    workers: list[Daemon]


def wait_until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: nothing came of it within {WAIT_S:.0f} s")
        time.sleep(POLL_S)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and some workers of one core each, up and known to each other."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "spark-defaults.conf").write_text(f"spark.executor.memory {EXECUTOR_MEMORY}\n")
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    }
    (port,) = free_ports(1)
    with ExitStack() as stack:

        def start(name: str, role: str, *arguments: str) -> Daemon:
            java = folder / name
            log = write_java_home(find_java(), java)
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
            process = subprocess.Popen(
                command,
                env=environment | {"JAVA_HOME": str(java)},
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            daemon = Daemon(process, log)
            stack.callback(daemon.kill)
            return daemon

        address = ("--host", LOOPBACK, "--webui-port", "0")
        master = start("master", "master.Master", *address, "--port", str(port))
        wait_until(lambda: master.said("New state: ALIVE"), "starting the master")
        url = f"spark://{LOOPBACK}:{port}"
        size = ("--cores", "1", "--memory", EXECUTOR_MEMORY)
        started = [
            start(f"worker{number}", "worker.Worker", *address, *size, "--work-dir", str(folder / f"work{number}"), url)
            for number in range(workers)
        ]
        wait_until(lambda: master.said("Registering worker") >= workers, "starting the workers")
        yield Cluster(url, environment, started)


def write_history(directory: Path, rounds: int) -> None:
    """Four processes and a round at a time: each sends, then all deliver what all have sent. One delivers two messages
    in the wrong order, once."""
    for name in MEMBERS:
        head, tail = MemoryLog(run="r", process=name), MemoryLog(run="r", process=name)
        head.start(0, "g", "toy", "static", ("agreed",), PROMISES)
        head.view(0, "g", 1, [f"{member}/1" for member in MEMBERS])
        tail.stop(rounds + 1)
        numbers = np.repeat(np.arange(1, rounds + 1), 1 + len(MEMBERS))
        rows = len(numbers)
        senders = np.tile(np.array([name, *MEMBERS]), rounds)
        if name == "c":
            senders[rows // 2 : rows // 2 + 5] = [name, "b", "a", "c", "d"]
        constant: dict[str, Any] = {"run": "r", "process": name, "group": "g", "level": "agreed"}
        constant |= dict.fromkeys(("incarnation", "sender_incarnation", "view", "count"), 1) | {"size": 8}
        columns: dict[str, Any] = {column: [value] * rows for column, value in constant.items()}
        columns |= {"time_ns": numbers, "number": numbers, "sender": senders, "index": np.arange(rows)}
        columns["kind"] = np.tile(np.array(["send", *["deliver"] * len(MEMBERS)]), rounds)
        body = [pa.array(columns.get(field.name, [None] * rows), field.type) for field in SCHEMA]
        table = pa.concat_tables([head.table(), pa.Table.from_arrays(body, schema=SCHEMA), tail.table()])
        place = SCHEMA.get_field_index("index")
        table = table.set_column(place, SCHEMA.field("index"), pa.array(range(len(table)), pa.int64()))
        pq.write_table(table, segment_file(directory, name, 1, 0), row_group_size=ROW_GROUP_ROWS)


def audit(
    history: Path | str, environment: dict[str, str], *options: str, errors: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """The command as people run it, in a process of its own."""
    command = [sys.executable, "-c", AUDIT, "audit", str(history), "--json", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)


def result_of(process: subprocess.Popen[bytes], errors: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and document; ends the process if it takes too long."""
    try:
        out, _ = process.communicate(timeout=WAIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not out:
        raise RuntimeError(f"the audit failed: {errors.read_text(errors='replace').strip()[-500:]}")
    return process.returncode, json.loads(out)


def run_audit(history: Path, folder: Path, environment: dict[str, str], *options: str) -> tuple[int, dict[str, Any]]:
    file = folder / "audit.err"
    with file.open("wb") as errors:
        return result_of(audit(history, environment, *options, errors=errors), file)


def audit_and_kill(history: Path | str, folder: Path, running: Cluster, *options: str) -> tuple[int, dict[str, Any]]:
    """An audit on the cluster; as soon as the first worker is at work, it is killed together with its executor."""
    file, victim = folder / "killed.err", running.workers[0]
    with file.open("wb") as errors:
        process = audit(history, running.environment, "--master", running.master, *options, errors=errors)
        try:
            wait_until(lambda: "reading" in file.read_text() or process.poll() is not None, "beginning the audit")
            before = victim.said("Running task")
            wait_until(lambda: victim.said("Running task") > before or process.poll() is not None, "a task")
            if process.poll() is not None:
                raise RuntimeError(f"the audit was over before a worker was killed: {file.read_text().strip()[-500:]}")
            victim.kill()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        return result_of(process, file)


def compare(rounds: int, tell: Callable[[str], object]) -> None:
    """The whole scenario; raises AssertionError if the results differ."""
    folder = Path(tempfile.mkdtemp(prefix="antiphon-cluster-"))
    try:
        history = folder / "history"
        history.mkdir()
        write_history(history, rounds)
        with cluster(folder / "spark") as running:
            expected = run_audit(history, folder, running.environment)
            assert expected[1]["verdict"] == "broken"
            tell(f"local mode: {expected[1]['verdict']}, {expected[1]['events']:,} events")
            on_cluster = run_audit(history, folder, running.environment, "--master", running.master)
            assert on_cluster == expected
            tell("on a master and two workers: the same")
            assert audit_and_kill(history, folder, running) == expected
            tell("with kill -9 of a worker and its executor in the middle: the same")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One audit in local mode, on a cluster, and while a worker is killed.")
    parser.add_argument("--rounds", type=int, default=10_000, help="messages that each of four processes sends")
    compare(parser.parse_args().rounds, print)
