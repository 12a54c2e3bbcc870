"""The network sliding window: formulas by table, fairness, and members that are silent."""

from collections import deque

import pytest

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.message_graph import MessageGraph
from antiphon.stacks.domain.silence import SilentMembers
from antiphon.stacks.domain.window import REACH, NetworkWindow, pause_ns
from tests.stacks.domain.test_partitionable import STACK, members_of
from tests.table import Table


@pytest.mark.parametrize(
    ("size", "limit", "expected"),
    [
        *[(0, 100, 0), (50, 100, 0), (51, 100, 1_000 // 49), (75, 100, 1_000), (90, 100, 4_000)],
        *[(99, 100, 49_000), (100, 100, NEVER), (150, 100, NEVER), (3, 4, 0), (4, 4, NEVER)],
    ],
)
def test_the_pause_grows_from_half_of_the_limit_on_without_end(size: int, limit: int, expected: int) -> None:
    assert pause_ns(size, limit, 1_000) == expected


def test_a_full_window_blocks_all_but_a_members_share() -> None:
    window = NetworkWindow(4, Options(window_packets=40))
    assert window.is_open(39, 30, 39, 0)
    assert not window.is_open(40, 10, 40, 0)
    assert window.is_open(40, 9, 40, 0)


def test_a_loss_halves_the_limit_once_in_a_while_and_acknowledgements_give_it_back() -> None:
    options = Options(window_packets=64)
    window = NetworkWindow(2, options)
    window.lost(0)
    window.lost(1)
    assert window.limit == 32
    window.lost(options.resend_interval_ns)
    assert window.limit == 16
    for count in range(10):
        window.lost((2 + count) * options.resend_interval_ns)
    assert window.limit == 8
    window.acknowledged(2)
    window.acknowledged(6)
    assert window.limit == 9
    window.acknowledged(1_000)
    assert window.limit == 64


def test_the_limit_grows_slowly_from_half_of_where_something_was_lost_on() -> None:
    options = Options(window_packets=1_000)
    window = NetworkWindow(2, options)
    window.lost(0)
    assert window.limit == 500
    window.acknowledged(500)
    assert 500 < window.limit <= 502
    window.lost(options.resend_interval_ns)
    window.lost(2 * options.resend_interval_ns)
    assert window.limit == 125
    for _ in range(10):
        window.acknowledged(window.limit)
    assert 125 < window.limit <= 150


def test_after_a_node_in_a_long_window_the_next_one_waits() -> None:
    window = NetworkWindow(2, Options(window_packets=40, ack_gap_ns=MILLISECOND_NS))
    window.sent(30, 5)
    assert not window.is_open(30, 30, 30, 5 + MILLISECOND_NS - 1)
    assert window.is_open(30, 30, 30, 5 + MILLISECOND_NS)


def test_what_waits_for_silent_members_alone_does_not_count_until_it_is_too_much() -> None:
    window = NetworkWindow(2, Options(window_packets=40))
    assert window.is_open(0, 0, REACH * 40 - 1, 0)
    assert not window.is_open(0, 0, REACH * 40, 0)


def test_nodes_that_all_but_the_silent_follow_are_overtaken() -> None:
    """Three nodes of 0; 1 follows two of them, 2 none."""
    graph = MessageGraph(3)
    for number in (1, 2, 3):
        graph.attach(0, number, [(0, number - 1)] if number > 1 else [], b"")
    graph.attach(1, 1, [(0, 2)], b"")
    waiting = deque([1, 2, 3])
    silent = SilentMembers(graph)
    silent.settle(0, waiting)
    assert silent.overtaken == [0, 0, 0], "nobody is silent"
    silent.set(frozenset({2}))
    silent.settle(0, waiting)
    assert silent.overtaken == [2, 0, 0]
    waiting.popleft()
    silent.left(0)
    assert silent.overtaken == [1, 0, 0]
    silent.set(frozenset({1}))
    silent.settle(0, waiting)
    assert silent.overtaken == [0, 0, 0], "2 follows nothing"


def test_members_go_on_sending_while_one_is_silent() -> None:
    """p3 is gone; p1 and p2 have filled their windows long before it is given up, and go on, up to a limit."""
    table = Table(3, Options(window_packets=32), policy="partitionable", stack=STACK)
    table.play(300)
    table.crash(2)
    for _ in range(100):
        for member in (0, 1):
            table.send(member, b"m")
        table.play(10)
    assert members_of(table, 0) == ["p1", "p2", "p3"]
    sent = table.engines[0].statistics()["packets_sent"]
    assert sent > 2 * 32
    table.play(2_000)
    assert members_of(table, 0) == ["p1", "p2"]
    assert sorted(table.log[0]) == sorted(table.log[1])
    assert len(table.log[0]) == 200
