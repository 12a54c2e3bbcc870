"""The incoming stream: duplicates, gaps, windows, and copies that are kept until stable."""

from random import Random

import pytest

from antiphon.kernel.effects import NEVER
from antiphon.kernel.options import Options
from antiphon.parts.incoming import IncomingStream
from antiphon.parts.packet import DataPacket, decode_data, encode_data

OPTIONS = Options(window_packets=8)


def packet(number: int) -> DataPacket:
    return decode_data(encode_data(1, 1, 1, 0, 2, number, 0, 1, b"", None, [b""]), 0, 0, 2)


def stream_of(*numbers: int) -> IncomingStream:
    stream = IncomingStream(OPTIONS)
    for number in numbers:
        stream.add(packet(number), 0)
    return stream


@pytest.mark.parametrize(
    ("numbers", "received", "gaps"),
    [
        ((), 0, []),
        ((1, 2, 3), 3, []),
        ((2,), 0, [(1, 1)]),
        ((3, 1), 1, [(2, 2)]),
        ((1, 5, 7), 1, [(2, 4), (6, 6)]),
        ((4, 3, 2, 1), 4, []),
    ],
)
def test_gaps_are_found_by_numbers(numbers: tuple[int, ...], received: int, gaps: list[tuple[int, int]]) -> None:
    stream = stream_of(*numbers)
    assert stream.received == received
    assert stream.gaps() == gaps


def test_gaps_are_found_by_acks() -> None:
    stream = stream_of(1)
    assert stream.gap_at_ns == NEVER
    stream.note_known(4, 100)
    assert stream.gaps() == [(2, 4)]
    assert stream.gap_at_ns == 100 + OPTIONS.gap_delay_ns


def test_requests_come_less_often_until_something_comes() -> None:
    stream = stream_of(3)
    waits = []
    for _ in range(7):
        stream.asked(0, 0)
        waits.append(stream.gap_at_ns // OPTIONS.resend_interval_ns)
    assert waits == [1, 2, 4, 8, 16, 16, 16]
    stream.add(packet(1), 0)
    stream.asked(0, 0)
    assert stream.gap_at_ns == OPTIONS.resend_interval_ns
    stream.add(packet(2), 0)
    assert stream.gap_at_ns == NEVER


def test_numbers_beyond_the_window_are_not_genuine() -> None:
    stream = stream_of(1)
    assert stream.plausible(9)  # one more than the window, for telling the order
    assert not stream.plausible(10)
    stream.consume()
    assert stream.plausible(10)


def test_copies_are_kept_until_stable_and_consumed() -> None:
    stream = stream_of(1, 2, 3)
    stream.note_stable(2)
    assert sorted(stream.packets) == [1, 2, 3]
    stream.consume()
    assert sorted(stream.packets) == [2, 3]
    stream.consume()
    stream.consume()
    assert sorted(stream.packets) == [3]
    stream.note_stable(1)
    stream.note_stable(3)
    assert not stream.packets


@pytest.mark.parametrize("seed", range(50))
def test_any_order_of_arrival_ends_in_the_same_state(seed: int) -> None:
    numbers = list(range(1, 9)) * 2
    Random(seed).shuffle(numbers)
    stream = IncomingStream(OPTIONS)
    taken = 0
    for number in numbers:
        if not stream.is_duplicate(number):
            stream.add(packet(number), 0)
            taken += 1
        missing = set(range(1, stream.known + 1)) - set(stream.packets)
        assert [n for first, last in stream.gaps() for n in range(first, last + 1)] == sorted(missing)
    assert taken == stream.received == 8
