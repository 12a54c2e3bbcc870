"""`antiphon structure`: tables, one JSON document, a plan and a picture; a sentence for what cannot be done."""

import json
from pathlib import Path

import pytest

import antiphon
from antiphon.cli import auditing
from tests.cli.conftest import Run
from tests.pipeline.structure.traffic_samples import record_office


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("office")
    record_office(directory)
    return directory


@pytest.mark.spark
def test_the_tables_tell_overlaps_sequencers_and_domains(run: Run, office: Path, tmp_path: Path) -> None:
    plan, picture = tmp_path / "plan.toml", tmp_path / "picture.svg"
    outcome = run("structure", str(office), "--plan", str(plan), "--picture", str(picture))
    assert outcome.code == 0
    assert "audit · risk" in outcome.out
    assert "dave (views 1 · 1), erin (views 1–2 · 1)" in " ".join(outcome.out.split())
    assert "(orders, quotes)" in outcome.out
    assert "6 groups in 2 connected components; 5 overlapping pairs, 2 of them strong" in outcome.out
    assert "3-bounded" in outcome.out
    assert "measuring" in outcome.err
    assert antiphon.load_plan(plan).domain("chat").name == "audit"
    assert picture.read_text().startswith("<svg")


@pytest.mark.spark
def test_json_is_one_document(run: Run, office: Path) -> None:
    outcome = run("structure", str(office), "--sequencers", "1", "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert document["groups"]["orders"] == {
        "members": ["bob", "carol", "dave"], "messages": 12, "bytes": 120, "ordered": 0,
    }  # fmt: skip
    assert document["overlaps"][0] == {
        "groups": ["audit", "orders"], "strong": False, "members": {"dave": {"audit": [1, 1], "orders": [1, 3]}},
    }  # fmt: skip
    assert document["biconnected"] == [["audit", "orders", "risk"], ["chat", "quotes"], ["orders", "quotes"]]
    assert document["connected"][1] == ["lonely"]
    assert document["bound"] == 3
    assert len(document["sequencers"]) == 1
    assert sorted(map(sorted, document["sequencers"][0]["clusters"])) == [
        ["audit", "risk"], ["chat"], ["lonely"], ["orders", "quotes"],
    ]  # fmt: skip


def test_what_cannot_work_is_refused_before_spark_starts(
    run: Run, office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, complaint in (
        (["--plan", str(tmp_path / "no" / "plan.toml")], "the plan cannot be written to"),
        (["--picture", str(tmp_path)], "the picture cannot be written to"),
        (["--sequencers", "0"], "--sequencers 0 is too few"),
    ):
        outcome = run("structure", str(office), *arguments)
        assert outcome.code == 2
        assert complaint in outcome.err
        assert "starting Spark" not in outcome.err
    assert "there is no such file" in run("structure", str(tmp_path / "none")).err
    monkeypatch.setattr(auditing, "find_spec", lambda name: None if name == "rustworkx" else name)
    assert "pip install 'antiphon[spark]'" in run("structure", str(office)).err
