"""Replicated sequencers in the simulated world: peers crash and come back, are cut off, and nothing is lost or doubled,
with one and with two replicas."""

from dataclasses import replace
from random import Random

import pytest

from antiphon.engine import Engine
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Open
from antiphon.kernel.options import Options
from antiphon.simulator.script_run import run_script
from tests.stacks.sequencer.seat_scripts import durable_script, problems_of, run_moving, seat_script
from tests.stacks.sequencer.test_mesh import sparse_script


@pytest.mark.parametrize("seed", range(4))
def test_while_peers_crash_and_come_back_nothing_is_lost_or_doubled(seed: int) -> None:
    run = run_script(seat_script(seed, 1, 3, "none"))
    assert problems_of(run) == []
    assert run.coverage["seat led"] > 3
    assert run.coverage["message accepted"] > 50


@pytest.mark.parametrize(("seed", "replicas"), [(5, 1), (6, 1), (7, 2)])
def test_while_the_network_is_bad_as_well(seed: int, replicas: int) -> None:
    assert problems_of(run_script(seat_script(seed, replicas, 0, "all"))) == []


@pytest.mark.parametrize("seed", range(20, 24))
def test_groups_move_between_seats_while_peers_crash(seed: int) -> None:
    run = run_moving(seat_script(seed, 1 + seed % 2, 0, "none"))
    assert problems_of(run) == []
    assert run.coverage["groups moved"] > 2


def test_too_few_peers_are_refused() -> None:
    engine = Engine(ProcessId("s"), Random(0), Options(of_stacks={"sequencer.replicas": 1}))
    with pytest.raises(UsageError, match="3 peers are needed"):
        engine.step(Open(stack="sequencer", role="peer", address="a:1", contacts=("b:1",)), 0)


@pytest.mark.parametrize(("seed", "services", "faults"), [(0, 1, "none"), (2, 3, "all")])
def test_a_peer_with_a_log_on_disk_goes_on_with_it_after_a_crash(seed: int, services: int, faults: str) -> None:
    script = sparse_script(seed, services, faults, crash=True)
    script.options = replace(script.options, of_stacks={"sequencer.durable": 1})
    run = run_script(script)
    assert problems_of(run) == []
    assert run.coverage["seat led"] == services + 1


@pytest.mark.parametrize("seed", range(4))
def test_all_replicated_peers_with_disks_end_at_once_and_nothing_is_lost(seed: int) -> None:
    script = durable_script(seed)
    run = run_script(script)
    assert problems_of(run) == []
    assert run.coverage["seat led"] > len(script.services)  # each seat was led anew
    assert run.coverage["message accepted"] > 50
