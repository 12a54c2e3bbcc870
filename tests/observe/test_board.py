"""Several observers side by side: rates, who is slow, and members that are gone."""

from typing import Any

import pytest

from antiphon.observe.board import Board

A, B = "127.0.0.1:1", "127.0.0.1:2"


def document(name: str, second: int, delivered: int, behind: int = 0, view: int = 1, life: int = 1) -> dict[str, Any]:
    other = {"a": "b", "b": "a"}[name]
    peer = {"behind": behind, "silent_ms": 5.0, "strain": 0.1, "is_suspected": False}
    group = {
        "name": "g", "stack": "vector", "state": "ready", "view": view, "sent": {"agreed": delivered},
        "delivered": {"agreed": delivered, "causal": delivered}, "send_waits": delivered, "unread_messages": 3,
        "outbox_messages": 4, "suspicions": 1, "stalls": 0, "stability": {"p99_ms": 7.0},
        "latency": {"agreed": {"p50_ms": 1.0, "p99_ms": 2.0}, "safe": {"p50_ms": 3.0, "p99_ms": 9.0}},
        "members": [{"name": name, "process": f"{name}/{life}"}, {"name": other, "process": f"{other}/1"} | peer],
    }  # fmt: skip
    return {
        "name": name, "process": f"{name}/{life}", "ready": True, "reasons": [], "loop_lag_ms": 1.5,
        "time_ns": second * 1_000_000_000, "groups": [group],
        "events": [{"time_ns": second, "group": "g", "kind": "view", "text": "1: a, b"}],
    }  # fmt: skip


def test_rates_are_differences_of_one_life() -> None:
    board = Board([A, B])
    board.take(A, document("a", 10, 100))
    assert board.view().members[1].delivered_per_s == 0  # 127.0.0.1:2 comes first by name
    board.take(A, document("a", 12, 200))
    row = board.view().members[1]
    assert (row.sent_per_s, row.delivered_per_s, row.waits_per_s) == (50, 100, 50)
    assert (row.unread, row.outbox, row.suspicions, row.lag_ms) == (3, 4, 1, 1.5)
    board.take(A, document("a", 13, 900, life=2))
    assert board.view().members[1].delivered_per_s == 0


def test_the_member_that_others_wait_for_is_named_and_sorted_first() -> None:
    board = Board([A, B])
    board.take(A, document("a", 10, 0, behind=40))
    board.take(B, document("b", 10, 0))
    view = board.view(sort="behind")
    assert [(row.name, row.behind) for row in view.members] == [("b", 40), ("a", 0)]
    assert [(wait.waiting, wait.slow, wait.behind) for wait in view.waits] == [("a", "b", 40)]


def test_groups_show_the_slowest_level_and_views_that_differ() -> None:
    board = Board([A, B])
    board.take(A, document("a", 10, 0, view=1))
    board.take(B, document("b", 10, 0, view=2))
    (row,) = board.view().groups
    assert (row.p50_ms, row.p99_ms, row.level, row.stable_p99_ms) == (3.0, 9.0, "safe", 7.0)
    assert (row.views, row.size, row.suspicions) == ([1, 2], 2, 2)
    assert board.view(group="other").groups == []
    assert board.group_names() == ["g"]


def test_a_member_that_died_is_unreachable_and_keeps_its_name() -> None:
    board = Board([A, B])
    board.take(A, document("a", 10, 0, behind=1))
    board.lose(A, "refused")
    board.lose(B, "refused")
    view = board.view()
    assert [(row.name, row.state, row.why) for row in view.members] == [
        (B, "unreachable", "refused"),
        ("a", "unreachable", "refused"),
    ]
    assert view.groups == []
    assert view.waits == []
    board.take(A, document("a", 20, 0))
    assert [row.state for row in board.view().members] == ["unreachable", "ready"]


def test_a_document_that_is_none_of_an_observer_is_refused() -> None:
    board = Board([A])
    for strange in ({}, {"name": "a"}, document("a", 1, 1) | {"groups": {}}):
        with pytest.raises(ValueError, match="observer"):
            board.take(A, strange)
    assert [row.state for row in board.view().members] == ["unreachable"]
