"""isis-1991, claim by claim: sections 4.3 and 5.1 to 5.4. Each test names the claim that it shows."""

from random import Random

import pytest

from antiphon.kernel.codec import unseal
from antiphon.kernel.inputs import Tick
from antiphon.kernel.levels import CAUSAL, FIFO, RELIABLE
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import STATUS
from antiphon.parts.packet import decode_data, decode_status
from antiphon.parts.vector_clock import before
from antiphon.stacks.vector import timestamp
from tests.papers.wire import stamp_of
from tests.table import GROUP, Table


def test_4_3_vector_times_represent_causality_precisely() -> None:
    """m -> m' iff VT(m) < VT(m'): checked against the real "happened before" of a random run."""
    random = Random(7)
    members = 4
    vectors = [[0] * members for _ in range(members)]
    pasts: list[set[int]] = [set() for _ in range(members)]
    messages: list[tuple[int, list[int], set[int]]] = []
    for _ in range(200):
        process = random.randrange(members)
        vectors[process][process] += 1
        messages.append((process, vectors[process].copy(), pasts[process].copy()))
        pasts[process].add(len(messages) - 1)
        receiver = random.randrange(members)
        _, vector, past = heard = messages[random.randrange(len(messages))]
        vectors[receiver] = [max(a, b) for a, b in zip(vectors[receiver], vector, strict=True)]
        pasts[receiver] |= past | {messages.index(heard)}
    for one, (_, vector, _) in enumerate(messages):
        for other, (_, later, past) in enumerate(messages):
            if one != other:
                assert before(vector, later) == (one in past)


def test_5_1_figure_2_a_message_waits_for_what_happened_before_it() -> None:
    """p1 sends m1; p2 delivers it and sends m2; p3 gets m2 first and delays it until m1 is there."""
    table = Table(3)
    table.send(0, b"m1")
    first = table.take_data(0, 2)
    table.pass_on(0, 1)
    table.send(1, b"m2")
    second = table.take_data(1, 2)
    table.arrive(2, *second)
    assert table.log[2] == []
    table.arrive(2, *first)
    assert table.log[2] == ["p1#1", "p2#1"]


def test_5_1_concurrent_messages_are_delivered_as_they_come() -> None:
    """If two CBCASTs are concurrent, neither waits for the other."""
    table = Table(3)
    table.send(0, b"m1")
    table.send(1, b"m2")
    table.pass_on(1, 2)
    assert table.log[2] == ["p2#1"]


def test_5_1_a_process_does_not_delay_its_own_messages() -> None:
    table = Table(3)
    table.send(0, b"m1")
    assert table.log[0] == ["p1#1"]


def test_5_1_two_messages_of_one_sender_keep_their_order() -> None:
    """Safety, case 1."""
    table = Table(2)
    table.send(0, b"m1")
    table.send(0, b"m2")
    first, second = table.take_data(0, 1)
    table.arrive(1, second)
    assert table.log[1] == []
    table.arrive(1, first)
    assert table.log[1] == ["p1#1", "p1#2"]


@pytest.mark.parametrize("seed", range(20))
def test_5_1_a_chain_through_all_members_is_delivered_in_order(seed: int) -> None:
    """Safety, case 2, by induction: however the packets arrive, p5 delivers the chain first to last."""
    table = Table(5)
    late: list[bytes] = []
    for sender in range(4):
        table.send(sender, b"")
        late += table.take_data(sender, 4)
        for other in range(sender + 1, 4):
            table.pass_on(sender, other)
    Random(seed).shuffle(late)
    for packet in late:
        table.arrive(4, packet)
    assert table.log[4] == ["p1#1", "p2#1", "p3#1", "p4#1"]


def test_5_1_liveness_delayed_messages_come_out_once_the_missing_one_arrives() -> None:
    """A lost message is asked for and sent again, and what waited for it follows."""
    table = Table(3)
    table.send(0, b"lost")
    table.take(0, 2)
    table.settle()
    assert table.log[2] == ["p1#1"]


def test_5_1_delivery_updates_the_vector_time() -> None:
    """Step 3: having delivered m1, p2 stamps its next message with it."""
    table = Table(3)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    table.send(1, b"m2")
    assert stamp_of(table.take_data(1, 2)[0], 3) == [(0, 1)]


def test_5_3_a_message_is_stable_once_all_destinations_have_it() -> None:
    table = Table(3)
    table.send(0, b"m")
    table.pass_on(0, 1)
    table.wait(6_000_000)
    table.pass_on(1, 0)
    assert table.engines[0].outstanding(GROUP) == 1
    table.pass_on(0, 2)
    table.wait(6_000_000)
    table.pass_on(2, 0)
    assert table.engines[0].outstanding(GROUP) == 0


def test_5_3_the_stability_number_rides_on_the_next_multicast() -> None:
    table = Table(2)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    table.wait(6_000_000)
    table.pass_on(1, 0)
    table.take(0, 1)
    table.send(0, b"m2")
    packet = table.take_data(0, 1)[0]
    _, _, _, sender, flags, level = unseal(packet)
    assert decode_data(packet, sender, flags, level).stable == 1


def test_5_3_a_stability_message_goes_out_when_there_is_nothing_else_to_send() -> None:
    table = Table(2)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    table.wait(6_000_000)
    table.pass_on(1, 0)
    table.take(0, 1)
    table.wait(6_000_000)
    announced = [decode_status(packet)[0] for packet in table.take(0, 1) if unseal(packet)[0] == STATUS]
    assert 1 in announced


def test_5_3_copies_are_retained_until_stable_and_any_holder_can_resend() -> None:
    """p3 misses a packet of p1, which does not answer; p2 holds a copy and sends the very same bytes."""
    table = Table(3)
    table.send(0, b"m")
    original = table.take_data(0, 2)
    table.pass_on(0, 1)
    table.wait(6_000_000)
    resent: list[bytes] = []
    for _ in range(30):
        for link in ((0, 1), (0, 2), (1, 0), (2, 0)):
            table.take(*link)
        table.pass_on(2, 1)
        for packet in table.take(1, 2):
            if packet in original:
                resent.append(packet)
            table.arrive(2, packet)
        table.wait(20_000_000)
    assert resent
    assert table.log[2] == ["p1#1"]


def test_5_4_lemma_1_only_changed_fields_travel() -> None:
    table = Table(12)
    for sender in (3, 4):
        table.send(sender, b"")
        table.pass_on(sender, 0)
    table.send(0, b"")
    assert stamp_of(table.take_data(0, 1)[0], 12) == [(3, 1), (4, 1)]
    table.send(3, b"")
    table.pass_on(3, 0)
    table.send(0, b"")
    assert stamp_of(table.take_data(0, 1)[0], 12) == [(3, 2)]


def test_5_4_a_burst_carries_no_timestamp_at_all() -> None:
    """A series of messages with nothing received between the sends: all but the first go without."""
    table = Table(3)
    table.send(1, b"")
    table.pass_on(1, 0)
    for _ in range(4):
        table.send(0, b"")
    stamps = [stamp_of(packet, 3) for packet in table.take_data(0, 2)]
    assert stamps == [[(1, 1)], None, None, None]


def test_5_4_a_burst_in_one_call_is_one_packet_with_one_timestamp() -> None:
    table = Table(3)
    table.send(1, b"")
    table.pass_on(1, 0)
    table.send(0, *[b"message"] * 50)
    packets = table.take_data(0, 2)
    assert [stamp_of(packet, 3) for packet in packets] == [[(1, 1)]]
    assert len(table.log[0]) == 51


def test_5_4_naming_fields_is_dropped_where_the_full_vector_is_shorter() -> None:
    """Compression may not be advantageous: then the whole vector travels."""
    table = Table(6)
    for sender in range(1, 6):
        table.send(sender, b"")
        table.pass_on(sender, 0)
    table.send(0, b"")
    packet = table.take_data(0, 1)[0]
    _, _, _, sender, flags, level = unseal(packet)
    order = decode_data(packet, sender, flags, level).order
    assert len(order) == 1 + 6 * 8 < 1 + 2 + 5 * 10
    assert timestamp.OrderSection(order, 6).vector == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]


def test_5_4_an_omitted_field_was_carried_by_an_earlier_message_of_the_sender() -> None:
    """m needs a field that only its predecessor carried: it waits for the predecessor, and through it for m1."""
    table = Table(3)
    table.send(1, b"m1")
    first = table.take_data(1, 2)
    table.pass_on(1, 0)
    table.send(0, b"carries the field")
    table.send(0, b"carries nothing")
    carrier, bare = table.take_data(0, 2)
    assert stamp_of(bare, 3) is None
    table.arrive(2, bare)
    table.arrive(2, carrier)
    assert table.log[2] == []
    table.arrive(2, *first)
    assert table.log[2] == ["p2#1", "p1#1", "p1#2"]


@pytest.mark.parametrize("weaker", [FIFO, RELIABLE])
def test_causality_passes_through_messages_of_weaker_levels(weaker: int) -> None:
    """m1 -> weak -> m3: p3 may see the weak one early, but its causal answer leaves after m1 has come, and makes p4
    wait for m1."""
    table = Table(4)
    table.send(0, b"m1")
    table.pass_on(0, 1)
    late = table.take_data(0, 3)
    table.send(1, b"weak", level=weaker)
    table.pass_on(1, 2)
    table.pass_on(1, 3)
    assert table.log[2] == table.log[3] == ["p2#1"]
    table.send(2, b"m3", level=CAUSAL)
    assert table.take_data(2, 3) == []
    table.pass_on(0, 2)
    table.pass_on(2, 3)
    assert table.log[3] == ["p2#1"]
    table.arrive(3, *late)
    assert table.log[3] == ["p2#1", "p1#1", "p3#1"]


def test_own_messages_wait_for_their_past_where_weaker_ones_ran_ahead_of_it() -> None:
    """m1 -> weak -> own: having delivered the weak one early, a process delivers its own causal answer after m1."""
    table = Table(3)
    table.send(0, b"m1")
    late = table.take_data(0, 2)
    table.pass_on(0, 1)
    table.send(1, b"weak", level=FIFO)
    table.pass_on(1, 2)
    table.send(2, b"own")
    assert table.log[2] == ["p2#1"]
    table.arrive(2, *late)
    assert table.log[2] == ["p2#1", "p1#1", "p3#1"]


def test_5_3_an_idle_member_repeats_its_status() -> None:
    """What a lost stability message said is said again."""
    options = Options()
    table = Table(2, options)
    table.settle()
    table.drop_all()
    table.wait(options.heartbeat_interval_ns)
    assert any(unseal(packet)[0] == STATUS for packet in table.take(0, 1))
    assert table.step(0, Tick()).deadline_ns <= table.now_ns + options.heartbeat_interval_ns
