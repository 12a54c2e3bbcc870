"""One seed, run again, leaves the same bytes on disk; in pure Python and compiled alike."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build

pytestmark = pytest.mark.processes

SCRIPT = """
import sys
from pathlib import Path
from antiphon._build import describe
from antiphon.history.recorder import Recorder
from antiphon.simulator.draw import draw
from antiphon.simulator.run import simulate
from antiphon.simulator.seeds import run_seed
from antiphon.stacks.registry import OFFERS
for seed in (1, 2, 7):
    options = draw(seed)
    logs = [Recorder(f"{sys.argv[1]}/{seed}", run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
for stack in OFFERS:
    for workload, seed in (("static", 7), ("churn", 0), ("churn", 4), ("churn", 3), ("churn", 7)):
        rows = [repr(row) for log in run_seed(seed, workload, stack).logs for row in log.rows()]
        Path(f"{sys.argv[1]}/{stack}-{workload}-{seed}.rows").write_text("\\n".join(rows))
print(describe())
"""
"""Static runs as they lie in files; static, churn (seeds 0 and 4) and adversarial ones (3 and 7) row by row."""


def run(directory: Path, pure: bool, hash_seed: int = 0) -> tuple[str, dict[str, bytes]]:
    """What one process of its own leaves behind, by file, and the build that it was."""
    environment = os.environ | {"ANTIPHON_PURE": "1" if pure else "0", "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", SCRIPT, str(directory)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    files = {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*.*")}
    return done.stdout.strip(), files


def test_a_seed_leaves_the_same_bytes_whatever_the_order_of_sets(tmp_path: Path) -> None:
    _, once = run(tmp_path / "once", pure=True, hash_seed=1)
    _, twice = run(tmp_path / "twice", pure=True, hash_seed=2)
    assert len(once) >= 19
    assert once == twice


@pytest.mark.skipif(not _build.extension_files(), reason="the core is not compiled here")
def test_pure_and_compiled_leave_the_same_bytes(tmp_path: Path) -> None:
    pure_build, pure = run(tmp_path / "pure", pure=True)
    compiled_build, compiled = run(tmp_path / "compiled", pure=False)
    assert "pure" in pure_build
    assert compiled_build == "compiled"
    assert pure == compiled
