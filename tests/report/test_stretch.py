"""Which rows the explorer gets."""

from pathlib import Path

import pytest

from antiphon.history.reader import HistoryFiles
from antiphon.report import stretch as stretching
from antiphon.report import survey as surveying
from antiphon.report.contents import contents_of
from antiphon.report.scan import RunScan
from antiphon.report.stretch import Stretch, explorer_data, focus_of, read_stretch
from antiphon.report.survey import Survey, survey
from tests.report.sample import GROUP, MILLISECOND_NS, RUN, Sample, causal_violation, kept


def read(directory: Path, steps_ns: list[int], first: tuple[str, ...] = ()) -> tuple[Survey, Stretch]:
    scan = RunScan(HistoryFiles.open(directory), RUN)
    seen = survey(scan)
    return seen, read_stretch(scan.files, RUN, seen, focus_of(seen, steps_ns, "it"), first)


def busy(*names: str, rounds: int) -> Sample:
    sample = Sample(*names)
    for round_number in range(rounds):
        sample.multicast(names[round_number % len(names)])
    return sample


def test_a_short_run_is_shown_whole(tmp_path: Path) -> None:
    sample = busy("a", "b", rounds=9)
    sample.receive("a", "b", 1)
    sample.stop()
    seen, stretch = read(sample.write(tmp_path), [])
    assert stretch.whole
    assert len(stretch.rows) == len(sample.rows()) - 1, "all but the receive"
    assert explorer_data(stretch, seen, ())["caption"] == f"All {len(stretch.rows)} rows of the run."


def test_of_a_long_run_every_row_between_two_moments_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretching, "EVENTS_MAX", 100)
    monkeypatch.setattr(surveying, "TIMES_MAX", 400)
    sample = busy("a", "b", "c", rounds=500)
    seen, stretch = read(sample.write(tmp_path), [])
    times = [row.time_ns for row in stretch.rows]
    between = [row for row in sample.rows() if min(times) <= row.time_ns <= max(times)]
    assert sorted(row.place for row in stretch.rows) == sorted(row.place for row in between)
    assert 50 <= len(times) <= 100
    middle_ns = (seen.first_ns + seen.last_ns) / 2
    assert min(times) < middle_ns < max(times)
    assert "from its middle" in explorer_data(stretch, seen, ())["caption"]


def test_without_a_violation_the_moment_of_most_change_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretching, "EVENTS_MAX", 100)
    sample = busy("a", "b", "c", rounds=300)
    sample.logs["a"].view(sample.now_ns, GROUP, 2, ["a/1", "b/1", "c/1"])
    for _ in range(100):
        sample.multicast("b")
    changed_ns = sample.now_ns
    for log in sample.logs.values():
        log.view(changed_ns, GROUP, 3, ["a/1", "b/1"])
    for _ in range(300):
        sample.multicast("b")
    _, stretch = read(sample.write(tmp_path), [])
    assert [row.view for row in stretch.rows if row.kind == "view"] == [3, 3, 3]


def test_steps_that_lie_too_far_apart_are_shown_from_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretching, "EVENTS_MAX", 100)
    sample = busy("a", "b", rounds=400)
    late_ns = sample.now_ns - 100 * MILLISECOND_NS
    seen, stretch = read(sample.write(tmp_path), [5 * MILLISECOND_NS, late_ns])
    times = [row.time_ns for row in stretch.rows]
    assert min(times) < late_ns < max(times)
    assert explorer_data(stretch, seen, ())["focus"] == [late_ns - seen.first_ns] * 2


def test_a_burst_that_the_sample_of_times_hides_is_come_closer_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretching, "EVENTS_MAX", 40)
    monkeypatch.setattr(surveying, "TIMES_MAX", 8)
    sample = busy("a", "b", rounds=600)
    _, stretch = read(sample.write(tmp_path), [300 * MILLISECOND_NS])
    assert 10 <= len(stretch.rows) <= 40
    assert abs(stretch.rows[0].time_ns - 300 * MILLISECOND_NS) < 100 * MILLISECOND_NS


def test_of_too_many_processes_those_of_the_steps_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretching, "LANES_MAX", 2)
    sample = Sample("a", "b", "c", "d")
    sample.multicast("c")
    seen, stretch = read(sample.write(tmp_path), [], ("d/1",))
    assert {row.process for row in stretch.rows} == {"c/1", "d/1"}
    assert "2 other processes are left out" in explorer_data(stretch, seen, ())["caption"]


def test_the_steps_of_a_violation_are_marked(tmp_path: Path) -> None:
    sample, finding = causal_violation(filler=300)
    data = contents_of(sample.audit(finding), sample.write(tmp_path)).data["explorer"]
    events = data["events"]
    assert [(data["processes"][events["lane"][row]], events["kind"][row]) for row in data["steps"]] == [
        ("a", "send"), ("b", "deliver"), ("b", "send"), ("c", "deliver"), ("c", "deliver"),
    ]  # fmt: skip


def test_the_run_in_which_most_was_delivered_is_shown(tmp_path: Path) -> None:
    sample = busy("a", "b", rounds=3)
    contents = contents_of(sample.audit(kept("fifo")), sample.write(tmp_path))
    assert contents.run == RUN
    assert contents.examples == {}
