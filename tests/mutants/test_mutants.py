"""Every mutant is caught, and the protocol as it is gives the same hunters nothing to catch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import _build
from tests.mutants.hunt import ALL_MUTANTS, STAGED, program_symptoms, remembered, symptoms, talk_symptoms
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.runtime_mutants import RUNTIME_MUTANTS
from tests.mutants.service_mutants import STAGED_SERVICES

ROOT = Path(__file__).parents[2]
SHORT = [mutant.name for mutant in ALL_MUTANTS if mutant.name in remembered() or mutant.name in STAGED]
"""Those of which it is known where to look."""
LONG = [mutant.name for mutant in ALL_MUTANTS if mutant.name not in SHORT]
Catches = dict[str, dict[str, object]]


def hunt_for(names: list[str]) -> Catches:
    """What the hunt for some mutants, in a plain-Python process of its own, brought back."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.hunt", *names],
        cwd=ROOT,
        env=os.environ | {"ANTIPHON_PURE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=2400,
        check=False,
    )
    return {catch["mutant"]: catch for catch in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def catches() -> Catches:
    return hunt_for(SHORT)


@pytest.fixture(scope="module")
def long_catches() -> Catches:
    return hunt_for(LONG)


@pytest.mark.processes
@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("name", SHORT)
def test_the_mutant_is_caught(name: str, catches: Catches) -> None:
    assert catches[name]["caught"], f"{name} survived {catches[name]['seeds']} seeds"


@pytest.mark.hunt
@pytest.mark.processes
@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize("name", LONG)
def test_the_mutant_is_caught_in_a_hunt(name: str, long_catches: Catches) -> None:
    assert long_catches[name]["caught"], f"{name} survived {long_catches[name]['seeds']} seeds"


def test_mutants_have_names_of_their_own() -> None:
    """Seeds are remembered by name; and of most it is known where to look."""
    assert len(SHORT) > 200
    assert len({mutant.name for mutant in ALL_MUTANTS}) == len(ALL_MUTANTS)


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


def remembered_programs() -> list[tuple[str, int]]:
    """The program and the seed that caught each mutant of the runtime last, each pair once."""
    seeds = remembered()
    return sorted(
        {(mutant.programs[seeds[mutant.name] % len(mutant.programs)], seeds[mutant.name]) for mutant in RUNTIME_MUTANTS}
    )


@pytest.mark.parametrize(("program", "seed"), remembered_programs())
def test_nor_in_the_programs_that_caught_mutants_of_the_runtime(program: str, seed: int) -> None:
    """A seed that fails without the mutant, too, has caught nothing."""
    assert program_symptoms(seed, (), (program,)) is None


@pytest.mark.parametrize("name", STAGED)
def test_nor_on_the_table(name: str) -> None:
    if name in STAGED_SERVICES and _build.is_compiled():
        pytest.skip("the scene patches the plain-Python core")
    assert not STAGED[name]()
