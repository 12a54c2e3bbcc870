"""A bounded sample of the crowds (`make crowds` runs 500 seeds), and the seeds that once found something."""

import pytest

from tests.simulation.crowds import run_crowd


@pytest.mark.parametrize("seed", range(2000, 2030))
def test_every_promise_is_kept_while_members_come_and_go(seed: int) -> None:
    problems, _ = run_crowd(seed)
    assert problems == []


@pytest.mark.parametrize("seed", [8, 40, 90, 741, 882, 925])
def test_seeds_that_found_something(seed: int) -> None:
    """8: a leaver went before the others knew the view. 40: a cut that named packets which only the dead had. 90: an
    excluded life let in again. 741: a deadline that nothing ended. 882: a round that nobody outbid. 925: a round that
    waited for the dead while others were back."""
    problems, _ = run_crowd(seed)
    assert problems == []
