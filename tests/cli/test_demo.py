"""`antiphon demo`, small: real processes, faults, Spark, report."""

from pathlib import Path

import pytest

from antiphon.cli.demo import _new_place
from tests.cli.conftest import Run


@pytest.mark.spark
def test_the_demo_keeps_its_promises_and_writes_a_report(run: Run, tmp_path: Path) -> None:
    outcome = run("demo", "--members", "3", "--messages", "200", "--loss", "0.1", "--directory", str(tmp_path))
    assert outcome.code == 0, outcome.err
    assert "3 processes sent 600 messages and delivered 1,800 of 1,800" in outcome.out
    assert "promises were kept; unchecked, since nothing of the kind happened: " in outcome.out
    logs = {file.name.rpartition("-")[0] for file in (tmp_path / "1" / "history").glob("*.parquet")}
    assert logs == {"p1-1", "p2-1", "p3-1"}
    assert (tmp_path / "1" / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_each_demo_has_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a demo")
    assert _new_place(tmp_path).name == "1"
    assert _new_place(tmp_path).name == "2"


def test_a_demo_of_nobody_is_refused(run: Run, tmp_path: Path) -> None:
    outcome = run("demo", "--members", "0", "--directory", str(tmp_path))
    assert outcome.code == 2
    assert "at least one member" in outcome.err
