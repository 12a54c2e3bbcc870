"""The toy stack beside a compiled core: its contracts and its own tests in a process that takes the Python sources."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.skipif(not _build.is_compiled(), reason="the core is plain Python: these tests run anyway")
def test_stacks_of_tests_keep_the_contracts_and_run_in_the_simulated_world_on_the_python_sources() -> None:
    """In one process: to start one and to collect tests is what takes the time."""
    simulated = ["tests/simulation/test_devices.py", "tests/simulation/test_toy.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "toy or devices"]
    run_pure([*command, "tests/contracts", "tests/toy_stack/test_toy_stack.py", *simulated])


def run_pure(command: list[str]) -> None:
    """Run these tests in a process that takes the Python sources; they must pass."""
    environment = os.environ | {"ANTIPHON_PURE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
