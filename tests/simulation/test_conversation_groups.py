"""A bounded sample of the seeds on the stack `conversation` (`make conversations` runs many more), and those that found
something."""

import pytest

from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.seeds import STATIC_WORKLOAD, run_seed
from antiphon.stacks.conversation.offers import OFFERS as CONVERSATION
from tests.simulation.churn import run_churn

STACK = CONVERSATION.name


@pytest.mark.parametrize("seed", range(3000, 3010))
def test_every_promise_is_kept_while_members_come_and_go(seed: int) -> None:
    assert run_churn(seed, draw_churn, STACK).problems == ()


@pytest.mark.parametrize("seed", range(3000, 3030))
def test_every_promise_is_kept_against_an_adversary(seed: int) -> None:
    assert run_churn(seed, draw_adversarial, STACK).problems == ()


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_every_promise_is_kept_in_a_view_that_stays(seed: int) -> None:
    assert judge(run_seed(seed, STATIC_WORKLOAD, STACK)).problems == ()


@pytest.mark.parametrize("seed", [1355, 4107, 5827, 6355])
def test_what_was_fetched_for_a_cut_that_was_given_up_is_let_go(seed: int) -> None:
    """Who had more of it than the cut that was decided delivered that, too."""
    assert run_churn(seed, stack=STACK).problems == ()


def test_overlapping_pauses_of_a_process_do_not_stop_its_application_for_good() -> None:
    """The world once turned round the order of a pause of the application and its end."""
    assert run_churn(74974, stack=STACK).problems == ()


def test_a_group_that_the_last_reachable_members_leave_keeps_its_promises() -> None:
    """One of two leaves, by a proposal of the other, who crashes soon after."""
    assert run_churn(10921, stack=STACK).problems == ()


@pytest.mark.parametrize("seed", [0, 2, 14, 18])
def test_seeds_that_found_something(seed: int) -> None:
    """0: answers that were flagged as resent brought back the whole graph, again and again. 2: weak messages overtook
    others that nothing held up any more. 14, 18: a member that had stopped took a wave for whole."""
    assert judge(run_seed(seed, STATIC_WORKLOAD, STACK)).problems == ()
