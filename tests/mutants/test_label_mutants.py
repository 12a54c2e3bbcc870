"""Mutants of the stack `label` are caught by scenes; a sample here, all of them in a hunt."""

import pytest

from antiphon import _build
from tests.mutants.label_mutants import LABEL_MUTANTS, hunt
from tests.mutants.mutants import Mutant

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="mutants patch the plain-Python core")


@pytest.mark.parametrize("mutant", [LABEL_MUTANTS[0], LABEL_MUTANTS[2]], ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_at_once(mutant: Mutant) -> None:
    assert hunt(mutant, 40) is not None


@pytest.mark.hunt
@pytest.mark.parametrize("mutant", LABEL_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_in_a_hunt(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
