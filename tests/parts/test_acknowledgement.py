"""The ack table: stability is the least that anyone has received, the window the least that anyone has consumed."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.parts.acknowledgement import AckTable


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 5)), max_size=30))
def test_stable_and_consumed_follow_the_definition(acks: list[tuple[int, int, int]]) -> None:
    table = AckTable(3, 0)
    table.consumed_by_me = 20
    received = {1: 0, 2: 0}
    consumed = {1: 0, 2: 0}
    for member, number, lag in acks:
        lag = min(lag, number)
        table.note(member, 0, [number, 0, 0], [lag, 0, 0])
        received[member] = max(received[member], number)
        consumed[member] = max(consumed[member], number - lag)
    assert table.own_received == min(received.values())
    assert table.consumed() == min(20, *consumed.values())


def test_holders_are_the_others_that_acknowledged() -> None:
    table = AckTable(4, 1)
    table.note(0, 2, [5, 0], [0, 0])
    table.note(2, 0, [0, 0, 9, 0], [0, 0, 0, 0])
    table.note(3, 2, [4, 0], [0, 0])
    assert table.holders(2, 5) == [0, 2]
    assert table.holders(2, 6) == [2]
    assert table.holders(2, 10) == []


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9), st.integers(0, 4)), max_size=30),
)
def test_who_holds_and_has_consumed_what_follows_the_definition(me: int, acks: list[tuple[int, int, int, int]]) -> None:
    """Acks of four members about each other's streams, against plain maxima. Who sent a packet holds it."""
    table = AckTable(4, me)
    received = [[0] * 4 for _ in range(4)]
    consumed = [[0] * 4 for _ in range(4)]
    for member, stream, number, lag in acks:
        if member == me:
            continue
        lag = min(lag, number)
        table.note(member, stream, [number], [lag])
        received[member][stream] = max(received[member][stream], number)
        consumed[member][stream] = max(consumed[member][stream], number - lag)
    others = [member for member in range(4) if member != me]
    for stream in range(4):
        receivers = [other for other in others if other != stream]
        assert table.received_by_others(stream, 5) == min(5, *(received[other][stream] for other in receivers))
        assert table.consumed_by_others(stream, 5) == min(5, *(consumed[other][stream] for other in others))
        for number in range(1, 10):
            holders = [other for other in others if received[other][stream] >= number]
            assert table.holders(stream, number) == holders
            assert table.copies(stream, number) == len([holder for holder in holders if holder != stream])
