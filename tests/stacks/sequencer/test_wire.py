"""Frames as links carry them: the same bytes come out, and what makes no sense is refused before it costs anything."""

from struct import pack

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.stacks.sequencer.wire import (
    MESSAGES_MAX,
    PIECE_BYTES_MAX,
    FrameAssembler,
    FrameReader,
    carried,
    carried_with,
    frame,
    pieces,
)
from tests.stacks.sequencer.service_table import messages_bytes

PAYLOADS = [
    [b"one"],
    [b""] * 3,
    [b"same", b"size"],
    [b"", b"a", b"longer than the others" * 40],
    [bytes([place % 256]) * (place % 7) for place in range(MESSAGES_MAX)],
]


@pytest.mark.parametrize("payloads", PAYLOADS)
def test_messages_are_read_as_they_were_written(payloads: list[bytes]) -> None:
    data = messages_bytes(7, 3, payloads)
    reader = FrameReader(data)
    assert (reader.number(), reader.u8(), reader.payloads()) == (7, 3, payloads)
    assert reader.is_empty()
    passing = FrameReader(data, 9)
    assert passing.pass_payloads() == len(payloads)
    assert passing.is_empty()


@pytest.mark.parametrize(
    "data",
    [
        pack("<II", 0, 0),
        pack("<II", MESSAGES_MAX + 1, 0),
        pack("<II", (1 << 32) - 1, 0),
        pack("<II", 2, 3) + b"short",
        pack("<II", 2, (1 << 32) - 1) + pack("<I", 1),
        pack("<II", 2, (1 << 32) - 1) + pack("<II", 1, 9) + b"short",
        pack("<I", 2),
    ],
)
def test_messages_that_make_no_sense_are_refused(data: bytes) -> None:
    for read in (FrameReader(data).payloads, FrameReader(data).pass_payloads):
        with pytest.raises(MalformedError):
            read()


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES_MAX - 1, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 3 * PIECE_BYTES_MAX])
def test_a_frame_is_the_same_however_it_is_carried(size: int) -> None:
    body = bytes(size)
    expected = frame(5, b"head", body)
    ways = (carried(5, b"head", body), carried_with(5, b"head", b"before" + body, 6), pieces(expected))
    for way in ways:
        assert way == ways[0]
        assert max(len(piece) for piece in way) <= PIECE_BYTES_MAX + 1
    assembler = FrameAssembler(8 * PIECE_BYTES_MAX)
    found = [assembler.take(piece) for piece in ways[0]]
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] is not None
    assert FrameReader(found[-1], 1).rest() == expected
