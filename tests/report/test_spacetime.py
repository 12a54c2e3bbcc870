"""The drawing itself, as a tree."""

import xml.etree.ElementTree as ET

import pytest

from antiphon.report.fold import join_own
from antiphon.report.spacetime import spacetime
from antiphon.report.window import Window, example_window
from tests.report.sample import Sample, causal_violation


def elements(svg: ET.Element, *classes: str) -> list[ET.Element]:
    return [element for element in svg.iter() if set(classes) <= set(element.get("class", "").split())]


def title(element: ET.Element) -> str:
    return element.findtext("title", "")


def window_of(sample: Sample, caption: str) -> Window:
    return Window(caption=caption, rows=tuple(join_own(sample.rows())), processes=len(sample.logs))


def example() -> Window:
    sample, finding = causal_violation()
    window = example_window(sample.rows(), finding)
    assert window is not None
    return window


@pytest.mark.parametrize("axis", ["order", "time"])
def test_messages_are_arrows_between_the_marks_of_their_rows(axis: str) -> None:
    sample = Sample("a", "b", "c")
    sample.multicast("a")
    window = window_of(sample, "two arrows")
    svg = ET.fromstring(ET.tostring(spacetime(window, axis)))
    assert svg.get("aria-label") == "two arrows"
    assert [title(arrow) for arrow in elements(svg, "arrow")] == ["a#1 to b, 2.00 ms", "a#1 to c, 3.00 ms"]
    assert len(elements(svg, "mark", "send", "own")) == 1
    assert [title(mark) for mark in elements(svg, "mark", "deliver")] == [
        "b delivered a#1 in quotes (causal), 2.00 ms after it was sent (row 1, +5.00 ms)",
        "c delivered a#1 in quotes (causal), 3.00 ms after it was sent (row 1, +6.00 ms)",
    ]
    assert [name.findtext("text") for name in elements(svg, "name")] == ["a", "b", "c"]
    streams = {element.get("data-stream") for element in svg.iter() if element.get("data-stream") is not None}
    assert len(streams) == 1


def test_members_that_install_one_view_are_joined_by_a_line() -> None:
    sample = Sample("a", "b", "c")
    sample.multicast("a")
    svg = spacetime(window_of(sample, ""), "order")
    [line] = svg.findall(".//polyline")
    assert len(str(line.get("points")).split()) == 3
    assert title(elements(svg, "mark", "view")[0]) == "a installed view 1 in quotes: a, b, c (row 0, +0 ns)"


@pytest.mark.parametrize("axis", ["order", "time"])
def test_a_counterexample_is_numbered_and_its_missing_delivery_drawn(axis: str) -> None:
    svg = spacetime(example(), axis)
    steps = elements(svg, "mark", "step")
    badges = {str(text.text): title(step) for step in steps for text in step.findall("text[@class='badge']")}
    assert [badges[number].split(" in ")[0] for number in sorted(badges)] == [
        "a sent a#1",
        "b delivered a#1",
        "b sent b#1",
        "c delivered b#1",
        "c delivered a#1",
    ]
    [missing] = elements(svg, "mark", "missing")
    assert title(missing) == "c should have delivered a#1 here: delivered only later"
    assert [title(arrow) for arrow in elements(svg, "arrow", "missing")] == ["a#1 to c: not delivered by then"]
    assert [title(arrow).split(",")[0] for arrow in elements(svg, "arrow", "step")] == [
        "a#1 to b",
        "b#1 to c",
        "a#1 to c",
    ]
    assert len(elements(svg, "mark", "late")) == 1


def test_every_arrow_head_that_is_used_is_defined() -> None:
    svg = spacetime(example(), "order")
    defined = {f"url(#{marker.get('id')})" for marker in svg.iter("marker")}
    used = {str(path.get("marker-end")) for path in svg.iter("path") if path.get("marker-end")}
    assert used <= defined
    assert len(used) == 3


def test_a_name_is_text_and_nothing_else() -> None:
    sample = Sample("<script>alert(1)</script>", 'b"\x1b&')
    sample.multicast('b"\x1b&')
    svg = ET.fromstring(ET.tostring(spacetime(window_of(sample, "</svg><script>"), "order")))
    assert svg.find(".//script") is None
    assert svg.get("aria-label") == "</svg><script>"
    assert [title(name) for name in elements(svg, "name")] == ["<script>alert(1)</script>/1", 'b"�&/1']


def test_the_label_of_a_message_is_told_where_it_is_sent() -> None:
    sample = Sample("a", "b")
    sample.logs["a"].send(sample.now_ns + 1, "quotes", 1, 1, 1, "causal", 1, None, "payment 17")
    sample.deliver("b", "a", 1)
    svg = spacetime(window_of(sample, "a label"), "order")
    assert [title(mark) for mark in elements(svg, "mark", "send") if "labelled “payment 17”" in title(mark)]
    assert not [title(mark) for mark in elements(svg, "mark", "deliver") if "labelled" in title(mark)]
