"""Coverage: what runs reach is among what they say can be reached, on every stack."""

import pytest

from antiphon.simulator.coverage import situations_of
from antiphon.simulator.seeds import run_seed
from antiphon.stacks.registry import OFFERS, founding_stacks, offer

BY_OTHER_RUNS = {
    "label": {
        "labelled broadcast sent ahead of own ones that do not precede it",  # only where broadcasts may wait
        "ordered broadcast delivered because a later one tells its place",
    },
    "sequencer": {
        *("group moved for balance", "group moved to its sender", "groups moved"),  # balancing is off by default
        *("seat led", "seat given up"),  # and so are replicas
        "body sent by its sender",  # and bodies that do not go by way of the sequencer
    },
}
"""What these seeds do not come to, on stacks that offer what they do not use."""


@pytest.mark.parametrize("stack", OFFERS)
def test_all_that_runs_reach_is_listed_and_all_that_a_stack_counts_is_reached(stack: str) -> None:
    reached: set[str] = set()
    for seed in range(12):
        reached |= set(run_seed(seed, "all", stack).coverage)
    assert reached <= set(situations_of(stack))
    assert set(offer(stack).situations) - reached == BY_OTHER_RUNS.get(stack, set())
    assert {"event: crashed", "event: view installed", "phase: joining to normal"} <= reached
    if stack in founding_stacks():
        assert {"membership: install", "phase: normal to flushing"} <= reached
