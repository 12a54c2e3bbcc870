"""A pytest plugin that plants a mutant for a whole session, to see that a test fails on the broken protocol.

ANTIPHON_PURE=1 ANTIPHON_MUTANT='no delay rule' python -m pytest -p tests.mutants.planted FILE
"""

import os
from contextlib import ExitStack

from antiphon._build import pure_forced
from tests.mutants.hunt import ALL_MUTANTS
from tests.mutants.mutants import Mutant

VARIABLE = "ANTIPHON_MUTANT"
_planted = ExitStack()


def find(name: str) -> Mutant:
    assert pure_forced(), "mutants patch the plain-Python core: set ANTIPHON_PURE=1"
    return next(mutant for mutant in ALL_MUTANTS if mutant.name == name)


def pytest_configure() -> None:
    _planted.enter_context(find(os.environ[VARIABLE]).at_large())


def pytest_unconfigure() -> None:
    _planted.close()
