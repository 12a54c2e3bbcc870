"""The API for notebooks on Spark Connect, with a server of its own, in a process of its own: a process has one kind of
session only. The results must be those of a classic session."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from antiphon.history.recorder import Recorder
from antiphon.pipeline.document import audit_document
from antiphon.pipeline.graph.context import context_graph
from antiphon.pipeline.java import find_java, write_java_home
from antiphon.pipeline.notebook import History
from antiphon.simulator.run import SimulationOptions, simulate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("grpc") is None, reason="no Spark Connect here (pip install pyspark[connect])"),
]

ON_CONNECT: Final = """
import json, sys
from pyspark.sql import SparkSession
from antiphon.pipeline import History
from antiphon.pipeline.document import audit_document
from antiphon.pipeline.graph.context import context_graph
from antiphon.pipeline.passes import is_connected

spark = SparkSession.builder.remote("local[2]").getOrCreate()
try:
    assert is_connected(spark)
    history = History(sys.argv[1], spark)
    graph = context_graph(sys.argv[1], spark)
    found = [audit_document(history.audit()), history.latencies.count(), history.structure().traffic.messages]
    found += [frame.count() for frame in (graph.edges, graph.waves, graph.stability)]
finally:
    spark.stop()
print(json.dumps(found))
"""


def test_on_connect_everything_is_as_on_a_classic_session(spark: SparkSession, tmp_path: Path) -> None:
    options = SimulationOptions(members=3, messages=30, faults="all")
    logs = [Recorder(tmp_path / "run", run="sim", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
    (tmp_path / "java").mkdir()
    write_java_home(find_java(), tmp_path / "java")
    surroundings = {
        "JAVA_HOME": str(tmp_path / "java"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", ON_CONNECT, str(tmp_path / "run")],
        env=os.environ | surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    history = History(tmp_path / "run", spark)
    graph = context_graph(tmp_path / "run", spark)
    expected = [audit_document(history.audit()), history.latencies.count(), history.structure().traffic.messages]
    expected += [frame.count() for frame in (graph.edges, graph.waves, graph.stability)]
    assert json.loads(done.stdout.splitlines()[-1]) == json.loads(json.dumps(expected))
