"""Scripts: what a seed draws does not change, a document is the run again, and nonsense is refused in a sentence."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from antiphon.history.schema import Row
from antiphon.kernel.errors import UsageError
from antiphon.simulator.actions import ACTION_FIELDS, CUT_LINKS, POWER_LOSS, STATIC_ACTIONS
from antiphon.simulator.adversarial_draw import draw_adversarial
from antiphon.simulator.churn_draw import draw_churn
from antiphon.simulator.coverage import situations_of
from antiphon.simulator.script import Script, script_of
from antiphon.simulator.script_run import ScriptRun, run_script
from antiphon.simulator.seeds import draw_churn_workload, kind_of, run_seed, script_of_seed
from tests.simulation.first_churn import draw_first_churn


def text_of(script: Script) -> str:
    return json.dumps(script.document())


def rows_of(run: ScriptRun) -> list[Row]:
    return [row for log in run.logs for row in log.rows()]


@pytest.mark.parametrize(
    ("draw", "digest"),
    [(draw_churn, "c05dc48e9b35aa50"), (draw_adversarial, "116b9b8ac4f7b2cc"), (draw_first_churn, "e4b1b148a53bfa91")],
)
def test_what_seeds_draw_stays_what_it_was(draw: Callable[[int], Script], digest: str) -> None:
    """Seeds that found something stand in tests and documents by their numbers."""
    drawn = "\n".join(text_of(draw(seed)) for seed in range(100))
    assert blake2b(drawn.encode(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize("seed", [0, 2, 3, 7])
def test_a_document_is_the_run_again(seed: int) -> None:
    drawn = draw_churn_workload(seed)
    again = script_of(json.loads(text_of(drawn)))
    assert text_of(again) == text_of(drawn)
    assert rows_of(run_script(again)) == rows_of(run_seed(seed, "churn"))


def test_the_script_of_a_static_seed_has_all_that_was_sent() -> None:
    """In this one nobody's answer shares its moment with anything else, so it is the same run, but for the bytes: a
    script knows their number only."""
    script = script_of(json.loads(text_of(script_of_seed(0, "static"))))
    assert {action.kind for action in script.actions} <= set(STATIC_ACTIONS)
    again, first = rows_of(run_script(script)), rows_of(run_seed(0, "static"))
    assert [replace(row, digest=None) for row in again] == [replace(row, digest=None) for row in first]


def test_workloads_share_out_the_seeds() -> None:
    assert [kind_of(seed, "all") for seed in range(4)] == ["churn", "static", "churn", "adversarial"]
    assert [kind_of(seed, "churn") for seed in range(4)] == ["churn", "churn", "churn", "adversarial"]
    assert {kind_of(seed, "static") for seed in range(4)} == {"static"}


def test_the_draws_use_every_kind_of_action_and_meet_the_situations() -> None:
    drawn = {action.kind for seed in range(60) for action in draw_churn_workload(seed).actions}
    assert drawn == set(ACTION_FIELDS) - {POWER_LOSS, CUT_LINKS}  # for stacks that use a disk, or links
    reached: set[str] = set()
    for seed in range(8):
        reached |= set(run_seed(seed, "all").coverage)
    assert reached <= set(situations_of("vector"))
    assert {"the token moves", "membership: install", "phase: normal to flushing", "event: crashed"} <= reached


def test_an_engine_that_fails_is_a_mistake_of_the_run() -> None:
    script = draw_churn(0)
    script.actions[0].level = "agreed"
    script.actions[0].sizes = (-1,)
    run = run_script(script)
    assert run.mistake == "ValueError: negative count"


def spoil(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document: dict[str, Any] = draw_churn(0).document()
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.pop("format"), "no script of a simulated run"),
        (lambda d: d.pop("processes"), "'processes' is missing"),
        (lambda d: d["groups"].clear(), "a script needs a group"),
        (lambda d: d.update(policy="static"), "one group|there is no"),
        (lambda d: d.update(policy="loose"), "policy 'loose' is none of"),
        (lambda d: d["actions"][0].update(process="nobody"), "action 0 .* 'nobody' is not among the processes"),
        (lambda d: d["actions"][0].update(group="nowhere"), "there is no group 'nowhere'"),
        (lambda d: d["actions"][0].update(kind="dance"), "there is no 'dance' in it"),
        (lambda d: d["actions"][0].update(at_ns=-1), "times run backwards"),
        (lambda d: d["actions"][0].update(level="loud"), "one of the levels"),
        (lambda d: d["actions"][0].update(colour="red"), "colour"),
        (lambda d: d["layers"][0].update(kind="rain"), "there is no layer 'rain'"),
        (lambda d: d["groups"][0]["founders"].append("stranger"), "'stranger', who does not belong there"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(change: Callable[[dict[str, Any]], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        script_of(spoil(change))
