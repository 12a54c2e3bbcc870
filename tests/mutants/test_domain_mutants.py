"""Every mutant of the stack `domain` is caught; those of the votes at once, those of islands in a hunt."""

import pytest

from antiphon import _build
from tests.mutants.domain_mutants import DOMAIN_MUTANTS, ISLANDS, hunt
from tests.mutants.mutants import Mutant

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="mutants patch the plain-Python core")
BY_ISLANDS = [mutant for mutant in DOMAIN_MUTANTS if mutant.breaks == (ISLANDS,)]
OTHERS = [mutant for mutant in DOMAIN_MUTANTS if mutant not in BY_ISLANDS]


@pytest.mark.parametrize("mutant", OTHERS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_at_once(mutant: Mutant) -> None:
    assert hunt(mutant) is not None


@pytest.mark.hunt
@pytest.mark.parametrize("mutant", BY_ISLANDS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_among_islands(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
