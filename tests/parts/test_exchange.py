"""The exchange: how far its window opens, and when acks leave."""

from random import Random

from antiphon.kernel.codec import unseal
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import DATA, STATUS
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


def test_who_waits_for_all_acks_at_once_but_not_all_the_time() -> None:
    sender, receiver = make(3), make(3, 1)
    for now_ns, told in ((0, True), (100_000, False), (600_000, True)):
        sender.send_bare(b"", 0, 1, now_ns)
        take(sender, receiver, sender.multicasts, now_ns)
        receiver.settle(now_ns)
        receiver.want_acks(True, now_ns)
        assert bool(receiver.multicasts) == told
        receiver.multicasts = []
    sender.send_bare(b"", 0, 1, 700_000)
    take(sender, receiver, sender.multicasts, 700_000)
    receiver.want_acks(True, 700_000)
    assert receiver.deadline_ns() == 1_100_000
