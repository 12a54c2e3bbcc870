"""Members that are attached to sites in the simulated world: recorded, and held to what their start rows promise."""

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.policies import SITES
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.run import SITES_COUNT, SimulationOptions, make_workload, static_script
from antiphon.simulator.script_run import ScriptRun, run_script

LEVELS = ("reliable", "fifo", "causal", "agreed", "safe", "abcast")


def run_sites(seed: int, faults: str = "all") -> ScriptRun:
    options = SimulationOptions(
        stack="label", policy=SITES, members=6, messages=20, seed=seed, faults=faults, levels=LEVELS
    )
    return run_script(static_script(options), make_workload(options))


@pytest.mark.parametrize("seed", range(3))
def test_promises_are_kept_at_sites(seed: int) -> None:
    run = run_sites(seed)
    assert run.mistake == ""
    assert run.restless == []
    assert [str(problem) for problem in judge(run).problems] == []
    delivered = sum(row.count or 0 for log in run.logs for row in log.rows() if row.kind == "deliver")
    assert delivered == 6 * 6 * 20


def test_members_are_attached_to_sites_in_turn() -> None:
    options = SimulationOptions(stack="label", policy=SITES, members=6)
    script = static_script(options)
    assert len(script.services) == SITES_COUNT
    assert script.processes == [*options.process_names(), *script.services]


def test_the_same_seed_gives_the_same_run_at_sites() -> None:
    once, again = run_sites(3, "loss"), run_sites(3, "loss")
    assert [list(map(repr, log.rows())) for log in once.logs] == [list(map(repr, log.rows())) for log in again.logs]


def test_a_stack_without_sites_says_so() -> None:
    with pytest.raises(UsageError, match="such runs of stack 'vector' have no policy 'sites'"):
        SimulationOptions(stack="vector", policy=SITES)
