"""Replicated sequencers in the simulated world: peers crash and come back, are cut off, and nothing is lost or doubled,
with one and with two replicas."""

from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Open
from antiphon.kernel.options import Options
from antiphon.simulator.script_run import run_script
from tests.stacks.sequencer.seat_scripts import problems_of, seat_script


@pytest.mark.parametrize("seed", range(4))
def test_while_peers_crash_and_come_back_nothing_is_lost_or_doubled(seed: int) -> None:
    run = run_script(seat_script(seed, 1, 3, "none"))
    assert problems_of(run) == []
    assert run.coverage["seat led"] > 3
    assert run.coverage["message accepted"] > 50


@pytest.mark.parametrize(("seed", "replicas"), [(5, 1), (6, 1), (7, 2)])
def test_while_the_network_is_bad_as_well(seed: int, replicas: int) -> None:
    assert problems_of(run_script(seat_script(seed, replicas, 0, "all"))) == []


def test_too_few_peers_are_refused() -> None:
    engine = Engine(ProcessId("s"), Random(0), Options(of_stacks={"sequencer.replicas": 1}))
    with pytest.raises(UsageError, match="3 peers are needed"):
        engine.step(Open(stack="sequencer", role="peer", address="a:1", contacts=("b:1",)), 0)
