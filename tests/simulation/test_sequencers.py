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


def test_whoever_was_excluded_stays_out_where_its_group_goes() -> None:
    """A process was excluded before it had learned that it was in. It asked again to join where the group had gone, and
    was let in a second time: to the others it was a member that had missed what was sent meanwhile."""
    assert run_seed(60255).problems == []


def test_members_of_a_group_that_was_lost_on_its_way_learn_that_when_another_of_its_name_comes() -> None:
    """The sequencer that took it over crashed; another group of that name was made, and came to the one that had given
    the first one away. Members of the first stayed, in a group that did not exist."""
    assert run_seed(60065).problems == []


@pytest.mark.parametrize("seed", [61247, 62367])
def test_a_group_whose_former_sequencer_came_back_without_it_is_asked_for_before_it_is_made_again(seed: int) -> None:
    """The word of the third sequencer, to which it had gone, was under way: there were two of the same name."""
    assert run_seed(seed).problems == []


@pytest.mark.parametrize("seed", [61332, 63509])
def test_a_leave_whose_report_was_lost_is_told_again(seed: int) -> None:
    """The report went after a group that moved, and was lost; the group waited for it, and nothing became stable."""
    assert run_seed(seed).problems == []


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
