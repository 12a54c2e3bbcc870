"""One seed, run again, leaves the same bytes on disk; in pure Python and compiled alike."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build

SCRIPT = """
import sys
from antiphon._build import describe
from antiphon.history.recorder import Recorder
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
for seed in (1, 2, 7):
    options = draw(seed)
    logs = [Recorder(f"{sys.argv[1]}/{seed}", run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
print(describe())
"""


def run(directory: Path, pure: bool) -> tuple[str, dict[str, bytes]]:
    """What one process of its own leaves behind, by file, and the build that it was."""
    environment = os.environ | {"ANTIPHON_PURE": "1" if pure else "0", "PYTHONHASHSEED": str(len(directory.name))}
    command = [sys.executable, "-c", SCRIPT, str(directory)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    files = {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*.parquet")}
    return done.stdout.strip(), files


def test_a_seed_run_twice_leaves_the_same_bytes(tmp_path: Path) -> None:
    _, once = run(tmp_path / "once", pure=True)
    _, twice = run(tmp_path / "again", pure=True)
    assert len(once) >= 9
    assert once == twice


@pytest.mark.skipif(not _build.extension_files(), reason="the core is not compiled here")
def test_pure_and_compiled_leave_the_same_bytes(tmp_path: Path) -> None:
    pure_build, pure = run(tmp_path / "pure", pure=True)
    compiled_build, compiled = run(tmp_path / "compiled", pure=False)
    assert "pure" in pure_build
    assert compiled_build == "compiled"
    assert pure == compiled
