"""A fault planted in the protocol is found by a campaign on Spark, shrunk, and left as a test that tells it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.pipeline import reference
from antiphon.pipeline.result import BROKEN

ROOT = Path(__file__).parents[2]
MUTANT = "no delay rule"


def python(*arguments: str, mutant: str | None = None) -> subprocess.CompletedProcess[str]:
    """Mutants patch the plain-Python core, so each of these is a process of its own."""
    environment = os.environ | {"ANTIPHON_PURE": "1"} | ({"ANTIPHON_MUTANT": mutant} if mutant else {})
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The campaign's directory, and its summary."""
    directory = tmp_path_factory.mktemp("mutated") / "out"
    words = ("--workload", "static", "--seeds", "0:2", "--out", str(directory), "--keep", "1", "--shrink-runs", "60")
    done = python("tests.pipeline.mutated", MUTANT, *words)
    assert done.returncode == 1, done.stderr
    return directory, json.loads((directory / "summary.json").read_text())


@pytest.mark.spark
def test_the_fault_is_found_and_shrunk_to_a_quarter_at_most(found: tuple[Path, dict[str, Any]]) -> None:
    directory, summary = found
    (shrunk,) = summary["shrunk"]
    assert shrunk["guarantee"] == "causal"
    assert 4 * shrunk["shrunk_events"] <= shrunk["events"]
    folder = directory / "failing" / f"{shrunk['kind']}-{shrunk['seed']}"
    for history, events in ((folder / "history", "events"), (folder / "shrunk" / "history", "shrunk_events")):
        audit = reference.audit(history)
        assert (audit.verdict, audit.events) == (BROKEN, shrunk[events])


@pytest.mark.spark
def test_the_test_that_is_left_fails_on_the_fault_and_passes_without_it(found: tuple[Path, dict[str, Any]]) -> None:
    directory, summary = found
    (shrunk,) = summary["shrunk"]
    test = str(directory / "failing" / f"{shrunk['kind']}-{shrunk['seed']}" / shrunk["test"])
    broken = python("pytest", "-q", "-p", "tests.mutants.planted", test, mutant=MUTANT)
    assert broken.returncode == 1
    assert "causal broken" in broken.stdout
    right = python("pytest", "-q", test)
    assert right.returncode == 0, right.stdout
