"""Mutants of the stack `label` are caught by scenes; a sample here, all of them in a hunt."""

import pytest

from antiphon import _build
from tests.mutants.label_mutants import LABEL_MUTANTS, hunt
from tests.mutants.mutants import Mutant

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="mutants patch the plain-Python core")


AT_ONCE = [LABEL_MUTANTS[place] for place in (0, 1, 2, 8, 10, 15, 17, 19, 20)]
"""Those that a staged claim catches."""


@pytest.mark.parametrize("mutant", AT_ONCE, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_at_once(mutant: Mutant) -> None:
    assert hunt(mutant, 40) is not None


@pytest.mark.hunt
@pytest.mark.parametrize("mutant", LABEL_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_in_a_hunt(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
