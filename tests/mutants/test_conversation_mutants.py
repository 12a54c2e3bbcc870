"""Every mutant of conversations is caught, and conversations as they are give the same hunters nothing to catch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.conversation_mutants import CONVERSATION_MUTANTS, STAGED
from tests.simulation.talks import run_seed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def catches() -> dict[str, dict[str, object]]:
    """What the hunt in a plain-Python process of its own brought back."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.conversation_mutants"],
        cwd=ROOT,
        env=os.environ | {"ANTIPHON_PURE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=False,
    )
    return {catch["mutant"]: catch for catch in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", [mutant.name for mutant in CONVERSATION_MUTANTS])
def test_the_mutant_is_caught(name: str, catches: dict[str, dict[str, object]]) -> None:
    assert catches[name]["caught"], f"{name} survived {catches[name]['seeds']} seeds"


@pytest.mark.parametrize("seed", range(5))
def test_without_a_mutant_there_is_nothing_to_catch(seed: int) -> None:
    assert run_seed(seed).problems == ()


@pytest.mark.parametrize("name", STAGED)
def test_nor_on_the_table(name: str) -> None:
    assert STAGED[name]() is None
