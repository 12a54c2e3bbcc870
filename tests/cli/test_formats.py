"""`antiphon import` and `antiphon export`: words, exit codes, one JSON document, and nothing half written."""

import json
from pathlib import Path

import pytest

from antiphon.cli.formats import EXPORTS, IMPORTS
from antiphon.history.reader import HistoryFiles
from tests.cli.conftest import Run

SAMPLES = Path(__file__).resolve().parent.parent / "history" / "samples"
FILES = {"cs451": "cs451", "shiviz": "shiviz.log", "jepsen": "jepsen_append.jsonl", "plume": "plume.txt"}


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated run."""
    from antiphon.history.recorder import Recorder
    from antiphon.simulator.run import SimulationOptions, simulate

    directory = tmp_path_factory.mktemp("history")
    options = SimulationOptions(stack="vector", members=3, messages=4, seed=1, faults="loss")
    logs = [Recorder(directory, run="r", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
    return directory


@pytest.mark.parametrize("format", IMPORTS)
def test_each_sample_comes_in(run: Run, tmp_path: Path, format: str) -> None:
    outcome = run("import", "--format", format, str(SAMPLES / FILES[format]), str(tmp_path / "h"))
    assert (outcome.code, "next: antiphon audit" in outcome.out) == (0, True)
    assert HistoryFiles.open(tmp_path / "h").read_rows()[0].run == FILES[format].split(".")[0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["h"]
    assert (tmp_path / "h" / "manifest.json").is_file()


@pytest.mark.parametrize("format", EXPORTS)
def test_a_history_goes_out(run: Run, tmp_path: Path, history: Path, format: str) -> None:
    out = tmp_path / "out"
    outcome = run("export", "--format", format, str(history), str(out))
    assert outcome.code == 0
    assert f"3 logs with {HistoryFiles.open(history).rows} rows are in {out}" in outcome.out
    assert out.stat().st_size > 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_json_is_one_document(run: Run, tmp_path: Path, history: Path) -> None:
    words = ("import", "--format", "cs451", "--run", "mine", "--level", "causal", "--complete", "--json")
    imported = json.loads(run(*words, str(SAMPLES / "cs451"), str(tmp_path / "h")).out)
    assert imported == {
        "format": "cs451", "history": str(tmp_path / "h"), "runs": 1, "logs": 3, "events": 12, "remarks": [],
    }  # fmt: skip
    row = HistoryFiles.open(tmp_path / "h").read_rows()[0]
    assert (row.run, '"causal"' in (row.label or "")) == ("mine", True)
    exported = json.loads(run("export", "--format", "otlp", "--json", str(history), str(tmp_path / "o")).out)
    assert (exported["runs"], exported["logs"], exported["remarks"]) == (1, 3, [])


def test_a_malformed_log_is_refused_and_nothing_is_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "1.output").write_text("b 1\nd 1 1\n")
    (tmp_path / "x" / "2.output").write_text("d 1 1\nd 7 1\n")
    outcome = run("import", "--format", "cs451", str(tmp_path / "x"), str(tmp_path / "h"))
    assert (outcome.code, outcome.out) == (2, "")
    sentence = f"antiphon: {tmp_path / 'x' / '2.output'}, line 2: sender 7 is unknown: there is no 7.output"
    assert sentence in outcome.err.splitlines()
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_failed_export_leaves_the_file_that_was_there(run: Run, tmp_path: Path, history: Path) -> None:
    (tmp_path / "out").write_text("before")
    outcome = run("export", "--format", "shiviz", "--run", "nonesuch", str(history), str(tmp_path / "out"))
    assert outcome.code == 2
    assert "it holds no run 'nonesuch'; it holds r" in outcome.err
    assert (tmp_path / "out").read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_place_that_is_taken_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "mine.txt").touch()
    outcome = run("import", "--format", "cs451", str(SAMPLES / "cs451"), str(tmp_path / "h"))
    assert outcome.code == 2
    assert "exists and is not an empty directory" in outcome.err
    assert [entry.name for entry in (tmp_path / "h").iterdir()] == ["mine.txt"]
    (tmp_path / "h" / "mine.txt").unlink()
    assert run("import", "--format", "cs451", str(SAMPLES / "cs451"), str(tmp_path / "h")).code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("import", "--format", "csv", "x", "h"), "the format 'csv' cannot be imported; choose from: cs451, "),
        (("export", "--format", "csv", "x", "o"), "the format 'csv' cannot be exported; choose from: shiviz, "),
        (("import", "--format", "cs451", "nowhere", "h"), "there is no nowhere; name the log to import"),
        (("import", "--format", "jepsen", "--parser", "x", "nowhere", "h"), "--parser is for shiviz logs"),
        (("import", "--format", "cs451", "--delimiter", "x", "nowhere", "h"), "--delimiter is for shiviz logs"),
        (("import", "--format", "shiviz", "--complete", "nowhere", "h"), "--complete is for cs451 logs"),
        (("import", "--format", "cs451", "--level", "best", ".", "h"), "level 'best' is none that a log can be"),
        (("export", "--format", "otlp", "nowhere", "o"), "nowhere: there is no such file or directory"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"antiphon: {sentence}")
    assert list(tmp_path.iterdir()) == []
