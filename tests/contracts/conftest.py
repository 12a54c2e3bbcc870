"""Each contract over each stack of the registry that offers what the contract is about.

The toy stack of the tests runs through them as well: it is registered here, by one line. It is plain Python, which
cannot inherit from compiled classes; beside a compiled core, tests/toy_stack/test_contracts.py runs it in a process
of its own.

A test that takes `stack` runs once for each stack; one that takes `level` too, once for each level of the stack.
`@pytest.mark.levels("agreed", "safe")` says which levels a test is about: where it takes `level`, these alone; where
not, it runs over the stacks that offer all of them. `@pytest.mark.capable("private")` leaves out stacks that are not,
for a reason that capabilities.py names, and `@pytest.mark.lacking("private")` runs over those that were left out.
Where the groups of a stack live at a service, the table, or the cluster, has a process more, in that role.
"""

import pytest

from antiphon import _build
from antiphon.kernel.levels import LEVELS
from antiphon.stacks.registry import OFFERS, register
from tests.contracts.capabilities import NEEDS
from tests.toy_stack.stack import OFFERS as TOY
from tests.toy_stack.stack import ToyStack

if TOY.name not in OFFERS and not _build.is_compiled():
    register(TOY, ToyStack)


def named_by(metafunc: pytest.Metafunc, mark: str) -> list[str]:
    """What the test's marks of this kind name."""
    return [str(name) for found in metafunc.definition.iter_markers(mark) for name in found.args]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stack" not in metafunc.fixturenames:
        return
    wanted = named_by(metafunc, "levels")
    needs = [NEEDS[name] for name in named_by(metafunc, "capable")]
    lacked = [NEEDS[name] for name in named_by(metafunc, "lacking")]
    offers = [
        offer
        for offer in OFFERS.values()
        if all(need.is_met(offer) for need in needs) and not any(need.is_met(offer) for need in lacked)
    ]
    if "level" not in metafunc.fixturenames:
        stacks = [offer.name for offer in offers if set(wanted) <= set(offer.levels)]
        assert stacks, f"{metafunc.function.__name__}: no stack offers {wanted} and what else the test needs"
        metafunc.parametrize("stack", stacks)
        return
    cases = [
        pytest.param(offer.name, LEVELS[level], id=f"{offer.name}-{level}")
        for offer in offers
        for level in offer.levels
        if level in (wanted or LEVELS)
    ]
    metafunc.parametrize(("stack", "level"), cases)
