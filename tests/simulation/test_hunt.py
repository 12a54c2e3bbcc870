"""A longer look for rare mistakes than the suite takes: `make hunt`. Longer still are `make churn` and its like."""

import pytest

from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.link_draw import draw_links
from antiphon.stacks.registry import OFFERS
from tests.simulation.churn import run_churn

pytestmark = pytest.mark.hunt


@pytest.mark.parametrize("seed", range(100_000, 100_300))
def test_members_come_and_go(seed: int) -> None:
    assert run_churn(seed, draw_churn).problems == ()


@pytest.mark.parametrize("seed", range(100_000, 100_300))
def test_against_an_adversary(seed: int) -> None:
    assert run_churn(seed, draw_adversarial).problems == ()


@pytest.mark.parametrize("stack", list(OFFERS))
@pytest.mark.parametrize("seed", range(100_000, 100_300))
def test_links_go_bad_one_by_one(seed: int, stack: str) -> None:
    assert run_churn(seed, draw_links, stack).problems == ()
