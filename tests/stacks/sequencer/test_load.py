"""Load: what a group costs, which one moves, and that moves come to an end."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.inputs import MAIN
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.policies import PRIMARY
from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.actions import SEND, Action
from antiphon.simulator.churn_draw import FAST
from antiphon.simulator.fault_schedule import network_layers
from antiphon.simulator.run import add_services
from antiphon.simulator.script import Script, ScriptedGroup
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.stacks.sequencer.load import choose_for_balance, choose_for_sender, cost


def test_a_message_costs_its_bytes_and_more_once_in_and_once_for_each_member() -> None:
    assert cost(1, 100, 3) == 4 * cost(1, 100, 0)
    assert cost(10, 1_000, 1) < 10 * cost(1, 1_000, 1)


def test_the_largest_group_moves_that_leaves_the_other_no_more_loaded() -> None:
    assert choose_for_balance({1: 60.0, 2: 30.0, 3: 10.0}, {"x": 20.0, "y": 50.0}) == (2, "x")


def test_nothing_moves_where_loads_are_alike_or_groups_too_large_or_nobody_known() -> None:
    assert choose_for_balance({1: 50.0, 2: 50.0}, {"x": 100.0}) is None
    assert choose_for_balance({1: 100.0}, {"x": 0.0}) is None
    assert choose_for_balance({1: 100.0, 2: 0.1}, {"x": 0.0}) is None, "what moves must be worth it"
    assert choose_for_balance({1: 50.0, 2: 50.0}, {}) is None


def test_a_group_moves_to_the_process_that_sends_most_of_it_if_a_sequencer_runs_there() -> None:
    assert choose_for_sender({"p": 6, "q": 4}, 10.0, {"at p": 5.0}, {"p": "at p"}) == "at p"
    assert choose_for_sender({"p": 5, "q": 5}, 10.0, {"at p": 5.0}, {"p": "at p"}) == ""
    assert choose_for_sender({"p": 6, "q": 4}, 10.0, {}, {}) == ""
    assert choose_for_sender({"p": 6, "q": 4}, 10.0, {"at p": 41.0}, {"p": "at p"}) == "", "it has enough to do"


@given(
    st.lists(st.integers(0, 10**6).map(float), min_size=1, max_size=30),
    st.integers(2, 6),
    st.randoms(use_true_random=False),
)
def test_each_move_for_balance_makes_loads_more_alike(loads: list[float], peers: int, random: Random) -> None:
    at = {group: random.randrange(peers) for group in range(len(loads))}
    for _ in range(200 * peers):
        peer = random.randrange(peers)
        own = {group: loads[group] for group in at if at[group] == peer}
        others = {
            str(other): sum([loads[group] for group in at if at[group] == other])
            for other in range(peers)
            if other != peer
        }
        squares = sum([total**2 for total in others.values()]) + sum(own.values()) ** 2
        chosen = choose_for_balance(own, others)
        if chosen is None:
            continue
        group, address = chosen
        at[group] = int(address)
        totals = [sum([loads[group] for group in at if at[group] == one]) for one in range(peers)]
        assert sum([total**2 for total in totals]) < squares


def balanced_run(seed: int) -> ScriptRun:
    """Eight groups, all created at the first of two sequencers."""
    random = Random(f"{seed}/load")
    names = [f"p{number}" for number in range(8)]
    script = Script(
        run=f"load-{seed}",
        seed=seed,
        policy=PRIMARY,
        processes=list(names),
        groups=[ScriptedGroup(f"g{at}", [name], (name,)) for at, name in enumerate(names)],
        layers=network_layers("none", names, 2_000 * MILLISECOND_NS, random),
        options=replace(FAST, of_stacks={"sequencer.balance_ms": 100}),
        domain=MAIN,
        heal_ns=2_000 * MILLISECOND_NS,
        stack="sequencer",
    )
    add_services(script, 2)
    for at, name in enumerate(names[:4]):  # two of the four are at either sequencer at first
        for turn in range(200):
            at_ns = (50 + turn * 9) * MILLISECOND_NS
            if at % 2 == 0:
                script.add(Action(SEND, at_ns, name, f"g{at}", "agreed", (100,)))
    return run_script(script)


def test_groups_move_until_loads_are_alike_and_then_stay() -> None:
    run = balanced_run(1)
    assert judge(run).problems == ()
    assert 1 <= run.coverage.get("group moved for balance", 0) <= 3
