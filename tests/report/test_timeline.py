"""Who was in which view when: partitions, merges, crashes and returns, in however long a run."""

from typing import Any

import pytest

from antiphon.report import timeline
from antiphon.report.rows import LogRow
from antiphon.report.timeline import Lives, timeline_data


def view(process: str, time_ns: int, number: int, *members: str) -> LogRow:
    return LogRow(process=process, index=0, time_ns=time_ns, kind="view", group="g", view=number, members=members)


def end(process: str, time_ns: int, kind: str = "stop", label: str = "quiet") -> LogRow:
    return LogRow(process=process, index=9, time_ns=time_ns, kind=kind, label=label)


def data_of(*rows: LogRow) -> dict[str, Any]:
    lives = Lives()
    for row in rows:
        lives.add(row)
    lives.finish()
    [group] = timeline_data(lives, 0)["groups"]
    return dict(group)


def spans(group: dict[str, Any]) -> list[tuple[str, int, int, int | None]]:
    """Lane, from, until, behind."""
    return [(group["lanes"][piece[0]], piece[2], piece[3], piece[6]) for piece in group["pieces"]]


def test_two_sides_of_a_partition_are_in_different_views_and_share_one_after_the_merge() -> None:
    logs: list[LogRow] = []
    for process, side in (("a/1", ("a/1", "b/1")), ("b/1", ("a/1", "b/1")), ("c/1", ("c/1",))):
        logs += [view(process, 0, 1, "a/1", "b/1", "c/1"), view(process, 10, 2, *side)]
        logs += [view(process, 30, 3, "a/1", "b/1", "c/1"), end(process, 50)]
    group = data_of(*logs)
    views = [[piece[4] for piece in group["pieces"] if piece[0] == lane] for lane in range(3)]
    assert views[0] == views[1]
    assert views[2][1] != views[0][1], "the same number with other members is another view"
    assert (views[2][0], views[2][2]) == (views[0][0], views[0][2])


def test_a_process_that_the_others_go_on_without_is_behind_from_then_on() -> None:
    three = ("a/1", "b/1", "c/1")
    group = data_of(
        view("a/1", 0, 1, *three), view("a/1", 20, 2, "a/1", "b/1"), end("a/1", 90),
        view("b/1", 0, 1, *three), view("b/1", 25, 2, "a/1", "b/1"), end("b/1", 90),
        view("c/1", 0, 1, *three), end("c/1", 60, "crash"),
    )  # fmt: skip
    assert spans(group) == [
        ("a", 0, 20, None), ("a", 20, 90, None),
        ("b", 0, 25, None), ("b", 25, 90, None),
        ("c", 0, 60, 20),
    ]  # fmt: skip
    assert [mark[3] for mark in group["marks"]] == ["stop", "stop", "crash"]


def test_incarnations_share_a_lane_unless_they_overlap() -> None:
    group = data_of(
        view("a/1", 0, 1, "a/1"), end("a/1", 10, "crash"), view("a/2", 20, 2, "a/2"), end("a/2", 30),
        view("b/1", 0, 1, "b/1"), end("b/1", 10), view("b/2", 5, 2, "b/2"), end("b/2", 30),
    )  # fmt: skip
    assert group["lanes"] == ["a", "b", "b"]
    assert [piece[0] for piece in group["pieces"]] == [0, 0, 1, 2]


def test_who_leaves_one_group_is_out_of_it_from_then_on() -> None:
    left = LogRow(process="a/1", index=3, time_ns=40, kind="note", group="g", label="left")
    group = data_of(view("a/1", 0, 1, "a/1"), left, end("a/1", 90))
    assert spans(group) == [("a", 0, 40, None)]
    assert [mark[3] for mark in group["marks"]] == ["left", "stop"]


def test_a_log_that_is_cut_short_lasts_until_its_last_row() -> None:
    lives = Lives()
    lives.add(view("a/1", 0, 1, "a/1"))
    lives.seen_until("a/1", 70)
    [group] = timeline_data(lives, 0)["groups"]
    assert spans(group) == [("a", 0, 70, None)]


def test_many_short_views_are_put_together_and_the_long_ones_stay() -> None:
    lives = Lives(pieces_max=40)
    time_ns = 0
    for number in range(1, 5_001):
        lives.add(view("a/1", time_ns, number, "a/1"))
        time_ns += 10_000_000_000 if number == 2_500 else 1_000
    lives.add(end("a/1", time_ns))
    lives.finish()
    data = timeline_data(lives, 0)
    [group] = data["groups"]
    assert len(group["pieces"]) <= 40
    assert sum(piece[5] for piece in group["pieces"]) == 5_000, "each view is counted once"
    assert data["grain_ns"] > 0
    starts, ends = [piece[2] for piece in group["pieces"]], [piece[3] for piece in group["pieces"]]
    assert starts[1:] == ends[:-1]
    longest = max(group["pieces"], key=lambda piece: piece[3] - piece[2])
    assert data["views"][longest[4]]["id"] == 2_500


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "LANES_MAX", 2)
    monkeypatch.setattr(timeline, "LIVES_PER_LANE_MAX", 1)
    monkeypatch.setattr(timeline, "MARKS_MAX", 1)
    monkeypatch.setattr(timeline, "ENDS_MAX", 1)
    lives = Lives()
    for name in ("a", "b", "c"):
        for incarnation in (1, 2):
            lives.add(view(f"{name}/{incarnation}", 10 * incarnation, incarnation, f"{name}/{incarnation}"))
            lives.add(end(f"{name}/{incarnation}", 10 * incarnation + 5, "crash"))
    lives.finish()
    data = timeline_data(lives, 0)
    [group] = data["groups"]
    assert (group["lanes"], group["lanes_left_out"], group["lives_left_out"]) == (["a", "b"], 1, 2)
    assert (len(lives.marks), data["marks_left_out"]) == (2, 4)
