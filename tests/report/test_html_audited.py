"""Report and auditor together: the counterexamples that an audit really gives are drawn with what they lack."""

from pathlib import Path

import pytest

from antiphon.pipeline.reference import audit
from antiphon.pipeline.result import BROKEN
from antiphon.report.contents import contents_of
from antiphon.report.html import write_report
from tests.report.sample import Sample, causal_violation


def fifo_violation() -> Sample:
    sample = Sample("a", "b")
    sample.send("a", 9)
    sample.deliver("a", "a", 1, 9)
    sample.deliver("b", "a", 1, 3)
    sample.deliver("b", "a", 6, 4)
    sample.deliver("b", "a", 4, 2)
    sample.stop()
    return sample


def settled_violation() -> Sample:
    sample = Sample("a", "b")
    sample.send("a", 9)
    sample.deliver("a", "a", 1, 9)
    sample.deliver("b", "a", 1, 3)
    sample.stop()
    return sample


def creation_violation() -> Sample:
    sample = Sample("a", "b")
    sample.multicast("a")
    sample.deliver("b", "a", 2)
    sample.stop()
    return sample


def duplication_violation() -> Sample:
    sample = Sample("a", "b")
    sample.multicast("a")
    sample.deliver("b", "a", 1)
    sample.stop()
    return sample


@pytest.mark.parametrize(
    ("guarantee", "sample", "missing", "steps"),
    [
        ("causal", causal_violation()[0], ["a#1"], 5),
        ("causal", causal_violation(late=False)[0], ["a#1"], 4),
        ("fifo", fifo_violation(), ["a#4–5"], 3),
        ("settled", settled_violation(), ["a#4–9"], 2),
        ("creation", creation_violation(), [], 1),
        ("duplication", duplication_violation(), [], 2),
    ],
)
def test_a_violation_is_drawn(guarantee: str, sample: Sample, missing: list[str], steps: int, tmp_path: Path) -> None:
    history = sample.write(tmp_path)
    result = audit(history, promise=[guarantee])
    assert result.verdict == BROKEN
    window = contents_of(result, history).examples[guarantee]
    assert len(window.steps) == steps
    assert [lack.name for lack in window.missing] == missing
    write_report(result, history, tmp_path / "report.html")
    [finding] = result.findings
    assert finding.example is not None
    assert finding.example.text in (tmp_path / "report.html").read_text(encoding="utf-8")
