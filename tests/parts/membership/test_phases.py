"""The phases of membership: every way that is not in the table raises."""

from itertools import product

import pytest

from antiphon.parts.membership.phases import JOINING, NORMAL, OUT, PHASE_NAMES, TRANSITIONS, step


@pytest.mark.parametrize(("before", "after"), list(product(PHASE_NAMES, PHASE_NAMES)))
def test_only_the_ways_of_the_table_are_open(before: int, after: int) -> None:
    if (before, after) in TRANSITIONS:
        assert step(before, after) == after
    else:
        with pytest.raises(AssertionError, match="there is no way from"):
            step(before, after)


def test_every_phase_can_be_reached_and_nothing_follows_the_last() -> None:
    reached = {JOINING}
    for _ in PHASE_NAMES:
        reached |= {after for before, after in TRANSITIONS if before in reached}
    assert reached == set(PHASE_NAMES)
    assert not [after for before, after in TRANSITIONS if before == OUT]
    assert (OUT, NORMAL) not in TRANSITIONS
