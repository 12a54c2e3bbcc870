"""Scenes of the stack `label` with crashes: a sample of what `python -m tests.stacks.label.sweep` does at length."""

import pytest

from tests.simulation.churn import run_churn
from tests.stacks.label.guest_sweep import cases, problems
from tests.stacks.label.sweep import SECOND_WITHIN, random_scene, run_scene


@pytest.mark.parametrize("seed", [*range(30), 1314])
def test_promises_hold_in_random_scenes_with_crashes(seed: int) -> None:
    members, crashes, lazy_us = random_scene(seed)
    assert run_scene(seed, members, crashes, lazy_us)[0] == []


@pytest.mark.parametrize("part", range(4))
def test_promises_hold_whoever_dies_at_whichever_effect(part: int) -> None:
    effects = run_scene(5, 3, ())[1]
    for effect in range(1 + 9 * part, effects, 36):
        assert run_scene(5, 3, (effect,))[0] == [], effect


@pytest.mark.parametrize("first", [20, 47, 80])
def test_promises_hold_if_the_successor_dies_too(first: int) -> None:
    for second in range(first + 1, first + 1 + SECOND_WITHIN, 7):
        assert run_scene(5, 5, (first, second))[0] == [], second


def test_a_collected_window_never_overruns_its_bounds() -> None:
    """4.4: the store is bounded: it is empty at rest, whatever was sent (scene.py checks that too)."""
    assert run_scene(11, 4, ())[0] == []


def test_what_only_its_sender_has_is_asked_of_the_sender_first() -> None:
    """A broadcast of the cut that had reached nobody held the change of view up for five seconds: the sender was asked
    last, each other member before it, ever less often."""
    assert run_churn(242, stack="label").problems == ()


@pytest.mark.parametrize("calls", [31])
def test_what_comes_from_outside_is_delivered_once_whoever_dies(calls: int) -> None:
    for case in cases(calls):
        assert problems(case) == []
