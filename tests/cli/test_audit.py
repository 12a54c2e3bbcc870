"""`antiphon audit`: verdicts as exit codes, one JSON document, and a sentence for every input that is of no use."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antiphon.cli import auditing
from antiphon.history.recorder import Recorder
from antiphon.history.schema import QUIET
from antiphon.simulator.run import SimulationOptions, simulate
from tests.cli.conftest import Run

PROMISES = ("creation", "duplication", "fifo", "causal", "settled")


@pytest.fixture(scope="session")
def kept_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kept")
    options = SimulationOptions(members=3, messages=10, seed=1, faults="all")
    logs = [Recorder(directory, run="kept", process=name) for name in options.process_names()]
    simulate(options, logs)
    for log in logs:
        log.close()
    return directory


@pytest.fixture
def broken_history(tmp_path: Path) -> Path:
    """Two members; the second delivers message 2 of the first before message 1."""
    directory = tmp_path / "broken"
    for name, numbers in (("p1", (1, 2)), ("p2", (2, 1))):
        with Recorder(directory, run="broken", process=name, merge=False) as log:
            log.start(0, "g", "vector", "static", ("causal",), PROMISES)
            log.view(0, "g", 1, ["p1/1", "p2/1"])
            if name == "p1":
                log.send(1, "g", 1, 1, 2, "causal", 20)
            for time_ns, number in enumerate(numbers, start=2):
                log.deliver(time_ns, "g", 1, "p1", 1, number, 1, "causal", 10)
            log.stop(9, QUIET)
    return directory


@pytest.mark.spark
def test_a_kept_history_exits_with_0_and_prints_the_table(run: Run, kept_history: Path) -> None:
    outcome = run("audit", str(kept_history))
    assert outcome.code == 0
    for guarantee in PROMISES:
        assert f"{guarantee} " in outcome.out
    assert "broken" not in outcome.out
    assert "starting Spark" in outcome.err


@pytest.mark.spark
def test_a_broken_history_exits_with_1_and_tells_how_in_json_and_html(
    run: Run, broken_history: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    outcome = run("audit", str(broken_history), "--json", "--report", str(report))
    assert outcome.code == 1
    document = json.loads(outcome.out)
    assert document["verdict"] == "broken"
    assert document["events"] == 2 * 3 + 2 + 4  # start, view and stop of each; 2 sends; 4 deliveries
    assert document["guarantees"]["fifo"]["verdict"] == "broken"
    assert document["guarantees"]["fifo"]["violations"] == 1
    assert "p1#1" in document["guarantees"]["fifo"]["example"]
    assert document["guarantees"]["creation"] == {
        "verdict": "kept", "violations": 0, "roots": 0, "unknown": 0, "checked": 4, "example": None, "reason": None,
    }  # fmt: skip
    assert document["guarantees"]["fifo"]["example"] in report.read_text()


@pytest.mark.spark
def test_an_incremental_audit_says_how_much_it_read(run: Run, broken_history: Path) -> None:
    first, again = (json.loads(run("audit", str(broken_history), "--incremental", "--json").out) for _ in range(2))
    known = {"row_groups": 2, "summarised": 0, "judged": 0, "looked_at": 0, "notes": []}
    assert again.pop("incremental") == known
    assert first.pop("incremental") == known | {"summarised": 2, "judged": 2}
    assert again == first
    (broken_history / ".antiphon-audit" / "state.json").write_text("?")
    outcome = run("audit", str(broken_history), "--incremental")
    assert outcome.code == 1
    assert "Note: what was kept of earlier audits is thrown away: state.json cannot be read." in outcome.out
    assert "Incremental: of 2 row groups, 2 were read as new" in outcome.out


@pytest.mark.spark
def test_only_the_named_promises_are_judged(run: Run, broken_history: Path) -> None:
    outcome = run("audit", str(broken_history), "--promise", "creation, settled", "--json")
    assert outcome.code == 0
    assert list(json.loads(outcome.out)["guarantees"]) == ["creation", "settled"]


@pytest.mark.spark
def test_a_history_with_a_truncated_file_exits_with_3(run: Run, kept_history: Path, tmp_path: Path) -> None:
    shutil.copytree(kept_history, tmp_path / "cut")
    segment = tmp_path / "cut" / "p2-1-00000.parquet"
    segment.write_bytes(segment.read_bytes()[:-100])
    outcome = run("audit", str(tmp_path / "cut"))
    assert outcome.code == 3
    assert "unknown" in outcome.out
    assert "p2/1" in outcome.out


def make_foreign(directory: Path) -> None:
    pq.write_table(pa.table({"price": [91]}), directory / "quotes.parquet")


def make_garbage(directory: Path) -> None:
    (directory / "a-1-00000.parquet").write_bytes(b"not at all")


def make_empty_file(directory: Path) -> None:
    (directory / "a-1-00000.parquet").write_bytes(b"")


@pytest.mark.spark
@pytest.mark.parametrize("spoil", [make_foreign, make_garbage, make_empty_file])
def test_useless_files_exit_with_2_and_a_sentence(run: Run, tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path)
    outcome = run("audit", str(tmp_path), "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"antiphon: {tmp_path}" in outcome.err


@pytest.mark.parametrize("spoil", [lambda directory: None])
def test_useless_input_exits_with_2_and_one_sentence(run: Run, tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path)
    outcome = run("audit", str(tmp_path), "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"antiphon: {tmp_path}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--promise", "fairness"), "'fairness' is no guarantee"),
        (("--promise", ""), "is no guarantee"),
        (("--report", "nowhere/report.html"), "nowhere/report.html; name a file in a directory that exists"),
    ],
)
def test_a_wrong_option_is_refused_before_spark_starts(
    run: Run, kept_history: Path, words: tuple[str, ...], sentence: str
) -> None:
    outcome = run("audit", str(kept_history), *words)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert "starting Spark" not in outcome.err


def test_without_spark_the_extra_is_named(run: Run, kept_history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "find_spec", lambda name: None)
    outcome = run("audit", str(kept_history))
    assert outcome.code == 2
    assert outcome.err == (
        "antiphon: the audit runs on Spark, which is not installed; audit with --quick, or pip install "
        "'antiphon[spark]'\n"
    )


def test_a_quick_audit_gives_the_same_exit_codes_without_spark(
    run: Run, kept_history: Path, broken_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "find_spec", lambda name: None)
    report = tmp_path / "report.html"
    kept = run("audit", str(kept_history), "--quick", "--report", str(report))
    assert kept.code == 0
    assert "Spark" not in kept.err
    assert "<html" in report.read_text()
    broken = run("audit", str(broken_history), "--quick", "--json")
    assert broken.code == 1
    assert json.loads(broken.out)["guarantees"]["fifo"]["violations"] == 1
    refused = run("audit", str(kept_history), "--quick", "--incremental")
    assert refused.code == 2
    assert "leave out --master and --incremental, or --quick" in refused.err


@pytest.mark.processes
def test_a_failure_of_spark_has_an_exit_code_of_its_own(
    run: Run, kept_history: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    outcome = run("audit", str(kept_history))
    assert outcome.code == 4
    assert "holds no bin/java that runs" in outcome.err


def test_a_missing_history_is_named(run: Run, tmp_path: Path) -> None:
    outcome = run("audit", str(tmp_path / "nonesuch"))
    assert outcome.code == 2
    assert "nonesuch" in outcome.err
