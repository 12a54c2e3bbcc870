"""A bounded sample of the campaign (`make campaign` runs 2,000 seeds), and the seeds that once found something."""

import pytest

from antiphon.pipeline.result import KEPT
from antiphon.simulator.draw import draw
from antiphon.simulator.run import WORKLOADS, SimulationOptions, simulate
from tests.simulation.campaign import make_logs, run_seed


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_every_promise_is_kept(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.verdict == KEPT, outcome.explanation


@pytest.mark.parametrize("seed", [25, 33, 39, 42])
def test_own_causal_messages_after_weaker_ones(seed: int) -> None:
    """These seeds showed own causal messages delivered ahead of the past of weaker ones that were answered."""
    outcome = run_seed(seed)
    assert outcome.verdict == KEPT, outcome.explanation


def test_a_full_window_does_not_keep_the_order_from_being_told() -> None:
    """In this seed a member got the token while own packets that waited for their places filled its window."""
    outcome = run_seed(1013)
    assert outcome.verdict == KEPT, outcome.explanation


def test_the_draw_covers_what_it_should() -> None:
    drawn = [draw(seed) for seed in range(300)]
    assert {options.members for options in drawn} == set(range(3, 10))
    assert {options.workload for options in drawn} == set(WORKLOADS)
    assert any("reliable" in options.levels for options in drawn)
    assert any(options.options.window_packets < options.messages for options in drawn)
    assert any(options.size_max > options.options.packet_bytes_max for options in drawn)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("faults", ["none", "loss", "all"])
@pytest.mark.parametrize("members", [1, 2, 25])
def test_every_message_is_sent_and_delivered(workload: str, faults: str, members: int) -> None:
    options = SimulationOptions(members=members, messages=10, seed=3, faults=faults, workload=workload)
    result = simulate(options, make_logs(options))
    assert result.quiet
    assert result.sent == 10 * members
    assert result.delivered == 10 * members * members


def test_faults_happen_and_are_recovered_from() -> None:
    """The protocol has to resend, and to drop what is damaged or doubled."""
    totals: dict[str, dict[str, int]] = {"none": {}, "all": {}}
    for faults, total in totals.items():
        for seed in range(5):
            options = SimulationOptions(seed=seed, faults=faults)
            for name, value in simulate(options, make_logs(options)).statistics.items():
                total[name] = total.get(name, 0) + value
    assert "dropped_checksum" not in totals["none"]
    assert totals["all"]["dropped_checksum"] > 10
    assert totals["all"]["resends"] > 3 * totals["none"]["resends"]
    assert totals["all"]["duplicates"] > 3 * totals["none"]["duplicates"]
