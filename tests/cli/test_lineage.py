"""`antiphon lineage`: tables, one JSON document, a page, and a sentence for every question that cannot be answered."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from antiphon.cli import auditing
from antiphon.history.recorder import Recorder
from antiphon.kernel.options import Options
from antiphon.simulator.run import SimulationOptions, simulate
from tests.cli.conftest import Run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lineage")
    options = SimulationOptions(
        members=3, messages=10, seed=1, faults="loss", workload="dialogue", options=Options(record_receives=True)
    )
    logs = [Recorder(directory, run="lineage", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
    return directory


@pytest.mark.spark
def test_the_tables_the_document_and_the_page(run: Run, history: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = run("lineage", str(history), "p1#5", "--at", "p2", "--depth", "2", "--picture", str(page))
    assert outcome.code == 0
    assert outcome.out.startswith("simulated:p1#5, causal, sent in view 1")
    assert re.search(r"^ +−1 +simulated:p\d#\d+ .* cause of simulated:p1#5", outcome.out, re.MULTILINE)
    assert re.search(r"^ +\+1 +simulated:p\d#\d+ .* effect of simulated:p1#5", outcome.out, re.MULTILINE)
    assert "p2 delivered simulated:p1#5 (causal)" in outcome.out
    assert re.search(r"^link +\S+ \S+ +on its way from p1 to p2", outcome.out, re.MULTILINE)
    assert "starting Spark" in outcome.err
    _check_page(page)

    document = json.loads(run("lineage", str(history), "p1#5", "--at", "p2", "--depth", "2", "--json").out)
    assert (document["message"], document["run"], document["certain"]) == ("simulated:p1#5", "lineage", True)
    direct = [one["message"] for one in document["relatives"] if one["step"] == -1]
    assert sorted(direct) == sorted(document["causes"])
    assert {one["step"] for one in document["relatives"]} == {-2, -1, 1, 2}
    delivery = document["critical_path"][0]
    assert delivery["exact"]
    assert sum(wait["at_most_ns"] for wait in delivery["waits"]) == delivery["delivered_ns"] - delivery["sent_ns"]

    unknown = run("lineage", str(history), "p7#5")
    assert (unknown.code, unknown.out) == (2, "")
    assert "nobody named 'p7' sent anything; near that are: p1, p2, p3" in unknown.err


def _check_page(page: Path) -> None:
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert text.count("<svg") == text.count("</svg>") >= 3, "two diagrams and a bar"
    assert len(re.findall(r'class="mark send[^"]* origin"', text)) == 2, "on both axes"
    if CHROMIUM:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr")
        profile = f"--user-data-dir={page.parent / 'profile'}"
        command = [CHROMIUM, *flags, profile, "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert "Lineage of simulated:p1#5" in done.stdout
        assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_what_cannot_work_is_refused_before_spark_is_started(
    run: Run, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, problem in (
        ((str(tmp_path / "nothing"), "p1#5"), "there is no such file or directory"),
        ((str(history), "p1#5", "--depth", "0"), "must be at least 1"),
        ((str(history), "p1#5", "--limit", "0"), "must be at least 1"),
        ((str(history), "p1#5", "--picture", str(tmp_path / "no" / "page.html")), "name a file in a directory"),
    ):
        outcome = run("lineage", *arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert problem in outcome.err
        assert "Spark" not in outcome.err
    monkeypatch.setattr(auditing, "find_spec", lambda name: None)
    outcome = run("lineage", str(history), "p1#5")
    assert outcome.code == 2
    assert "pip install 'antiphon[spark]'" in outcome.err


def test_the_help_shows_how(run: Run) -> None:
    outcome = run("lineage", "--help")
    assert outcome.code == 0
    assert "antiphon lineage run1 quotes:alice#42" in outcome.out
