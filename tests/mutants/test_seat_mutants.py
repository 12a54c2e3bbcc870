"""Every mutant of a replicated sequencer's log is caught."""

import pytest

from antiphon import _build
from tests.mutants.mutants import Mutant
from tests.mutants.seat_mutants import SEAT_MUTANTS, hunt

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="mutants patch the plain-Python core")


@pytest.mark.parametrize("mutant", SEAT_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
