"""What every command has in common: help, version, and failures that end in one sentence and a fixed exit code."""

import pytest

from antiphon import __version__, _build
from antiphon.cli import main as main_module
from tests.cli.conftest import Run


def raise_on_use(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(main_module, "app", fail)


def test_help_teaches_by_example(run: Run) -> None:
    outcome = run("--help")
    assert outcome.code == 0
    assert "antiphon audit run1 --report run1.html" in outcome.out
    for command in ("demo", "sim", "audit"):
        assert f"antiphon {command}" in run(command, "--help").out


def test_the_version_names_the_build(run: Run) -> None:
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out.strip() == f"antiphon {__version__}, {_build.describe()}"


def test_a_misspelt_option_is_named(run: Run) -> None:
    outcome = run("sim", "--histroy", "x")
    assert outcome.code == 2
    assert "--histroy" in outcome.err
    assert outcome.out == ""


def test_an_error_of_the_system_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_use(monkeypatch, PermissionError(13, "Permission denied", "some/place"))
    outcome = run("demo")
    assert (outcome.code, outcome.err) == (2, "antiphon: some/place: Permission denied\n")


def test_a_mistake_of_our_own_never_looks_like_a_verdict(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_on_use(monkeypatch, AssertionError("one log\nper process"))
    outcome = run("demo")
    assert outcome.code == 70
    assert outcome.err.startswith(
        "antiphon: this is a defect of Antiphon, please report it: AssertionError: one log per"
    )
    assert outcome.err.count("\n") == 1
