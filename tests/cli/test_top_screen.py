"""The screen of `antiphon top` at several widths and heights, and the keys that change it."""

import asyncio
import io
import os
from typing import Any

import pytest
from rich.console import Console

from antiphon.cli.top import TopKeys
from antiphon.cli.top_screen import screen, together
from antiphon.observe.board import READY, UNREACHABLE, Board, BoardView, GroupRow, MemberRow, WaitRow


def event(member: str, time_ns: int, text: str = "2: a, b") -> dict[str, Any]:
    return {"member": member, "time_ns": time_ns, "group": "quotes", "kind": "view", "text": text}


def view_of(members: int) -> BoardView:
    rows = [MemberRow(f"127.0.0.1:{place}", f"member{place:02}", READY, groups=2) for place in range(members)]
    rows[0] = MemberRow("127.0.0.1:0", "member00", UNREACHABLE, "connection refused")
    groups = [
        GroupRow(name, "vector", [2], members, [READY], p99_ms=25, level="agreed") for name in ("quotes", "orders")
    ]
    waits = [WaitRow("quotes", "member01", f"member{place:02}", 40, 12, 0.5, False) for place in range(2, members)]
    return BoardView(rows, groups, waits, [event(row.name, 5) for row in rows])


def drawn(view: BoardView, width: int, height: int, sort: str = "name") -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(screen(view, height, "", sort))
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_columns_are_left_out_rather_than_cut(width: int) -> None:
    lines = drawn(view_of(4), width, 30)
    tables = [line for line in lines if "view 2:" not in line]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(tables)
    text = "\n".join(lines)
    assert "member00: connection refused" in text
    assert "DELIVERED/S" in text
    assert ("STALLS" in text) == (width >= 100)


def test_the_column_sorted_by_stays() -> None:
    assert "LAG MS▾" in "".join(drawn(view_of(4), 80, 30, "lag"))
    assert "UNREAD▾" in "".join(drawn(view_of(4), 80, 30, "unread"))


@pytest.mark.parametrize("height", [24, 40])
def test_many_members_leave_room_for_groups_and_events(height: int) -> None:
    lines = drawn(view_of(60), 80, height)
    assert len(lines) <= height
    text = "\n".join(lines)
    assert f"and {60 - height // 3} more" in text
    assert "orders" in text
    assert "member00, member01" in lines[-1]


def test_one_line_for_what_several_members_tell_of() -> None:
    told = together([event("b", 1), event("a", 2), event("a", 3), event("b", 4, "3: a"), event("b", 9_000_000_000)])
    assert [(line["members"], line["text"]) for line in told] == [
        (["b", "a"], "2: a, b"),
        (["a"], "2: a, b"),
        (["b"], "3: a"),
        (["b"], "2: a, b"),
    ]


def test_keys_that_come_together_and_a_terminal_that_goes() -> None:
    keys = TopKeys(Board([]), asyncio.Event(), "", "name")
    reading, writing = os.pipe()
    try:
        os.write(writing, b"ss?\x1b[C\x1b[5~p")
        keys.read(reading)
        assert (keys.sort, keys.shows_help, keys.is_paused, keys.is_over) == ("behind", True, True, False)
    finally:
        os.close(writing)
    keys.read(reading)
    os.close(reading)
    assert keys.is_over
