"""The recipe for spark-submit: Antiphon travels as a zip file, and is found nowhere else."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import antiphon
from antiphon.history.recorder import Recorder
from antiphon.pipeline.java import find_java, write_java_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "submit_audit.py"
PACKAGE = Path(antiphon.__file__).parent


def pack(target: Path) -> None:
    """The sources as one file, as the recipe packs them."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(PACKAGE.rglob("*")):
            if file.suffix in (".py", ".css", ".js", ".typed"):
                archive.write(file, Path("antiphon") / file.relative_to(PACKAGE))


def test_an_audit_is_submitted_with_all_that_it_needs(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", run="r", process="p") as log:
        log.start(0, "g", "vector", "primary", ["fifo"], ["creation", "duplication"])
        log.view(0, "g", 1, ["p/1"])
        log.send(1, "g", 1, 1, 3, "fifo", 0)
        log.deliver(2, "g", 1, "p", 1, 1, 3, "fifo", 0)
        log.deliver(3, "g", 1, "p", 1, 3, 1, "fifo", 0)
        log.stop(4, "quiet")
    pack(tmp_path / "antiphon.zip")
    (tmp_path / "java").mkdir()
    write_java_home(find_java(), tmp_path / "java")
    home = Path(pyspark.__file__).parent
    surroundings = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "JAVA_HOME": str(tmp_path / "java"),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(str(path) for path in (home.parent,)),
    }
    done = subprocess.run(
        [
            *(str(home / "bin" / "spark-submit"), "--master", "local[1]"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=1"),
            *("--py-files", str(tmp_path / "antiphon.zip"), str(SCRIPT), str(tmp_path / "run")),
        ],
        env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["audit"]["verdict"] == "broken"
    assert [Path(place).parts[-3] for place in (document["driver"], *document["workers"])] == ["antiphon.zip"] * 2
