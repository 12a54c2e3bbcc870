"""The token: one sequence at all members, whoever holds it, in whatever order packets come in."""

from random import Random

import pytest

from antiphon.kernel.levels import AGREED
from antiphon.parts.packet import ORDERED, DataPacket, decode_data, encode_data
from antiphon.stacks.vector.agreed import AFTER_PACKETS, RUNS_MAX, AgreedOrder
from antiphon.stacks.vector.timestamp import KEEP, Placement


def packet(sender: int, number: int, ordered: bool = False) -> DataPacket:
    data = encode_data(1, 1, 1, sender, AGREED, number, 0, 1, b"", None, [b""])
    return decode_data(data, sender, ORDERED if ordered else 0, AGREED)


def places(order: AgreedOrder) -> list[tuple[int, int]]:
    return [(place.rank, place.number) for place in order.sequence]


def test_the_oldest_holds_the_token_and_tells_runs() -> None:
    holder = AgreedOrder(3, 0)
    for rank, number in ((1, 1), (1, 2), (2, 1), (1, 3)):
        holder.ready(rank, number)
    assert [place.told_in for place in holder.sequence] == [0] * 4
    placement = holder.placement(9, False)
    assert placement is not None
    assert placement.runs == [(1, 1, 2), (2, 1, 1), (1, 3, 1)]
    assert (placement.term, placement.next_holder) == (0, KEEP)
    assert [place.told_in for place in holder.sequence] == [9] * 4
    assert holder.placement(10, False) is None


def test_a_placement_has_room_for_so_many_runs_and_the_next_one_takes_the_rest() -> None:
    holder = AgreedOrder(3, 0)
    for number in range(1, RUNS_MAX + 3):
        holder.ready(1 + number % 2, 2 * number)
    first, second = holder.placement(1, False), holder.placement(2, False)
    assert first is not None
    assert second is not None
    assert (len(first.runs), len(second.runs)) == (RUNS_MAX, 2)
    assert not holder.untold


def test_nobody_else_places() -> None:
    other = AgreedOrder(3, 1)
    other.ready(1, 1)
    assert places(other) == []
    assert other.placement(1, False) is None


def test_a_placement_is_read_when_all_before_it_is_here() -> None:
    other = AgreedOrder(3, 1)
    other.take(packet(0, 2), Placement(0, [(2, 1, 1)]))
    assert not other.read(0, 0)
    assert not other.read(0, 1)
    assert other.read(0, 2)
    assert places(other) == [(2, 1)]
    assert (other.sequence[0].told_by, other.sequence[0].told_in) == (0, 2)


def test_packets_in_place_follow_what_they_tell() -> None:
    other = AgreedOrder(3, 1)
    other.take(packet(0, 1, ordered=True), Placement(0, [(2, 1, 2)]))
    other.read(0, 1)
    assert places(other) == [(2, 1), (2, 2), (0, 1)]


def test_the_token_goes_to_whoever_sent_many_in_a_row_and_takes_the_unplaced_along() -> None:
    holder, busy = AgreedOrder(3, 0), AgreedOrder(3, 1)
    for number in range(1, AFTER_PACKETS + 1):
        holder.ready(1, number)
        busy.ready(1, number)
    busy.ready(2, 1)  # not at the holder yet
    placement = holder.placement(1, False)
    assert placement is not None
    assert placement.next_holder == 1
    assert (holder.holder, holder.term) == (1, 1)
    busy.take(packet(0, 1), placement)
    busy.read(0, 1)
    assert (busy.holder, busy.term) == (1, 1)
    assert places(busy) == [*((1, number) for number in range(1, AFTER_PACKETS + 1)), (2, 1)]
    told = busy.placement(AFTER_PACKETS + 1, False)
    assert told is not None
    assert (told.term, told.runs) == (1, [(2, 1, 1)])


def test_the_first_packet_of_a_term_says_so_even_if_it_places_nothing() -> None:
    busy = AgreedOrder(2, 1)
    busy.take(packet(0, 1), Placement(0, [], 1))
    busy.read(0, 1)
    first = busy.placement(1, True)
    assert first is not None
    assert (first.term, first.runs) == (1, [])
    assert busy.placement(2, True) is None


def test_a_new_holder_is_read_only_after_the_old_one_passed_the_token() -> None:
    third = AgreedOrder(3, 2)
    third.take(packet(1, 1, ordered=True), Placement(1, []))
    third.read(1, 1)
    assert places(third) == []
    third.take(packet(0, 1), Placement(0, [(2, 1, 1)], 1))
    third.read(0, 1)
    assert places(third) == [(2, 1), (1, 1)]


def test_what_a_member_sent_as_holder_of_an_earlier_term_does_not_count_in_a_later_one() -> None:
    """A packet marked as in place, of a member that has the token again but has not yet said so, is not read."""
    third = AgreedOrder(3, 2)
    third.take(packet(0, 1), Placement(0, [], 1))
    third.take(packet(1, 1, ordered=True), Placement(7, []))
    third.read(0, 1)
    third.read(1, 1)
    assert places(third) == []


def test_at_the_end_of_the_view_places_that_were_not_told_are_void() -> None:
    holder = AgreedOrder(3, 0)
    holder.ready(1, 1)
    holder.placement(1, False)
    holder.ready(2, 1)
    holder.close()
    assert places(holder) == [(1, 1)]
    holder.ready(2, 2)
    assert places(holder) == [(1, 1)]
    holder.place_at_end(2, 1)
    assert places(holder) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("seed", range(60))
def test_all_members_read_one_sequence(seed: int) -> None:
    """Packets are sent by all, become ready in different orders, and are read late: in the end all members have one and
    the same sequence, and every packet is in it once."""
    random = Random(seed)
    members = 3
    orders = [AgreedOrder(members, me) for me in range(members)]
    streams: list[list[tuple[Placement | None, bool, bool]]] = [[] for _ in range(members)]
    here = [[0] * members for _ in range(members)]

    def send(me: int, agreed: bool) -> None:
        order = orders[me]
        number = len(streams[me]) + 1
        in_place = agreed and order.holder == me
        placement = order.placement(number, in_place)
        streams[me].append((placement, in_place, agreed))
        if in_place:
            order.sent(number)
        elif agreed:
            order.ready(me, number)

    def receive(me: int, sender: int) -> None:
        if here[me][sender] == len(streams[sender]):
            return
        here[me][sender] += 1
        number = here[me][sender]
        placement, in_place, agreed = streams[sender][number - 1]
        orders[me].take(packet(sender, number, in_place), placement)
        orders[me].read(sender, number)
        if agreed:
            orders[me].ready(sender, number)

    busy = random.randrange(members)
    for _ in range(200):
        me = random.randrange(members)
        if random.random() < 0.4:
            send(busy if random.random() < 0.8 else me, random.random() < 0.7)
        for _ in range(2):
            sender = random.randrange(members)
            if sender != me:
                receive(me, sender)
        if random.random() < 0.05:
            busy = random.randrange(members)
    for _ in range(600):
        for me in range(members):
            if orders[me].untold:
                send(me, False)
            for sender in range(members):
                if sender != me:
                    receive(me, sender)
    expected = {(me, number) for me in range(members) for number, sent in enumerate(streams[me], 1) if sent[2]}
    assert set(places(orders[0])) == expected
    assert len(places(orders[0])) == len(expected)
    assert all(places(order) == places(orders[0]) for order in orders)


def test_who_gets_the_token_places_its_own_first() -> None:
    other = AgreedOrder(3, 1)
    for rank, number in ((2, 1), (1, 1), (0, 5), (1, 2), (2, 2)):
        other.ready(rank, number)
    other.take(packet(0, 6), Placement(0, [(0, 5, 1)], 1))
    assert other.read(0, 6)
    assert places(other) == [(0, 5), (1, 1), (1, 2), (2, 1), (2, 2)]
