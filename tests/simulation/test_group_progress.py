"""Which exclusions after the network has healed are wrongful."""

import pytest

from antiphon.faults import Delay
from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import PRIMARY
from antiphon.simulator.actions import BARRIER, CRASH, PAUSE, SEND, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import ScriptRun, run_script

PAUSED = [
    Action(PAUSE, 4_000 * MILLISECOND_NS, "p5", until_ns=5_000 * MILLISECOND_NS),
    Action(SEND, 4_100 * MILLISECOND_NS, "p4", "h", "causal", (10,)),
]
CRASHED = Action(CRASH, 50 * MILLISECOND_NS, "p1")
TURNS = [
    Action(SEND, 4_000 * MILLISECOND_NS, "p5", "h", "causal", (10,)),
    Action(SEND, 4_100 * MILLISECOND_NS, "p4", "g", "causal", (10,)),
]
"""p4 turns from one group to another: under `epochs` it has the second flushed into a higher epoch first…"""
ENDS = Action(BARRIER, 4_200 * MILLISECOND_NS, "p3", "g")
"""…and then that view ends, too."""


def run(rule: str, *actions: Action) -> ScriptRun:
    """What becomes of three groups; the network has healed long before 4 s. s loses its majority with p1."""
    groups = {"s": ["p1", "p2"], "g": ["p2", "p3", "p4"], "h": ["p4", "p5"]}
    script = Script(
        run="r",
        seed=0,
        policy=PRIMARY,
        processes=["p1", "p2", "p3", "p4", "p5"],
        groups=[ScriptedGroup(name, members, members) for name, members in groups.items()],
        layers=[Delay(MILLISECOND_NS, 0)],
        options=FAST,
        domain=CausalityDomain(rule=rule),
        heal_ns=100 * MILLISECOND_NS,
    )
    for action in actions:
        script.add(action)
    return run_script(script)


def excluded(run: ScriptRun) -> set[str]:
    return {row.process for log in run.logs for row in log.rows() if row.kind == "crash" and row.label == "excluded"}


def test_under_epochs_a_group_without_a_majority_ends_its_members_elsewhere() -> None:
    """p2 delivers nothing in the next epoch of g, since s cannot follow, and so cannot end its first view. That is the
    price of the rule, and no mistake of g."""
    result = run("epochs", CRASHED, *TURNS, ENDS)
    assert excluded(result) == {"p2"}
    assert (result.excused, result.restless) == (["s"], [])


@pytest.mark.parametrize("rule", ["carry", "conservative"])
def test_under_the_other_rules_it_ends_nobody(rule: str) -> None:
    result = run(rule, CRASHED, *TURNS, ENDS)
    assert excluded(result) == set()
    assert (result.excused, result.restless) == (["s"], [])


@pytest.mark.parametrize("others", [[], [CRASHED]], ids=["alone", "beside a stall"])
@pytest.mark.parametrize("rule", ["carry", "conservative", "epochs"])
def test_an_exclusion_of_a_process_that_no_group_holds_up_is_wrongful(rule: str, others: list[Action]) -> None:
    """p5 is in no group that has lost its majority."""
    result = run(rule, *others, *PAUSED)
    assert excluded(result) == {"p5"}
    assert result.restless == ["h"]
