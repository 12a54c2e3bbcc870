"""Timestamps: compressed ones say what full ones would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.errors import MalformedError
from antiphon.parts.vector_clock import changes
from antiphon.stacks.vector import timestamp

growth = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=10)
)


@given(growth)
def test_a_stream_of_timestamps_rebuilds_the_vectors(increments: list[list[int]]) -> None:
    members = len(increments[0])
    sent = [0] * members
    rebuilt = [0] * members
    for increment in increments:
        now = [a + b for a, b in zip(sent, increment, strict=True)]
        section = timestamp.encode(changes(sent, now), now)
        assert len(section) <= timestamp.size_max(members)
        assert (section == b"") == (now == sent)
        for rank, count in timestamp.decode(section, members):
            rebuilt[rank] = count
        assert rebuilt == now
        sent = now


def test_the_shorter_form_is_chosen() -> None:
    vector = [9] * 8
    assert len(timestamp.encode([(3, 9)], vector)) == 11
    assert len(timestamp.encode([(rank, 9) for rank in range(8)], vector)) == 65


@pytest.mark.parametrize("section", [b"\x02", b"\x00x", b"\x01" + bytes(15), b"\x00" + bytes([9, 0]) + bytes(8)])
def test_malformed_timestamps(section: bytes) -> None:
    with pytest.raises(MalformedError):
        timestamp.decode(section, 2)
