"""The log of a replicated sequencer, at its voters alone: random runs with crashes, restarts and links that break.

`seat_table.py` says what is checked; tests/mutants/seat_mutants.py shows that each rule is needed."""

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.options import Options
from antiphon.stacks.sequencer.seat_log import SeatLog
from antiphon.stacks.sequencer.seat_voter import APPEND, FOLLOWER, LEADER, RECOVERING
from antiphon.stacks.sequencer.wire import frame, u64
from tests.stacks.sequencer.seat_table import SeatTable, hasty_recovery_problem, run_table, two_votes_problem


@pytest.mark.parametrize("seed", range(20))
def test_what_was_told_is_in_the_state_of_every_later_leader_with_one_replica(seed: int) -> None:
    assert run_table(seed, 1).problem == ""


@pytest.mark.parametrize("seed", range(4))
def test_what_was_told_is_in_the_state_of_every_later_leader_with_two_replicas(seed: int) -> None:
    assert run_table(seed, 2).problem == ""


@pytest.mark.parametrize("seed", range(12))
def test_with_disks_all_voters_may_end_at_once(seed: int) -> None:
    table = run_table(seed, 1 + seed % 2, 1000, is_durable=True)
    assert table.problem == ""
    assert table.told


def test_the_sample_with_disks_has_power_losses() -> None:
    tables = [run_table(seed, 1, 1000, is_durable=True) for seed in range(4)]
    assert sum(table.blackouts for table in tables) > 4
    assert sum(len(table.told) for table in tables) > 200


def test_the_sample_has_elections_and_entries() -> None:
    tables = [run_table(seed, 1) for seed in range(5)]
    assert sum(table.elections for table in tables) > 15
    assert sum(len(table.told) for table in tables) > 1500


def test_a_voter_that_is_cut_off_and_tries_for_votes_is_told_of_the_term() -> None:
    """Seed 58 once ended without a leader: the voter with the longer log never learned of the other's higher term."""
    assert run_table(58, 1).problem == ""


def test_without_a_majority_nothing_is_told() -> None:
    table = SeatTable(1, 1)
    for _ in range(100):
        table.step()
    leader = next(name for name, log in table.logs.items() if log.role == LEADER)
    for name in table.names:
        if name != leader:
            table.crash(name)
    told = len(table.told)
    for _ in range(200):
        table.step()
    assert len(table.told) == told
    assert table.logs[leader].role == FOLLOWER


def test_a_voter_that_has_forgotten_waits_until_the_others_have_told_it() -> None:
    table = SeatTable(2, 1)
    for _ in range(100):
        table.step()
    table.crash("v1")
    table.crash("v2")
    table.start("v1")
    for _ in range(300):
        table.step()
    assert table.logs["v1"].role == RECOVERING  # more than k have forgotten, or are down
    table.start("v2")
    for _ in range(300):
        table.step()
    assert [log.role for log in table.logs.values()].count(RECOVERING) == 2


def test_a_voter_gives_one_vote_a_term() -> None:
    assert two_votes_problem() == ""


def test_a_voter_that_has_forgotten_obeys_nobody_before_it_knows_the_term() -> None:
    assert hasty_recovery_problem() == ""


def test_what_makes_no_sense_is_malformed() -> None:
    log = SeatLog("a", "a", ["a", "b", "c"], 1, Options(), 0)
    with pytest.raises(MalformedError):
        log.receive("stranger", 1, frame(APPEND, u64(1)), 0)
    with pytest.raises(MalformedError):
        log.receive("b", 1, frame(99, u64(1)), 0)
    with pytest.raises(MalformedError):
        log.receive("b", 1, frame(APPEND, u64(1)), 0)
