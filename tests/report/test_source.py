"""What is read of a history on disk, and that it is enough."""

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.history.errors import UnusableHistoryError
from antiphon.report import source
from antiphon.report.source import window_of
from antiphon.report.window import example_window
from tests.report.sample import Sample, causal_violation, kept


def test_a_counterexample_whose_steps_lie_far_apart_is_drawn_as_from_the_whole_history(tmp_path: Path) -> None:
    sample, finding = causal_violation(filler=1_500)
    window = window_of(sample.audit(finding), sample.write(tmp_path))
    whole = example_window(sample.rows(), finding)
    assert window is not None
    assert whole is not None
    assert (window.rows, window.steps, window.missing) == (whole.rows, whole.steps, whole.missing)
    assert window.hidden == whole.hidden


def test_without_a_counterexample_the_middle_is_drawn(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    for _ in range(500):
        sample.multicast("a")
    sample.now_ns += 3_600_000_000_000  # a pause must not move the middle into nothing
    for _ in range(1_500):
        sample.multicast("a")
    window = window_of(sample.audit(kept("causal")), sample.write(tmp_path))
    assert window is not None
    numbers = [row.number for row in window.rows if row.kind == "send"]
    assert len(numbers) > 10
    assert all(500 < number < 1_500 for number in numbers)


def test_a_short_run_is_drawn_whole(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    sample.multicast("a")
    sample.stop()
    window = window_of(sample.audit(kept("causal")), sample.write(tmp_path))
    assert window is not None
    assert sum(row.span for row in window.rows) == 7


def test_no_more_is_read_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample("a", "b")
    sample.now_ns = 10**9
    for _ in range(300):
        sample.multicast("a")
    monkeypatch.setattr(source, "ROWS_READ_MAX", 20)
    window = window_of(sample.audit(kept("causal")), sample.write(tmp_path))
    assert window is not None
    assert sum(row.span for row in window.rows) <= 20


def test_an_audit_that_observed_nothing_has_nothing_to_draw(tmp_path: Path) -> None:
    sample = Sample("a", "b")
    audit = replace(sample.audit(kept("causal")), observations=())
    assert window_of(audit, sample.write(tmp_path)) is None


def test_a_history_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableHistoryError, match="nowhere"):
        window_of(Sample("a").audit(), tmp_path / "nowhere")
