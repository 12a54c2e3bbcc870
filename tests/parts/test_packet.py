"""Packets of the stream layer: what goes in comes out, and nothing but MalformedError comes of anything else."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import NUMBER_MAX
from antiphon.parts.packet import (
    LONG_BYTES,
    Acks,
    DataPacket,
    decode_data,
    decode_request,
    decode_status,
    encode_data,
    encode_fragment,
    encode_request,
    encode_status,
)

numbers = st.integers(1, NUMBER_MAX)
acks = st.integers(0, 5).flatmap(
    lambda n: st.builds(
        Acks,
        st.integers(0, 9),
        st.lists(numbers, min_size=n, max_size=n),
        st.lists(st.integers(0, 65535), min_size=n, max_size=n),
    )
)


def same_acks(one: Acks | None, other: Acks | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.first, one.received, one.lags) == (other.first, other.received, other.lags)


def opened(data: bytes) -> DataPacket:
    _, _, _, sender, flags, level = unseal(data)
    return decode_data(data, sender, flags, level)


@given(numbers, numbers, st.binary(max_size=40), acks | st.none(), st.lists(st.binary(max_size=90), min_size=1))
def test_data_round_trip(number: int, message: int, order: bytes, ack: Acks | None, payloads: list[bytes]) -> None:
    data = encode_data(9, 1, 2, 3, 2, number, 4, message, order, ack, payloads)
    packet = opened(data)
    assert packet.number == number
    assert (packet.sender, packet.level, packet.stable, packet.first_message) == (3, 2, 4, message)
    assert packet.order == order
    assert packet.messages() == payloads
    assert same_acks(packet.acks, ack)
    assert packet.fragment_total == 0


@pytest.mark.parametrize(("number", "message"), [(NUMBER_MAX + 1, 1), (1, NUMBER_MAX + 1), (2**64 - 1, 2**64 - 1)])
def test_numbers_that_no_history_could_keep_are_malformed(number: int, message: int) -> None:
    with pytest.raises(MalformedError):
        opened(encode_data(9, 1, 2, 3, 2, number, 4, message, b"", None, [b"a"]))


@pytest.mark.parametrize("lengths", [[5], [LONG_BYTES], [LONG_BYTES, LONG_BYTES - 1], [0, 2 * LONG_BYTES, 7]])
def test_a_packet_whose_messages_were_taken_can_be_sent_again(lengths: list[int]) -> None:
    payloads = [bytes([number]) * length for number, length in enumerate(lengths)]
    data = encode_data(9, 1, 2, 3, 2, 7, 4, 9, b"order", Acks(0, [1, 2], [0, 1]), payloads)
    packet = opened(data)
    taken = packet.take_messages(sum(lengths))
    assert taken == payloads
    taken.clear()  # it is the application's
    assert packet.copy() == data
    assert (not packet.data) == (sum(lengths) >= LONG_BYTES * len(lengths))


@given(numbers, st.binary(max_size=40), acks | st.none(), st.binary(max_size=300), st.integers(0, 9))
def test_fragment_round_trip(number: int, order: bytes, ack: Acks | None, part: bytes, index: int) -> None:
    packet = opened(encode_fragment(9, 1, 2, 3, 2, number, 4, 8, order, ack, index, 10, part))
    assert (packet.fragment_index, packet.fragment_total, packet.fragment()) == (index, 10, part)
    assert packet.order == order
    assert same_acks(packet.acks, ack)


@given(numbers, acks, st.booleans())
def test_status_round_trip(stable: int, ack: Acks, ask: bool) -> None:
    decoded, decoded_acks = decode_status(encode_status(9, 1, 2, 3, stable, ack, ask))
    assert decoded == stable
    assert same_acks(decoded_acks, ack)


@given(st.integers(0, 65535), st.lists(st.tuples(numbers, numbers), max_size=32))
def test_request_round_trip(stream: int, ranges: list[tuple[int, int]]) -> None:
    assert decode_request(encode_request(9, 1, 2, 3, stream, ranges)) == (stream, ranges)


def test_a_request_for_too_many_ranges_is_malformed() -> None:
    with pytest.raises(MalformedError):
        decode_request(encode_request(9, 1, 2, 3, 0, [(1, 1)] * 33))


SAMPLES = [
    encode_data(9, 1, 2, 3, 2, 9, 4, 8, b"order", Acks(0, [1, 2], [0, 1]), [b"one", b"", b"three"]),
    encode_fragment(9, 1, 2, 3, 2, 9, 4, 8, b"order", Acks(0, [1, 2], [0, 1]), 0, 2, b"part"),
    encode_status(9, 1, 2, 3, 4, Acks(0, [1, 2], [0, 1]), True),
    encode_request(9, 1, 2, 3, 0, [(1, 5)]),
]


@pytest.mark.parametrize("data", SAMPLES)
def test_truncated_bodies_raise_nothing_but_malformed(data: bytes) -> None:
    _, _, _, sender, flags, level = unseal(data)
    for length in range(len(data)):
        for decode in (decode_status, decode_request):
            with contextlib.suppress(MalformedError):
                decode(data[:length])
        with contextlib.suppress(MalformedError):
            decode_data(data[:length], sender, flags, level)


@given(st.sampled_from(SAMPLES), st.binary(max_size=80), st.integers(0, 255))
def test_garbage_bodies_raise_nothing_but_malformed(data: bytes, garbage: bytes, flags: int) -> None:
    for decode in (decode_status, decode_request):
        with contextlib.suppress(MalformedError):
            decode(data[:28] + garbage)
    with contextlib.suppress(MalformedError):
        packet = decode_data(data[:28] + garbage, 0, flags, 2)
        packet.messages() if not packet.fragment_total else packet.fragment()
