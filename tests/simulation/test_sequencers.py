"""A sample of the seeds of `sequencers.py`."""

from collections import Counter

import pytest

from tests.simulation.sequencers import run_seed


@pytest.mark.parametrize("seed", range(16))
def test_every_promise_is_kept_while_groups_move_and_sequencers_crash(seed: int) -> None:
    assert run_seed(seed).problems == []


def test_a_late_word_that_a_group_moves_changes_nothing_where_it_is_elsewhere() -> None:
    """A client was told by the peer that a group had left, after it had gone on with the group at the next one, that
    the group was on its way; then it hung up there, and waited for ever for where it went."""
    assert run_seed(5086).problems == []


@pytest.mark.parametrize("seed", [5050, 5095])
def test_a_client_that_was_forgotten_while_its_group_was_looked_up_is_answered_when_it_comes_again(seed: int) -> None:
    """The sequencer took the join of the next session for a repeat of the one that it was looking up, whose answer went
    to the session that was forgotten: the client waited for ever."""
    assert run_seed(seed).problems == []


def test_a_group_is_not_created_again_while_the_word_where_it_went_is_under_way() -> None:
    assert run_seed(6253).problems == []


def test_whoever_left_a_group_elsewhere_is_not_in_it_when_it_comes_back() -> None:
    """A group went away and came back before its former sequencer was told that it had arrived; a client that had been
    excluded meanwhile was still taken to be in it, and the sequencer failed when that came by a new link."""
    assert run_seed(40081).problems == []


FULL = (0, 2, 22, 33, 37)
"""Seeds in which much happens; the last two have races with moves."""


def test_the_sample_is_no_farce() -> None:
    seen: Counter[str] = Counter()
    for seed in FULL:
        seen.update(run_seed(seed).seen)
    assert seen["looks with two or more sequencers at work"] > 40
    assert seen["transfers"] > 30
    assert seen["joins that raced with a transfer"] > 10
    assert seen["sequencers crashed in a transfer"] > 1
    assert seen["partings"] > 10
    assert seen["looks with processes at two or more sequencers"] > 500
    assert seen["request waited for a number"] > 10
