"""Places in a diagram: what holds for any history, however broken."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.report.layout import lay_out
from antiphon.report.rows import LogRow
from antiphon.report.window import Window

NAMES = ("a/1", "b/1", "c/1")


@st.composite
def any_rows(draw: st.DrawFn) -> list[LogRow]:
    """Rows that need not make sense: clocks disagree, deliveries stand before their sends or without one."""
    rows: list[LogRow] = []
    for process in NAMES:
        for index in range(draw(st.integers(0, 8))):
            kind = draw(st.sampled_from(["send", "deliver", "view"]))
            sender = process if kind == "send" else draw(st.sampled_from(NAMES)) if kind == "deliver" else None
            rows.append(
                LogRow(
                    process=process, index=index, time_ns=draw(st.integers(0, 50)), kind=kind, group="g", sender=sender,
                    number=draw(st.integers(1, 6)), count=draw(st.integers(1, 3)),
                )
            )  # fmt: skip
    return rows


@given(any_rows())
def test_marks_never_overlap_and_no_row_is_lost(rows: list[LogRow]) -> None:
    if not rows:
        return
    layout = lay_out(Window(caption="", rows=tuple(rows), processes=3), "order", left=50)
    assert sorted(mark.row.place for mark in layout.marks) == sorted(row.place for row in rows)
    for lane in range(len(layout.lanes)):
        marks = [mark for mark in layout.marks if mark.lane == lane]
        for one, next_one in pairwise(marks):
            assert one.row.index < next_one.row.index
            assert one.x + one.width / 2 < next_one.x - next_one.width / 2
        assert all(mark.x - mark.width / 2 > 50 and mark.x + mark.width / 2 < layout.width for mark in marks)


def test_arrows_lead_to_the_right_even_if_clocks_disagree() -> None:
    rows = [
        LogRow(process="a/1", index=0, time_ns=900, kind="send", sender="a/1", number=1, count=1),
        LogRow(process="b/1", index=0, time_ns=100, kind="deliver", sender="a/1", number=1, count=1),
        LogRow(process="b/1", index=1, time_ns=110, kind="send", sender="b/1", number=1, count=1),
        LogRow(process="a/1", index=1, time_ns=950, kind="deliver", sender="b/1", number=1, count=1),
    ]
    layout = lay_out(Window(caption="", rows=tuple(rows), processes=2), "order", left=50)
    assert len(layout.arrows) == 2
    assert all(arrow.source.x < arrow.target.x for arrow in layout.arrows)


def test_a_run_that_arrives_in_parts_has_an_arrow_for_each_part() -> None:
    rows = [
        LogRow(process="a/1", index=0, time_ns=1, kind="send", sender="a/1", number=1, count=4),
        LogRow(process="a/1", index=1, time_ns=2, kind="send", sender="a/1", number=5, count=2),
        LogRow(process="b/1", index=0, time_ns=3, kind="deliver", sender="a/1", number=1, count=3),
        LogRow(process="b/1", index=1, time_ns=4, kind="deliver", sender="a/1", number=4, count=3),
    ]
    layout = lay_out(Window(caption="", rows=tuple(rows), processes=2), "order", left=50)
    assert [(arrow.first, arrow.last) for arrow in layout.arrows] == [(1, 3), (4, 4), (5, 6)]


def test_the_time_axis_is_to_scale() -> None:
    rows = [
        LogRow(process="a/1", index=index, time_ns=time_ns, kind="send", sender="a/1", number=index + 1, count=1)
        for index, time_ns in enumerate([1_000, 2_000, 5_000])
    ]
    first, second, third = lay_out(Window(caption="", rows=tuple(rows), processes=1), "time", left=50).marks
    assert abs((third.x - first.x) - 4 * (second.x - first.x)) < 1e-6
