"""The toy stack of the tests under all faults of the network: what its start rows promise is kept."""

import pytest

from antiphon import _build
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.seeds import run_seed
from antiphon.stacks.registry import OFFERS, register
from tests.toy_stack.stack import OFFERS as TOY
from tests.toy_stack.stack import ToyStack

if _build.is_compiled():
    pytest.skip("plain Python cannot inherit from a compiled core", allow_module_level=True)
if TOY.name not in OFFERS:
    register(TOY, ToyStack)


@pytest.mark.parametrize("seed", range(20))
def test_what_it_promises_is_kept(seed: int) -> None:
    judgement = judge(run_seed(seed, "all", TOY.name))
    assert [str(problem) for problem in judgement.problems] == []
