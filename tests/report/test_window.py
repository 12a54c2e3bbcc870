"""Which rows are chosen to be drawn."""

from antiphon.pipeline.result import Example, Finding
from antiphon.report.window import example_window
from tests.report.sample import GROUP, RUN, Sample, broken, causal_violation


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
