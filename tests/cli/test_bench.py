"""`antiphon bench` hands its arguments to the programs in the folder `bench`, and says so where there is none."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon import _build
from antiphon.cli.main import app
from antiphon.kernel.errors import UsageError

pytestmark = pytest.mark.processes


def test_a_benchmark_gets_its_arguments_and_its_exit_code_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(app, ["bench", "peers", "--systems", "isis"])
    assert result.exit_code == 2
    assert "there is no system 'isis'" in capfd.readouterr().err


def test_help_is_the_program_s_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert CliRunner().invoke(app, ["bench", "throughput", "--help"]).exit_code == 0
    assert "--profile" in capfd.readouterr().out


def test_json_alone_is_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--order", "causal", "--members", "2", "--repeats", "1", "--seconds", "0.05", "--json"]
    assert CliRunner().invoke(app, ["bench", "throughput", *arguments]).exit_code == 0
    [row] = json.loads(capfd.readouterr().out)["results"]
    assert (row["system"], row["order"], row["members"], row["size"]) == ("antiphon-causal", "causal", 2, 64)


def test_outside_a_checkout_the_benchmarks_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_build, "PACKAGE", tmp_path / "lib" / "antiphon")
    result = CliRunner().invoke(app, ["bench", "peers"])
    assert isinstance(result.exception, UsageError)
    assert "checkout of the sources" in str(result.exception)
