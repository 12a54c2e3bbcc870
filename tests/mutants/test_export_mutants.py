"""Every mutant of exports is caught at once; those that the audit must catch, in a hunt."""

import pytest

from antiphon import _build
from tests.mutants.export_mutants import AUDITED_MUTANTS, EXPORT_MUTANTS, hunt, hunt_audited
from tests.mutants.mutants import Mutant

pytestmark = pytest.mark.skipif(_build.is_compiled(), reason="mutants patch the plain-Python core")


@pytest.mark.parametrize("mutant", EXPORT_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_caught_at_once(mutant: Mutant) -> None:
    assert hunt(mutant) is not None


@pytest.mark.hunt
@pytest.mark.parametrize("mutant", AUDITED_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_audit_catches_the_mutant(mutant: Mutant) -> None:
    assert hunt_audited(mutant) is not None
