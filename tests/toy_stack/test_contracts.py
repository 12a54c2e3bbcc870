"""Beside a compiled core: the tests that need the Python sources, in a process that takes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.skipif(not _build.is_compiled(), reason="the core is plain Python: these tests run anyway")
def test_what_needs_the_python_sources_runs_on_them() -> None:
    """The contracts of the toy stack, its own tests, what patches the core, and the walk of a message. In one process:
    to start one and to collect tests is what takes the time."""
    files = [
        "tests/contracts",
        "tests/toy_stack/test_toy_stack.py",
        "tests/simulation/test_devices.py",
        "tests/simulation/test_toy.py",
        "tests/stacks/sequencer/test_bodies.py",
        "tests/stacks/sequencer/test_seat_disk.py",
        "tests/bench/test_walk.py",
        "tests/papers/test_isis_1987_clusters.py",
    ]
    chosen = "toy or devices or compacted or fetched_from_the_sequencer or walk or break_causality"
    run_pure([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *files])


def run_pure(command: list[str]) -> None:
    """Run these tests in a process that takes the Python sources; they must pass."""
    environment = os.environ | {"ANTIPHON_PURE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
