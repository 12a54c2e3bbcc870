"""The network sliding window: formulas by table, and fairness."""

import pytest

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.stacks.domain.window import NetworkWindow, pause_ns


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
    assert window.is_open(39, 30, 0)
    assert not window.is_open(40, 10, 0)
    assert window.is_open(40, 9, 0)


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
    assert not window.is_open(30, 30, 5 + MILLISECOND_NS - 1)
    assert window.is_open(30, 30, 5 + MILLISECOND_NS)
