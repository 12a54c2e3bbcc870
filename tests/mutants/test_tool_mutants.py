"""Mutants of the tools are caught by whole programs; a sample here, all of them in a hunt."""

import pytest

from antiphon import _build
from tests.mutants.mutants import Mutant
from tests.mutants.tool_mutants import TOOL_MUTANTS, hunt

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="run where nothing is compiled, as the other mutants")

AT_ONCE = [TOOL_MUTANTS[place] for place in (0, 7)]


@pytest.mark.parametrize("mutant", AT_ONCE, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_at_once(mutant: Mutant) -> None:
    assert hunt(mutant, 1) is not None


@pytest.mark.hunt
@pytest.mark.parametrize("mutant", TOOL_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_in_a_hunt(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
