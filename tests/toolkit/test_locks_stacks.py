"""Locks on every stack that has the levels, under all faults in virtual time; `make programs` has many more seeds."""

import pytest

from tests.programs.campaign import run_seed


@pytest.mark.parametrize(("stack", "seed"), [("vector", 0), ("domain", 6), ("conversation", 9)])
def test_no_update_is_lost(stack: str, seed: int) -> None:
    from tests.programs.locks import STACKS

    assert STACKS[seed // 3 % len(STACKS)] == stack
    assert run_seed(seed, "locks").problems == ()
