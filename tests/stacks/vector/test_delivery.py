"""What the vector stack hands on at once: messages that need not wait, whatever is missing before them."""

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import FIFO, RELIABLE
from tests.table import GROUP, Table


def test_reliable_messages_do_not_wait_for_earlier_ones() -> None:
    table = Table(2)
    table.send(0, b"1", level=RELIABLE)
    table.send(0, b"2", level=RELIABLE)
    first, second = table.take_data(0, 1)
    table.arrive(1, second)
    assert table.log[1] == ["p1#2"]
    table.arrive(1, first, second)
    assert table.log[1] == ["p1#2", "p1#1"]


def test_fifo_messages_wait_for_earlier_ones_of_their_sender_only() -> None:
    table = Table(3)
    table.send(1, b"")
    table.pass_on(1, 0)
    table.send(0, b"1", level=FIFO)
    table.send(0, b"2", level=FIFO)
    first, second = table.take_data(0, 2)
    table.arrive(2, second)
    assert table.log[2] == []
    table.arrive(2, first)
    assert table.log[2] == ["p1#1", "p1#2"]


def test_reliable_messages_that_came_during_a_pause_are_delivered_after_it() -> None:
    table = Table(2)
    table.step(1, Pause(GROUP))
    for _ in range(3):
        table.send(0, b"", level=RELIABLE)
    _, second, third = table.take_data(0, 1)
    table.arrive(1, second, third)
    table.step(1, Resume(GROUP))
    assert table.log[1] == ["p1#2", "p1#3"]


def test_a_view_whose_timestamp_fits_no_packet_is_refused() -> None:
    with pytest.raises(UsageError, match="packet_bytes_max of at least"):
        Table(200)
