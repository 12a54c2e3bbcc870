"""Several sequencers in the simulated world: groups that are apart at first, processes that join two of them and leave
again; every promise is kept, and one order over all groups has no cycle. tests/simulation/sequencers.py has more."""

from random import Random

import pytest

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import MAIN
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.policies import PRIMARY
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import CRASH, CUT_LINKS, LEAVE, SEND, START, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.run import add_services
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.stacks.sequencer.mesh import MeshPeer
from antiphon.stacks.sequencer.wire import FrameReader

GROUPS = 6
HEAL_NS = 3_000 * MILLISECOND_NS


def sparse_script(seed: int, services: int, faults: str = "none", crash: bool = False) -> Script:
    """Six groups of two, of which none overlap. Then six processes start, each a member of two of the groups; some of
    them leave again."""
    random = Random(f"{seed}/sparse")
    pairs = [(f"a{number}", f"b{number}") for number in range(GROUPS)]
    bridges = {f"c{number}": random.sample(range(GROUPS), 2) for number in range(GROUPS)}
    members = [[*pair, *[name for name, groups in bridges.items() if at in groups]] for at, pair in enumerate(pairs)]
    processes = [name for pair in pairs for name in pair] + list(bridges)
    script = Script(
        run=f"sparse-{seed}",
        seed=seed,
        policy=PRIMARY,
        processes=processes,
        groups=[ScriptedGroup(f"g{at}", members[at], pairs[at]) for at in range(GROUPS)],
        layers=network_layers(faults, processes, HEAL_NS, random),
        options=FAST,
        domain=MAIN,
        heal_ns=HEAL_NS,
        stack="sequencer",
    )
    add_services(script, services)
    for name in bridges:
        at_ns = int(random.random() * HEAL_NS)
        script.add(Action(START, at_ns, name))
        if random.random() < 0.5:
            for group in bridges[name]:
                script.add(Action(LEAVE, int(at_ns + random.random() * (HEAL_NS - at_ns)), name, f"g{group}"))
    for _ in range(120):
        at = random.randrange(GROUPS)
        script.add(Action(SEND, int(random.random() * HEAL_NS), random.choice(members[at]), f"g{at}", "agreed", (20,)))
    if faults != "none":
        for _ in range(10):
            script.add(Action(CUT_LINKS, int(random.random() * HEAL_NS), random.choice(script.processes)))
    if crash:
        at_ns = int(random.random() * HEAL_NS / 2)
        service = random.choice(script.services)
        script.add(Action(CRASH, at_ns, service))
        script.add(Action(START, at_ns + int(random.random() * HEAL_NS / 2), service))
    return script


def check(run: ScriptRun) -> int:
    """Whether everything is kept; how often groups were moved."""
    assert run.mistake == ""
    assert judge(run).problems == ()
    return run.coverage.get("groups moved", 0)


def test_processes_of_groups_at_several_sequencers_deliver_in_one_order() -> None:
    assert [check(run_script(sparse_script(seed, 3))) for seed in range(8)] == [0] * 8


@pytest.mark.parametrize("seed", range(8))
def test_through_bad_networks_and_broken_links(seed: int) -> None:
    check(run_script(sparse_script(seed, 2 + seed % 2, "all")))


@pytest.mark.parametrize("seed", range(8))
def test_while_a_sequencer_crashes_and_comes_back(seed: int) -> None:
    check(run_script(sparse_script(seed, 3, "all" if seed % 2 else "none", crash=True)))


def test_a_group_that_was_given_away_is_not_taken_for_lost_before_its_new_peer_is_heard() -> None:
    """The peer that had it greets the directory again, since its link broke, before the new one is heard: the group was
    created a second time (seed 6253)."""
    group = 3  # its place is known to the first of three
    home = MeshPeer(ProcessId("s1"), Options(), "s1", ["s2", "s3"], 0)
    home._greeted = {"s2", "s3"}
    home._relocated("s2", 1, {group: 5})
    giver = MeshPeer(ProcessId("s2"), Options(), "s2", ["s1", "s3"], 0)
    giver._given[group], giver._given_to[group] = 5, "s3"
    for piece in giver._given_frames("s1"):
        home._take_from_peer("s2", FrameReader(piece, 1))
    home._relocated("s2", 1, {})
    assert home._locate(group, "s1") == (6, "s3")


def test_one_sequencer_moves_nothing() -> None:
    assert check(run_script(sparse_script(1, 1))) == 0
