"""The private lane: each message arrives whole, once and in order, over a network that loses, doubles and reorders."""

from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.codec import HEADER_SIZE, seal, unseal
from antiphon.kernel.effects import NEVER
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import PRIVATE, PRIVATE_ACK
from antiphon.stacks.vector import timestamp
from antiphon.stacks.vector.inter_group_order import InterGroupOrder
from antiphon.stacks.vector.private import WINDOW, Arrived, Letter, PrivateLane

OPTIONS = Options(packet_bytes_max=400, message_bytes_max=200_000)
OTHER = ProcessId("b")
EMPTY = b"\x00"
ORDER = InterGroupOrder(CausalityDomain(), Random(0), OPTIONS, 0)


def lane(me: int) -> PrivateLane:
    return PrivateLane(7, 8, 2, me, OPTIONS)


def taken(lane: PrivateLane) -> list[bytes]:
    packets = [packet for _, packet in lane.unicasts]
    lane.unicasts = []
    return packets


def deliver(to: PrivateLane, packets: list[bytes], now_ns: int = 0, waiting: int = 0) -> list[Arrived]:
    """Packets of the one other member arrive, and whatever is whole is delivered."""
    arrived: list[Arrived] = []
    for packet in packets:
        kind, _, _, sender, _, _ = unseal(packet)
        if kind == PRIVATE_ACK:
            to.take_ack(packet, sender, now_ns)
        else:
            letter = to.take(packet, sender, waiting, ORDER)
            if letter is not None:
                to.acknowledge(letter.sender, letter.serial)
                arrived.append(letter)
    return arrived


@pytest.mark.parametrize("seed", range(30))
def test_letters_arrive_once_and_in_order_over_a_bad_network(seed: int) -> None:
    random = Random(seed)
    one, two = lane(0), lane(1)
    sent: list[tuple[int, bytes]] = []
    got: list[tuple[int, bytes]] = []
    now_ns = 0
    for _ in range(400):
        if len(sent) < 6 and one.has_room(1) and random.random() < 0.3:
            payload = random.randbytes(random.choice((0, 5, 1_000, 40_000)))
            sent.append((len(sent) + 1, payload))
            one.send(1, Letter(OTHER, len(sent), payload), EMPTY, now_ns)
        now_ns += OPTIONS.probe_interval_ns
        one.tick(now_ns)
        for source, destination in ((one, two), (two, one)):
            packets = [packet for packet in taken(source) if random.random() < 0.8]
            if random.random() < 0.3:
                packets += packets[: random.randrange(5)]
            if random.random() < 0.1:
                random.shuffle(packets)
            got += [(letter.number, letter.payload) for letter in deliver(destination, packets, now_ns)]
    assert len(sent) == 6
    assert got == sent
    assert not one.letters
    assert (one.to, one.resend_at_ns) == (-1, NEVER)


def test_no_more_than_a_window_is_on_its_way() -> None:
    one, two = lane(0), lane(1)
    one.send(1, Letter(OTHER, 1, bytes(100_000)), EMPTY, 0)
    first = taken(one)
    assert len(first) == WINDOW
    assert not one.has_room(1)
    deliver(two, first)
    acks = taken(two)
    deliver(one, acks[:10])
    assert len(taken(one)) == 10


def test_another_member_has_to_wait_until_all_is_acknowledged() -> None:
    three = PrivateLane(7, 8, 3, 0, OPTIONS)
    three.send(1, Letter(OTHER, 1, b""), EMPTY, 0)
    assert three.has_room(1)
    assert not three.has_room(2)


def test_tries_come_less_often() -> None:
    one = lane(0)
    one.send(1, Letter(OTHER, 1, b"x"), EMPTY, 0)
    waits: list[int] = []
    now_ns = 0
    for _ in range(6):
        waits.append((one.resend_at_ns - now_ns) // OPTIONS.probe_interval_ns)
        now_ns = one.resend_at_ns
        one.tick(now_ns)
    assert waits == [1, 2, 4, 8, 8, 8]


def test_a_letter_is_acknowledged_when_it_is_delivered() -> None:
    one, two = lane(0), lane(1)
    one.send(1, Letter(OTHER, 1, b"x"), EMPTY, 0)
    packets = taken(one)
    letter = two.take(packets[0], 0, 0, ORDER)
    assert letter is not None
    assert two.take(packets[0], 0, 1, ORDER) is None
    assert taken(two) == []
    two.acknowledge(letter.sender, letter.serial)
    deliver(one, taken(two))
    assert not one.letters


def test_parts_of_the_next_letter_do_not_acknowledge_one_that_waits() -> None:
    one, two = lane(0), lane(1)
    one.send(1, Letter(OTHER, 1, b"waits"), EMPTY, 0)
    one.send(1, Letter(OTHER, 2, bytes(1_000)), EMPTY, 0)
    first, *rest = taken(one)
    assert two.take(first, 0, 0, ORDER) is not None
    assert two.take(rest[0], 0, 1, ORDER) is None
    deliver(one, taken(two))
    assert [letter.number for letter in one.letters] == [1, 2]


def test_who_holds_back_too_many_takes_no_more_and_does_not_acknowledge() -> None:
    one, two = lane(0), lane(1)
    one.send(1, Letter(OTHER, 1, b"x"), EMPTY, 0)
    packets = taken(one)
    assert deliver(two, packets, waiting=WINDOW) == []
    assert taken(two) == []
    assert [letter.payload for letter in deliver(two, packets, waiting=WINDOW - 1)] == [b"x"]


def test_a_letter_brings_its_time() -> None:
    one, two = lane(0), lane(1)
    foreign = timestamp.ForeignTime(9, 4, [(2, 5)])
    order = timestamp.encode(timestamp.encode_vector([(0, 3)], [3, 0]), None, [foreign])
    one.send(1, Letter(OTHER, 1, b"x"), order, 0)
    letter = deliver(two, taken(one))[0]
    assert letter.vector == [3, 0]
    assert [(time.group, time.view_id, time.entries) for time in letter.foreign] == [(9, 4, [(2, 5)])]


def test_what_is_too_large_is_given_up() -> None:
    small = Options(packet_bytes_max=400, message_bytes_max=1_000)
    two = PrivateLane(7, 8, 2, 1, small)
    one = lane(0)
    one.send(1, Letter(OTHER, 1, bytes(2_000)), EMPTY, 0)
    one.send(1, Letter(OTHER, 2, b"next"), EMPTY, 0)
    assert [(letter.number, letter.payload) for letter in deliver(two, taken(one))] == [(2, b"next")]


def head(receiver: int, serial: int, message: int, fragment: int, fragments: int, order_bytes: int) -> bytes:
    fields = ((receiver, 2), (serial, 8), (message, 8), (fragment, 4), (fragments, 4), (order_bytes, 2))
    return b"".join(number.to_bytes(size, "little") for number, size in fields)


def test_a_letter_as_it_should_be() -> None:
    """The others below differ from it in one thing each."""
    letter = lane(1).take(seal(1, PRIVATE, 7, 8, 0, 0, 0, [head(1, 1, 1, 0, 1, 1), EMPTY, b"x"]), 0, 0, ORDER)
    assert letter is not None
    assert (letter.number, letter.payload) == (1, b"x")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        head(1, 1, 1, 0, 1, 1)[:-1],
        head(0, 1, 1, 0, 1, 1) + EMPTY,
        head(1, 0, 1, 0, 1, 1) + EMPTY,
        head(1, 1, 0, 0, 1, 1) + EMPTY,
        head(1, 1, 1, 1, 1, 1) + EMPTY,
        head(1, 1, 1, 0, 0, 1) + EMPTY,
        head(1, 1, 1, 0, 1, 0),
        head(1, 1, 1, 0, 1, 2) + EMPTY,
        head(1, 1, 1, 0, 1, 1) + b"\x01",
    ],
    ids=["empty", "short", "another's", "serial", "message", "index", "total", "no order", "beyond the end", "order"],
)
def test_malformed_letters_change_nothing(body: bytes) -> None:
    two = lane(1)
    with pytest.raises(MalformedError):
        two.take(seal(1, PRIVATE, 7, 8, 0, 0, 0, [body]), 0, 0, ORDER)
    assert two.unicasts == []
    one = lane(0)
    one.send(1, Letter(OTHER, 1, b"good"), EMPTY, 0)
    assert [letter.payload for letter in deliver(two, taken(one))] == [b"good"]


@pytest.mark.parametrize(("receiver", "serial"), [(0, 2), (0, 2**64 - 1), (1, 1)])
def test_acknowledgements_of_what_was_never_sent_or_not_by_me_are_malformed(receiver: int, serial: int) -> None:
    one = lane(0)
    one.send(1, Letter(OTHER, 1, b"x"), EMPTY, 0)
    body = receiver.to_bytes(2, "little") + serial.to_bytes(8, "little")
    ack = seal(1, PRIVATE_ACK, 7, 8, 1, 0, 0, [body])
    with pytest.raises(MalformedError):
        one.take_ack(ack, 1, 0)
    with pytest.raises(MalformedError):
        one.take_ack(ack[: HEADER_SIZE + 3], 1, 0)
    assert len(one.letters) == 1
