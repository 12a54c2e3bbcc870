"""The toy stack beside a compiled core: its contracts and its own tests in a process that takes the Python sources."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.skipif(not _build.is_compiled(), reason="the core is plain Python: the contracts run the toy stack anyway")
def test_the_toy_stack_keeps_the_contracts_on_the_python_sources() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["tests/contracts", "tests/toy_stack/test_toy_stack.py", "-k", "toy"]
    run_pure(command)


@pytest.mark.processes
@pytest.mark.skipif(not _build.is_compiled(), reason="the core is plain Python: these tests run anyway")
def test_stacks_of_tests_run_in_the_simulated_world_on_the_python_sources() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run_pure([*command, "tests/simulation/test_devices.py", "tests/simulation/test_toy.py"])


def run_pure(command: list[str]) -> None:
    """Run these tests in a process that takes the Python sources; they must pass."""
    environment = os.environ | {"ANTIPHON_PURE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
