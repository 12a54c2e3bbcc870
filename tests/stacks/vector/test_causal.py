"""Vector time at one member: the delay rule against the paper's own words, and the rule for sending."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.kernel.levels import CAUSAL, FIFO, RELIABLE
from antiphon.parts.packet import DataPacket, decode_data, encode_data
from antiphon.stacks.vector.causal import CausalOrder

vectors = st.lists(st.integers(0, 3), min_size=3, max_size=3)


def packet(sender: int, number: int, level: int, stamp: list[tuple[int, int]]) -> DataPacket:
    data = encode_data(1, 1, 1, sender, level, number, 0, 1, b"", None, [b""])
    result = decode_data(data, sender, 0, level)
    result.stamp = stamp
    return result


@given(vectors, vectors)
def test_the_delay_rule_is_step_2(delivered: list[int], stamp: list[int]) -> None:
    """For the next packet of p2: every entry but its own is at most what has been delivered."""
    order = CausalOrder(3, 0)
    order.ready = delivered.copy()
    order.delivered = delivered.copy()
    entries = [(rank, stamp[rank]) for rank in (0, 2)]
    expected = stamp[0] <= delivered[0] and stamp[2] <= delivered[2]
    head = packet(1, delivered[1] + 1, CAUSAL, entries)
    assert order.is_ready(head) == expected
    assert order.is_due(CAUSAL, order.vectors[1]) == expected
    assert order.is_due(FIFO, order.vectors[1])


def test_a_causal_message_is_not_sent_while_known_runs_ahead_of_delivered() -> None:
    order = CausalOrder(3, 0)
    assert order.may_send(CAUSAL)
    order.deliver(1, 1, FIFO, [0, 0, 2])
    assert order.known == [0, 1, 2]
    assert not order.may_send(CAUSAL)
    assert order.may_send(FIFO)
    order.deliver(2, 1, CAUSAL, [0, 0, 0])
    assert not order.may_send(CAUSAL)
    order.deliver(2, 2, CAUSAL, [0, 0, 0])
    assert order.may_send(CAUSAL)


def test_nor_while_another_group_has_told_of_what_is_not_here() -> None:
    order = CausalOrder(3, 0)
    order.learn([(1, 1)])
    assert not order.may_send(CAUSAL)
    order.deliver(1, 1, CAUSAL, [0, 0, 0])
    assert order.may_send(CAUSAL)


def test_a_reliable_packet_that_comes_early_raises_what_is_known_and_not_what_is_delivered() -> None:
    order = CausalOrder(3, 0)
    order.deliver_early(packet(1, 3, RELIABLE, [(0, 0), (2, 2)]))
    assert order.known == [0, 3, 2]
    assert order.delivered == [0, 0, 0]
    assert not order.may_send(CAUSAL)


def test_own_packets_never_hold_their_sender_up() -> None:
    order = CausalOrder(3, 0)
    order.sent(1)
    order.sent(2)
    assert order.may_send(CAUSAL)


def test_the_version_rises_with_what_is_known() -> None:
    order = CausalOrder(3, 0)
    before = order.version
    order.deliver(1, 1, CAUSAL, [0, 0, 0])
    assert order.version > before
    before = order.version
    order.learn([(1, 1)])
    assert order.version == before
