"""Which rows are chosen to be drawn."""

from collections import Counter

import pytest

from antiphon.pipeline.result import Example, Finding
from antiphon.report.window import busy_window, example_window
from tests.report.sample import GROUP, RUN, Sample, broken, causal_violation


def test_the_stretch_with_an_overtaking_is_chosen() -> None:
    sample = Sample("a", "b", "c")
    for _ in range(100):
        sample.multicast("a")
    first, second = sample.send("b"), sample.send("c")
    sample.deliver("a", "c", second)
    sample.deliver("a", "b", first)
    for _ in range(100):
        sample.multicast("a")
    window = busy_window(sample.rows(), "")
    assert window is not None
    shown = {row.place for row in window.rows}
    assert {sample.index("a", "deliver", first, "b"), sample.index("a", "deliver", second, "c")} <= shown
    assert {sample.index("b", "send", first), sample.index("c", "send", second)} <= shown


def test_a_window_is_small_however_much_there_is() -> None:
    names = [f"p{number}" for number in range(50)]
    sample = Sample(*names)
    for name in names:
        sample.multicast(name)
    window = busy_window(sample.rows(), "")
    assert window is not None
    assert window.processes == 50
    per_process = Counter(row.process for row in window.rows)
    assert len(per_process) == 8
    assert max(per_process.values()) <= 24
    assert 20 < len(window.rows) <= 64
    assert {row.sender for row in window.rows if row.sender is not None} <= per_process.keys()


def test_nothing_sent_is_nothing_to_draw() -> None:
    assert busy_window(Sample("a", "b").rows(), "") is None
    assert busy_window([], "") is None


def test_receives_are_neither_drawn_nor_counted_as_left_out() -> None:
    sample = Sample("a", "b")
    number = sample.send("a")
    sample.receive("b", "a", number)
    sample.deliver("b", "a", number)
    window = busy_window(sample.rows(), "")
    assert window is not None
    assert {row.kind for row in window.rows} == {"view", "send", "deliver"}
    assert window.hidden == {}


def test_a_counterexample_shows_its_steps_in_order_and_what_is_missing() -> None:
    sample, finding = causal_violation()
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert finding.example is not None
    assert window.steps == finding.example.events
    [missing] = window.missing
    assert (missing.process, missing.name) == ("c/1", "a#1")
    assert (missing.process, missing.before) == sample.index("c", "deliver", 1, "b")
    assert missing.late == sample.index("c", "deliver", 1, "a")


def test_a_message_that_never_came_has_no_late_delivery() -> None:
    sample, finding = causal_violation(late=False)
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert [missing.late for missing in window.missing] == [None]


def test_of_a_run_only_the_part_in_question_is_missing() -> None:
    sample = Sample("a", "b", "c")
    sample.send("a", 10)
    sample.deliver("c", "a", 1, 3)
    sample.deliver("b", "a", 1, 6)
    sample.send("b")
    sample.deliver("c", "b", 1)
    finding = broken(
        "causal",
        "",
        sample.index("a", "send", 1),
        sample.index("b", "deliver", 1, "a"),
        sample.index("b", "send", 1),
        sample.index("c", "deliver", 1, "b"),
    )
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert [missing.name for missing in window.missing] == ["a#4–6"]


def test_a_gap_in_one_senders_run_is_missing_up_to_what_was_delivered() -> None:
    sample = Sample("a", "b")
    sample.send("a", 10)
    sample.deliver("b", "a", 1, 3)
    sample.deliver("b", "a", 7, 4)
    steps = [sample.index("a", "send", 1), sample.index("b", "deliver", 7, "a")]
    window = example_window(sample.rows(), broken("fifo", "", *steps))
    assert window is not None
    assert [(missing.name, missing.late) for missing in window.missing] == [("a#4–6", None)]
    sample.deliver("b", "a", 4, 3)
    late = sample.index("b", "deliver", 4, "a")
    window = example_window(sample.rows(), broken("fifo", "", *steps, late))
    assert window is not None
    assert [(missing.name, missing.late) for missing in window.missing] == [("a#4–6", late)]


def test_a_message_delivered_twice_leaves_nothing_missing() -> None:
    sample = Sample("a", "b")
    sample.send("a", 2)
    sample.deliver("b", "a", 2)
    sample.deliver("b", "a", 2)
    place = sample.index("b", "deliver", 2, "a")
    finding = broken("duplication", "", sample.index("a", "send", 2), place, (place[0], place[1] + 1))
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert window.missing == ()


def test_rows_left_out_between_the_steps_are_counted() -> None:
    sample, finding = causal_violation(filler=40)
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert len(window.rows) < 60
    log = sorted((row for row in window.rows if row.process == "b/1"), key=lambda row: row.index)
    hidden = sum(count for (process, _), count in window.hidden.items() if process == "b/1")
    assert hidden == log[-1].index_last - log[0].index + 1 - sum(row.span for row in log)
    assert hidden > 20


def test_an_example_whose_rows_are_gone_is_no_window() -> None:
    sample, _ = causal_violation()
    example = Example(text="", run=RUN, group=GROUP, events=(("nobody/1", 3),))
    finding = Finding(guarantee="causal", verdict="broken", violations=1, unknown=0, checked=1, example=example)
    assert example_window(sample.rows(), finding) is None


@pytest.mark.parametrize("backwards", [False, True])
def test_a_dense_run_is_joined_until_its_arrows_fit(backwards: bool) -> None:
    """Each sends a long burst before anybody delivers: row by row, no window would hold both ends of most arrows."""
    sample = Sample("a", "b", "c")
    for _ in range(6):
        for name in sample.logs:
            for _ in range(60):
                number = sample.send(name)
                sample.deliver(name, name, number)
        for name in sample.logs:
            for other in sorted(set(sample.logs) - {name}, reverse=backwards):
                sample.deliver(name, other, sample.sent[other] - 59, 60)
    window = busy_window(sample.rows(), "")
    assert window is not None
    arrived = {row.sender for row in window.rows if row.kind == "deliver"}
    assert arrived == {"a/1", "b/1", "c/1"}
    assert max(row.count for row in window.rows if row.kind == "send") == 60


def test_what_was_sent_before_a_busy_window_is_left_out_of_it() -> None:
    sample = Sample("a", "b")
    sample.deliver("b", "a", 1)
    sample.deliver("b", "a", 2)
    sample.sent["a"] = 2
    sample.multicast("a")
    window = busy_window(sample.rows(), "")
    assert window is not None
    assert [(row.process, row.number) for row in window.rows if row.carries] == [("a/1", 3), ("b/1", 3)]


def test_receives_between_the_steps_are_not_counted_as_left_out() -> None:
    sample = Sample("a", "b")
    sample.send("a", 2)
    sample.receive("b", "a", 1)
    sample.receive("b", "a", 2)
    sample.deliver("b", "a", 2)
    finding = broken("fifo", "", sample.index("a", "send", 1), sample.index("b", "deliver", 2, "a"))
    window = example_window(sample.rows(), finding)
    assert window is not None
    assert window.hidden == {}
