"""`antiphon sim`: the words and the JSON that scripts depend on, and the history it leaves."""

import json
from pathlib import Path

import pytest

from antiphon.stacks.registry import OFFERS
from tests.cli.conftest import Run


def test_a_run_leaves_a_log_per_member(run: Run, tmp_path: Path) -> None:
    outcome = run("sim", "--members", "3", "--messages", "5", "--history", str(tmp_path / "h"))
    assert outcome.code == 0
    assert "3 members sent 15 messages and delivered 45" in outcome.out
    assert len(list((tmp_path / "h").glob("*.parquet"))) == 3


def test_json_is_one_document(run: Run, tmp_path: Path) -> None:
    words = ("--stack", "vector", "--members", "3", "--messages", "4", "--seed", "9", "--faults", "all", "--json")
    outcome = run("sim", *words, "--history", str(tmp_path / "h"))
    assert outcome.code == 0
    document = json.loads(outcome.out)
    told = {name: document[name] for name in ("stack", "members", "messages", "seed", "faults", "sent", "delivered")}
    assert told == {
        "stack": "vector", "members": 3, "messages": 4, "seed": 9, "faults": "all", "sent": 12, "delivered": 36,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--stack", "nonesuch"), "there is no stack 'nonesuch'; the stacks are: STACKS"),
        (("--faults", "some"), "there are no faults 'some'; choose one of: none, loss, all"),
        (("--members", "0"), "a simulated group has 1 to 100 members, not 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    outcome = run("sim", *words, "--history", str(tmp_path / "h"))
    assert (outcome.code, outcome.out, outcome.err) == (
        2,
        "",
        f"antiphon: {sentence.replace('STACKS', ', '.join(OFFERS))}\n",
    )
    assert not (tmp_path / "h").exists()


def test_a_second_run_does_not_mix_into_the_first(run: Run, tmp_path: Path) -> None:
    words = ("sim", "--members", "2", "--messages", "1", "--history", str(tmp_path / "h"))
    assert run(*words).code == 0
    outcome = run(*words)
    assert outcome.code == 2
    assert "choose an empty directory" in outcome.err
