"""Every mutant is caught, and the protocol as it is gives the same hunters nothing to catch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.conversation_mutants import STAGED
from tests.mutants.hunt import ALL_MUTANTS, symptoms, talk_symptoms
from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def catches() -> dict[str, dict[str, object]]:
    """What the hunt in a plain-Python process of its own brought back."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.hunt"],
        cwd=ROOT,
        env=os.environ | {"ANTIPHON_PURE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=1200,
        check=False,
    )
    return {catch["mutant"]: catch for catch in map(json.loads, done.stdout.splitlines())}


@pytest.mark.processes
@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("name", [mutant.name for mutant in ALL_MUTANTS])
def test_the_mutant_is_caught(name: str, catches: dict[str, dict[str, object]]) -> None:
    assert catches[name]["caught"], f"{name} survived {catches[name]['seeds']} seeds"


@pytest.mark.parametrize("mutant", ALL_MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_breaks_is_there(mutant: Mutant) -> None:
    """A name that no longer exists would end the hunt for all of them."""
    assert [name for place, name, _ in mutant.patches if not hasattr(place, name)] == []


@pytest.mark.parametrize("seed", range(30))
def test_without_a_mutant_there_is_nothing_to_catch(seed: int) -> None:
    everything = [guarantee for mutant in MUTANTS for guarantee in mutant.breaks]
    assert symptoms(seed, everything) is None


@pytest.mark.parametrize("seed", range(5))
def test_nor_in_conversations(seed: int) -> None:
    assert talk_symptoms(seed, ()) is None


@pytest.mark.parametrize("name", STAGED)
def test_nor_on_the_table(name: str) -> None:
    assert STAGED[name]() is None
