"""The outgoing stream: messages become loads, loads become copies, and the pending queue is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.options import Options
from antiphon.parts.outgoing import OutgoingStream


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.binary(max_size=60), min_size=1, max_size=5)), max_size=8),
    st.integers(30, 80),
)
def test_loads_hold_every_message_once_in_order(sends: list[tuple[int, list[bytes]]], capacity: int) -> None:
    stream = OutgoingStream(Options(), fragment_bytes=20)
    expected: list[tuple[int, bytes]] = []
    for level, payloads in sends:
        stream.accept(payloads, level)
        expected += [(level, payload) for payload in payloads]
    got: list[tuple[int, bytes]] = []
    parts: list[bytes] = []
    while stream.has_pending():
        load = stream.next_load(capacity)
        assert load.first_message == len(got) + 1
        if load.total:
            assert load.index == len(parts)
            assert len(load.fragment) <= 20
            parts.append(load.fragment)
            if load.complete:
                assert load.total == len(parts)
                assert load.complete == [b"".join(parts)]
                parts = []
        else:
            assert sum(len(payload) + 2 for payload in load.complete) <= capacity
        got += [(load.level, payload) for payload in load.complete]
    assert got == expected
    assert stream.pending_bytes == 0
    assert stream.pending_messages() == 0


def test_pending_is_bounded_and_says_when_it_has_room_again() -> None:
    stream = OutgoingStream(Options(pending_bytes_max=100), fragment_bytes=1000)
    count, size = stream.accept([b"x" * 18] * 9, 2)
    assert (count, size) == (5, 5 * 18)
    assert stream.accept([b"y"], 2) == (0, 0)
    assert not stream.take_writable()
    stream.next_load(60)
    assert stream.pending_bytes == 40
    assert stream.take_writable()
    assert not stream.take_writable()


def test_an_oversized_message_is_accepted_into_an_empty_queue() -> None:
    stream = OutgoingStream(Options(pending_bytes_max=10), fragment_bytes=1000)
    assert stream.accept([b"x" * 50, b"y"], 2) == (1, 50)


def test_copies_are_kept_until_stable() -> None:
    stream = OutgoingStream(Options(), fragment_bytes=100)
    for packet in (b"1", b"2", b"3"):
        stream.keep(packet)
    assert stream.note_stable(2)
    assert not stream.note_stable(1)
    assert stream.copies == {3: b"3"}
