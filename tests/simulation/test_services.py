"""Stacks whose groups live at a service, in the simulated world: promises kept while clients come, go, fail and are cut
off, and the seeds that once found something."""

import pytest

from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.link_draw import draw_links
from antiphon.simulator.script import script_of
from antiphon.simulator.script_run import run_script
from antiphon.simulator.seeds import run_seed, script_of_seed
from antiphon.stacks.registry import OFFERS, founding_stacks
from tests.simulation.churn import run_churn

SERVICE_STACKS = [name for name in OFFERS if name not in founding_stacks()]


@pytest.mark.parametrize("stack", SERVICE_STACKS)
@pytest.mark.parametrize("seed", range(3000, 3024))
def test_every_promise_is_kept_while_clients_come_and_go(seed: int, stack: str) -> None:
    run = run_seed(seed, "all", stack)
    assert run.mistake == ""
    assert judge(run).problems == ()
    assert run.coverage["event: view installed"] > 0


@pytest.mark.parametrize("stack", SERVICE_STACKS)
@pytest.mark.parametrize("seed", range(3000, 3010))
def test_every_promise_is_kept_while_links_go_bad_one_by_one(seed: int, stack: str) -> None:
    assert run_churn(seed, draw_links, stack).problems == ()


@pytest.mark.parametrize("seed", [16, 39, 78, 228])
def test_seeds_of_the_sequencer_that_found_something(seed: int) -> None:
    """16, 39: what became stable because a client was excluded was told nobody. 78, 228: after a link had broken, a
    client sent its messages again group by group and not in the order in which it had sent them."""
    assert judge(run_seed(seed, "all", "sequencer")).problems == ()


@pytest.mark.parametrize("stack", SERVICE_STACKS)
def test_a_script_with_a_service_is_kept_and_run_again(stack: str) -> None:
    script = script_of_seed(3000, "churn", stack)
    again = script_of(script.document())
    assert again.services == script.services
    assert len(script.services) >= 1
    rows = [[repr(row) for log in run_script(one).logs for row in log.rows()] for one in (script, again)]
    assert rows[0] == rows[1]
