"""Groups that part and merge in the simulated world: recorded, and held to what their start rows promise."""

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.policies import PARTITIONABLE
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.run import SimulationOptions, make_workload, static_script
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.stacks.registry import OFFERS

STACKS = [name for name, offered in OFFERS.items() if PARTITIONABLE in offered.policies]


def run_islands(seed: int, stack: str, members: int = 6) -> ScriptRun:
    options = SimulationOptions(
        stack=stack, policy=PARTITIONABLE, members=members, messages=20, seed=seed, faults="all",
        levels=("causal", "agreed", "safe"),
    )  # fmt: skip
    return run_script(static_script(options), make_workload(options))


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("seed", range(4))
def test_promises_are_kept_while_components_part_and_merge(seed: int, stack: str) -> None:
    run = run_islands(seed, stack)
    assert run.mistake == ""
    assert run.restless == []
    assert [str(problem) for problem in judge(run).problems] == []
    views = {row.view for log in run.logs for row in log.rows() if row.kind == "view"}
    assert len(views) > 1


@pytest.mark.parametrize("stack", STACKS)
def test_the_same_seed_gives_the_same_run(stack: str) -> None:
    once, again = run_islands(3, stack), run_islands(3, stack)
    assert [list(map(repr, log.rows())) for log in once.logs] == [list(map(repr, log.rows())) for log in again.logs]


def test_a_stack_that_does_not_part_says_so() -> None:
    with pytest.raises(UsageError, match="such runs of stack 'vector' have no policy 'partitionable'"):
        SimulationOptions(stack="vector", policy=PARTITIONABLE)
