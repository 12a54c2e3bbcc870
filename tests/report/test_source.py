"""What is read of a history on disk for a counterexample, and that it is enough."""

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.report.contents import contents_of
from antiphon.report.window import example_window
from tests.report.sample import Sample, causal_violation, kept


def test_a_counterexample_whose_steps_lie_far_apart_is_drawn_as_from_the_whole_history(tmp_path: Path) -> None:
    sample, finding = causal_violation(filler=800)
    window = contents_of(sample.audit(finding), sample.write(tmp_path)).examples["causal"]
    whole = example_window(sample.rows(), finding)
    assert whole is not None
    assert (window.rows, window.steps, window.missing) == (whole.rows, whole.steps, whole.missing)
    assert window.hidden == whole.hidden


def test_every_broken_guarantee_has_a_picture(tmp_path: Path) -> None:
    sample, finding = causal_violation()
    audit = sample.audit(kept("fifo"), finding, replace(finding, guarantee="total"))
    assert list(contents_of(audit, sample.write(tmp_path)).examples) == ["causal", "total"]


def test_an_audit_that_observed_nothing_has_nothing_to_draw(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    audit = replace(sample.audit(kept("causal")), observations=())
    assert contents_of(audit, sample.write(tmp_path)).run is None


def test_a_history_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableHistoryError, match="nowhere"):
        contents_of(Sample("a").audit(), tmp_path / "nowhere")
