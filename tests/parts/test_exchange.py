"""The exchange: how far its window opens, and when acks leave."""

from random import Random

from antiphon.kernel.codec import unseal
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import DATA, STATUS
from antiphon.parts.ack_budget import AT_ONCE
from antiphon.parts.exchange import Exchange
from antiphon.parts.packet import ORDERED, encode_request
from antiphon.parts.pending import PendingQueue


def make(members: int, me: int = 0, options: Options | None = None) -> Exchange:
    options = options or Options(window_packets=64)
    return Exchange(9, 1, 1, members, me, 0, PendingQueue(options), Random(1), options)


def room(exchange: Exchange, now_ns: int = 0) -> int:
    """How many packets leave before the window is full."""
    sent = 0
    while exchange.window_open():
        exchange.send_bare(b"", 0, 1, now_ns)
        sent += 1
    exchange.table.consumed_by_me = exchange.sent
    return sent


def take(sender: Exchange, receiver: Exchange, packets: list[bytes], now_ns: int) -> None:
    for data in packets:
        kind, _, _, rank, flags, level = unseal(data)
        if kind == DATA:
            packet = receiver.open_data(data, rank, flags | ORDERED, level)
            assert packet is not None
            receiver.add_data(packet, now_ns)
            receiver.consumed(rank, now_ns)
        elif kind == STATUS:
            receiver.take_status(data, rank, flags, now_ns)
    sender.multicasts = []


def test_many_members_share_what_one_can_take_in() -> None:
    options = Options(packet_bytes_max=1000, window_packets=500, arriving_bytes_max=400_000)
    assert room(make(2, options=options)) == 400
    assert room(make(5, options=options)) == 100
    assert room(make(101, options=options)) == 8  # never less, but for a smaller window
    assert room(make(3, options=Options(window_packets=4))) == 4


def test_the_window_is_halved_by_a_loss_and_grows_by_what_becomes_stable() -> None:
    sender, receiver = make(2), make(2, 1)
    assert room(sender) == 64
    packets = sender.multicasts
    request = encode_request(9, 1, 1, 1, 0, [(1, 1)])
    sender.take_request(request, 1, 20 * MILLISECOND_NS)
    sender.take_request(request, 1, 21 * MILLISECOND_NS)  # of the same loss
    take(sender, receiver, packets, 0)
    receiver.settle(0)
    take(receiver, sender, receiver.multicasts, 0)
    sender.settle(0)
    assert room(sender) == 32 + 1 + 4
    for _ in range(10):
        take(sender, receiver, sender.multicasts, 0)
        receiver.request_acks()
        take(receiver, sender, receiver.multicasts, 0)
        sender.settle(0)
        room(sender)
    assert sender.sent - sender.stable == 64


def test_own_packets_are_kept_until_every_member_has_them() -> None:
    sender, receivers = make(3), [make(3, 1), make(3, 2)]
    for _ in range(3):
        sender.send_bare(b"", 0, 1, 0)
    packets = sender.multicasts
    request = encode_request(9, 1, 1, 1, 0, [(1, 3)])
    for receiver, most, stable in ((receivers[0], 3, 0), (receivers[1], 2, 2)):
        take(sender, receiver, packets[:most], 0)
        receiver.request_acks()
        take(receiver, sender, receiver.multicasts, 0)
        sender.settle(0)
        assert sender.stable == stable
        sender.unicasts.clear()  # the answer to the question
        sender.take_request(request, 1, 0)
        assert sender.unicasts.pop(1) == packets[stable:]


def test_an_ack_that_somebody_may_wait_for_leaves_at_once_while_there_is_budget() -> None:
    sender, receiver = make(3), make(3, 1)

    def receive(now_ns: int) -> bool:
        sender.send_bare(b"", 0, 1, now_ns)
        take(sender, receiver, sender.multicasts, now_ns)
        receiver.settle(now_ns)
        receiver.hurry_acks()
        receiver.release_acks(now_ns)
        told, receiver.multicasts = bool(receiver.multicasts), []
        return told

    assert [receive(1_000_000) for _ in range(AT_ONCE + 3)] == [True] * (AT_ONCE + 1) + [False] * 2
    receiver.tick(1_000_000)  # the first heartbeat
    receiver.multicasts = []
    receive(1_000_000)
    assert receiver.deadline_ns() == 1_125_000  # four in each 0.5 ms
    assert receive(1_125_000)
    assert not receive(1_126_000)
    assert [receive(9_000_000) for _ in range(AT_ONCE)] == [True] * AT_ONCE


def test_acks_that_nobody_waits_for_wait_for_company() -> None:
    sender, receiver = make(3), make(3, 1)
    sender.send_bare(b"", 0, 1, 0)
    take(sender, receiver, sender.multicasts, 0)
    receiver.settle(0)
    receiver.release_acks(0)
    assert not receiver.multicasts
    receiver.send_bare(b"", 0, 1, 0)
    receiver.hurry_acks()
    receiver.release_acks(0)
    assert len(receiver.multicasts) == 1, "the ack rode on the packet"
