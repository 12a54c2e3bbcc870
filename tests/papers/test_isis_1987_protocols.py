"""isis-1987, section 4: links, the protocols, collection, flush, claim by claim."""

import pytest

from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import MalformedError
from antiphon.kernel.inputs import Pause, Resume
from antiphon.kernel.levels import AGREED, CAUSAL, RELIABLE, SAFE
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import MEMBERSHIP
from antiphon.parts.node_batch import decode_batch, encode_batch
from antiphon.parts.pending import PacketLoad
from antiphon.stacks.label.item import COMMIT, MESSAGES, NOWHERE, PRIORITY, Item, LabelFrame
from antiphon.stacks.label.link import LabelLink
from antiphon.stacks.label.ordering import TotalOrder
from antiphon.stacks.label.pool import MessagePool
from antiphon.stacks.registry import offer
from tests.papers.isis_1987_scene import calm, items_on, members, names_on
from tests.stacks.label.scene import LabelTable, problems, rest
from tests.table import GROUP

FRAME = LabelFrame(PRIORITY, None, 1, 1)


def ordered(sender: int, number: int, clock: int = 1, level: int = AGREED) -> Item:
    """An ordered broadcast to three members."""
    item = Item(MESSAGES, sender, number, clock, NOWHERE, 7, 7, b"", encode_batch(PacketLoad(level, number, [b"m"], 1)))
    item.batch = decode_batch(item.body, 0)
    return item


# ---- 4.1: links ------------------------------------------------------------------------------------------------------


def test_4_1_a_link_takes_datagrams_in_order() -> None:
    link = LabelLink(Options(), 16)
    assert link.take(2, [FRAME, FRAME], 0) == []
    assert len(link.take(1, [FRAME], 0)) == 3


def test_4_1_a_link_takes_each_datagram_once() -> None:
    link = LabelLink(Options(), 16)
    assert link.check(1)
    link.take(1, [FRAME], 0)
    assert not link.check(1)
    assert link.duplicates == 1


def test_4_1_a_gap_is_told_after_a_moment_and_again() -> None:
    link = LabelLink(Options(), 16)
    link.take(3, [], 0)
    assert link.gap_at_ns == Options().gap_delay_ns
    assert link.missing() == [(1, 2)]
    link.told_status(0, link.gap_at_ns)
    assert link.gap_at_ns > Options().gap_delay_ns


def test_4_1_sent_means_acknowledged() -> None:
    link = LabelLink(Options(), 16)
    item = ordered(0, 1)
    link.put(b"packet", [item], 0)
    assert link.on_the_way() == 1
    assert link.take_ack(1, 0) == [item]
    assert link.on_the_way() == 0


def test_4_1_sent_also_means_that_the_failure_protocol_has_begun() -> None:
    """Whoever waits for a member that has failed waits for the next view and no longer."""
    table = members(3, "primary")
    table.crash(2)
    table.tell(0, CAUSAL)
    assert table.outstanding(0) == 1
    rest(table)
    assert table.outstanding(0) == 0


def test_4_1_the_window_is_bounded() -> None:
    link = LabelLink(Options(), 1)
    for number in range(link.copies_max):
        assert link.has_room()
        link.put(b"%d" % number, [], 0)
    assert not link.has_room()
    with pytest.raises(MalformedError):
        link.check(5 * link.copies_max)


def test_4_1_hello_messages_show_that_a_site_lives() -> None:
    table = members(2)
    calm(table, 30)
    table.drop_all()
    table.wait(30 * MILLISECOND_NS)
    assert table.links[0, 1]
    assert table.links[1, 0]


def test_4_1_who_says_nothing_is_taken_to_have_failed() -> None:
    table = members(3, "primary")
    for other in (0, 1):
        table.cut(2, other)
    table.play(800)
    assert table.story[0][-1] == "2: p1 p2"


def test_4_1_who_is_killed_learns_that_it_is_dead() -> None:
    table = members(3, "primary")
    for other in (0, 1):
        table.cut(2, other)
        table.cut(other, 2)
    table.play(800)
    table.mend()
    table.play(600)
    assert 2 in table.gone  # excluded: it was told


def test_4_1_messages_of_a_former_incarnation_are_discarded() -> None:
    table = members(3, "primary")
    table.tell(2, CAUSAL)
    old = table.take(2, 0)
    table.drop_all()
    table.crash(2)
    rest(table)
    table.arrive(0, *old)
    assert "p3#1" not in table.log[0]


# ---- 4.2: views ------------------------------------------------------------------------------------------------------


def test_4_2_every_member_goes_through_the_same_views() -> None:
    table = members(5, "primary")
    table.crash(4)
    table.play(150)
    table.crash(0)
    rest(table)
    views = [[line for line in story if ": " in line] for story in table.story]
    assert views[1] == views[2] == views[3]
    assert views[1][-1].endswith("p2 p3 p4")


def test_4_2_the_oldest_leads_and_the_next_takes_over() -> None:
    table = members(4, "primary")
    table.crash(3)
    table.crash(0)
    rest(table)
    assert table.views[1][GROUP].members == (table.processes[1], table.processes[2]) or table.session(1).cut.frozen


@pytest.mark.parametrize("effect", range(1, 60, 4))
def test_4_2_a_new_leader_takes_over_at_every_step(effect: int) -> None:
    table = LabelTable(4, {effect})
    table.crash(3)
    table.tell(0, AGREED)
    table.tell(1, CAUSAL)
    rest(table)
    assert problems(table) == []


def test_4_2_two_that_think_each_other_dead_do_not_both_go_on() -> None:
    table = members(5, "primary")
    table.cut(0, 1)
    table.cut(1, 0)
    table.tell(0, AGREED)
    table.tell(1, AGREED)
    table.play(800)
    table.mend()
    rest(table, 2000)
    assert problems(table) == []


def test_4_2_a_minority_stands_still() -> None:
    table = members(5, "primary")
    for cut_off in (3, 4):
        for other in (0, 1, 2):
            table.cut(cut_off, other)
            table.cut(other, cut_off)
    table.play(800)
    assert table.views[3][GROUP].id == 1
    assert table.views[0][GROUP].id == 2


# ---- 4.3.1: ABCAST ---------------------------------------------------------------------------------------------------


def test_4_3_1_a_recipient_assigns_a_priority_above_all_it_has_seen() -> None:
    order = TotalOrder(1, 3)
    first = order.add(ordered(0, 1))
    order.see(40)
    assert order.add(ordered(2, 1)) > 40 > first


def test_4_3_1_the_sender_takes_the_highest() -> None:
    order = TotalOrder(0, 3)
    order.add(ordered(0, 1))
    order.answer(1, 1, 9)
    assert order.commits == []
    order.answer(1, 2, 4)
    assert order.commits == [(1, (9, 1))]


def test_4_3_1_no_two_priorities_are_equal() -> None:
    order = TotalOrder(0, 3)
    order.add(ordered(0, 1))
    order.answer(1, 1, 9)
    order.answer(1, 2, 9)
    assert order.commits == [(1, (9, 2))]


def test_4_3_1_what_is_final_waits_for_what_may_come_before_it() -> None:
    order = TotalOrder(1, 3)
    order.add(ordered(0, 1))
    order.add(ordered(2, 1))
    order.commit((2, 1), (5, 2))
    order.advance()
    assert order.ready == []
    order.commit((0, 1), (8, 0))
    order.advance()
    assert [(item.sender, item.number) for item in order.ready] == [(2, 1), (0, 1)]


def test_4_3_1_two_rounds_and_the_commit_make_three_messages_to_each() -> None:
    table = members(3)
    table.tell(0, AGREED)
    table.pass_all()
    table.pass_all()
    assert [item.kind for item in items_on(table, 0, 1)] == [COMMIT]
    table.pass_all()
    assert table.log[0] == table.log[1] == table.log[2] == ["p1#1"]


@pytest.mark.parametrize("effect", range(1, 24))
def test_4_3_1_participants_complete_what_a_failed_sender_began(effect: int) -> None:
    table = LabelTable(3, {effect})
    table.tell(0, AGREED)
    table.tell(1, AGREED)
    rest(table)
    assert problems(table) == []


def test_4_3_1_what_is_delivered_anywhere_is_delivered_everywhere() -> None:
    table = members(3, "primary")
    table.tell(0, AGREED)
    for _ in range(2):
        table.pass_all()
    table.pass_on(0, 1)
    assert table.log[1] == ["p1#1"]
    table.drop_all()
    table.crash(0)
    rest(table)
    assert table.log[2] == ["p1#1"]


# ---- 4.3.2: CBCAST ---------------------------------------------------------------------------------------------------


def test_4_3_2_what_precedes_travels_along_even_to_others() -> None:
    table = members(3)
    table.tell(0, CAUSAL, [1, 2])
    table.pass_on(0, 1)
    table.tell(1, CAUSAL, [0, 2])
    assert names_on(table, 1, 2) == ["p1.1", "p2.1"]


def test_4_3_2_a_message_travels_by_way_of_processes_it_is_not_for() -> None:
    """p1 to p4; p1 to p2; p2 to p3; p3 to p4: what p1 sent comes with it."""
    table = members(4)
    table.tell(0, CAUSAL, [3])
    table.tell(0, CAUSAL, [1])
    table.pass_on(0, 1)
    table.tell(1, CAUSAL, [2])
    table.pass_on(1, 2)
    table.tell(2, CAUSAL, [3])
    table.pass_on(2, 3)
    assert table.log[3] == ["private p1#1", "private p3#1"]
    assert table.log[1] == ["private p1#2"]


def test_4_3_2_copies_that_come_twice_are_discarded() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    table.pass_on(1, 2)
    table.pass_on(0, 2)
    assert table.log[2] == ["p1#1", "p2#1"]
    assert table.statistics(2)["broadcasts_twice"] == 1


def test_4_3_2_the_sender_delivers_its_own_at_once() -> None:
    table = members(2)
    table.tell(0, CAUSAL)
    assert table.log[0] == ["p1#1"]


def test_4_3_2_remaining_destinations_shrink_with_acknowledgements() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    item = table.session(0).pool.copies[0, 1]
    assert item.remaining == 0b110
    table.pass_on(0, 1)
    table.wait(6 * MILLISECOND_NS)
    table.pass_on(1, 0)
    assert item.remaining == 0b100


def test_4_3_2_nothing_is_sent_to_the_same_member_twice() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    table.tell(1, CAUSAL)
    assert names_on(table, 1, 2) == ["p1.1", "p2.1", "p2.2"]


def test_4_3_2_what_all_destinations_have_is_not_carried() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    calm(table)
    table.tell(1, CAUSAL)
    assert names_on(table, 1, 2) == ["p2.1"]


def test_4_3_2_a_packet_keeps_the_order_of_its_messages() -> None:
    table = members(3)
    for sender in (0, 1, 0):
        table.tell(sender, CAUSAL)
        table.pass_on(0, 1)
        table.pass_on(1, 0)
    table.links.pop((0, 2), None)
    table.tell(1, CAUSAL)
    table.pass_on(1, 2)
    assert table.log[2] == ["p1#1", "p2#1", "p1#2", "p2#2"]


def test_4_3_2_transfer_packets_may_be_longer_than_a_datagram() -> None:
    """What has come of one is closed under causality, so its first datagrams need not wait for the last."""
    table = members(3)
    for _ in range(4):
        table.tell(0, CAUSAL, size=900)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL, size=900)
    packets = table.take_data(1, 2)
    assert len(packets) == 5
    for count, packet in enumerate(packets):
        table.arrive(2, packet)
        assert len(table.log[2]) == count + 1
    assert table.log[2][-1] == "p2#1"


def test_4_3_2_transfer_packets_differ_by_destination() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    assert names_on(table, 1, 0) == ["p2.1"]
    assert names_on(table, 1, 2) == ["p1.1", "p2.1"]


def test_4_3_2_the_protocol_is_atomic_if_the_sender_dies_after_one_destination() -> None:
    table = LabelTable(4, {2})
    table.tell(0, CAUSAL)
    assert 0 in table.gone
    rest(table)
    assert table.log[1] == table.log[2] == table.log[3] == ["p1#1"]


# ---- 4.3.3: GBCAST ---------------------------------------------------------------------------------------------------


def test_4_3_3_messages_of_the_failed_are_flushed_to_all_before_its_failure() -> None:
    table = members(4, "primary")
    for _ in range(3):
        table.tell(3, CAUSAL)
    table.pass_on(3, 1)
    table.drop_all()
    table.crash(3)
    rest(table)
    assert table.story[0] == table.story[1] == table.story[2]
    assert table.story[0][1:4] == ["p4#1", "p4#2", "p4#3"]


@pytest.mark.parametrize("effect", range(1, 70, 3))
def test_4_3_3_any_participant_completes_a_gbcast(effect: int) -> None:
    table = LabelTable(4, {effect})
    table.tell(1, AGREED)
    table.tell(0, CAUSAL)
    table.barrier(0)
    table.tell(2, CAUSAL)
    table.tell(3, SAFE)
    rest(table)
    assert problems(table) == []


def test_4_3_3_pending_broadcasts_come_before_a_gbcast_that_lets_somebody_in() -> None:
    """The view is locked while it grows: what was sent in the old view is delivered in it, by its members alone."""
    table = LabelTable(3, founders=2)
    table.come(2, GROUP, 0)
    for _ in range(3):
        table.tell(0, AGREED)
    rest(table)
    assert problems(table) == []


def test_4_3_3_nothing_new_is_begun_while_a_gbcast_is_under_way() -> None:
    table = members(2, "primary")
    table.barrier(0)
    table.tell(0, CAUSAL)
    assert table.log[0] == []
    rest(table)
    assert table.log[0] == ["barrier p1#1", "p1#2"]


def test_4_3_3_a_gbcast_is_two_rounds_after_the_flush() -> None:
    """By count, on a calm network: everybody says what it holds, then accepts what is proposed, then installs it."""
    table = members(3, "primary")
    calm(table)
    table.barrier(0)
    rounds = 0
    while "barrier p1#1" not in table.log[1] and rounds < 50:
        packets = [each for waiting in table.links.values() for each in waiting]
        rounds += any(unseal(packet)[0] == MEMBERSHIP for packet in packets)
        table.pass_all()
        if not table.links:
            table.wait(MILLISECOND_NS)
    assert rounds == 5  # collect and answer, propose and answer, install


# ---- 4.4: collection -------------------------------------------------------------------------------------------------


def test_4_4_what_has_no_remaining_destinations_is_collected() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    assert len(table.session(0).pool.copies) == 1
    calm(table)
    assert [len(table.session(each).pool.copies) for each in range(3)] == [0, 0, 0]
    assert table.session(2).pool.collected == [1, 0, 0]


def test_4_4_a_copy_that_comes_after_collection_is_a_duplicate() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    table.pass_on(0, 1)
    table.tell(1, CAUSAL)
    late = table.take(1, 2)
    calm(table, 8)
    table.arrive(2, *late)
    calm(table)
    assert table.log[2].count("p1#1") == 1


def test_4_4_nothing_is_collected_that_waits_somewhere() -> None:
    table = members(3)
    table.step(2, Pause(GROUP))
    table.tell(0, CAUSAL)
    calm(table)
    assert table.session(0).pool.collected[0] == 0
    table.step(2, Resume(GROUP))
    calm(table)
    assert table.session(0).pool.collected[0] == 1


def test_4_4_ids_are_one_number_for_each_sender() -> None:
    pool = MessagePool(0, 2, 16)
    for number in range(1, 2001):
        pool.add(ordered(1, number), 1)
        pool.collect(1, number)
    assert pool.copies == {}
    assert pool.has((1, 1234))
    assert not pool.has((1, 2001))
    assert sum(map(len, pool.queues)) == 0


def test_4_4_the_store_stays_bounded() -> None:
    """A sender waits when `window` of its broadcasts are not collected."""
    table = members(2)
    for _ in range(200):
        table.tell(0, CAUSAL)
    window = 16
    assert len(table.session(0).pool.copies) == window
    calm(table, 200)
    assert len(table.log[1]) == 200
    assert table.session(1).pool.copies == {}


def test_4_4_nobody_can_fill_the_store_of_another() -> None:
    pool = MessagePool(0, 2, 16)
    assert pool.exists(1, pool.numbers_max)
    assert not pool.exists(1, pool.numbers_max + 1)


# ---- 4.5: flush, and 5.4: piggybacking -------------------------------------------------------------------------------


def test_4_5_flush_is_over_when_copies_have_been_sent() -> None:
    table = members(3)
    table.tell(0, CAUSAL)
    engine = table.engines[0]
    assert engine.outstanding(GROUP) == 1
    calm(table)
    assert engine.outstanding(GROUP) == 0


def test_5_1_an_update_is_complete_when_the_local_one_is() -> None:
    table = members(6)
    table.tell(0, CAUSAL)
    assert table.log[0] == ["p1#1"]
    calm(table)
    assert all(log == ["p1#1"] for log in table.log)


@pytest.mark.parametrize("updates", [1, 4, 16])
def test_5_4_messages_share_packets_as_load_rises(updates: int) -> None:
    table = members(2, lazy_us=2000)
    for _ in range(updates):
        table.tell(0, CAUSAL)
    table.wait(3 * MILLISECOND_NS)
    assert len(table.take_data(0, 1)) == 1


def test_5_4_the_response_does_not_depend_on_the_number_of_sites() -> None:
    """The critical path of an asynchronous update has no message in it, however many members there are; that of a
    synchronous one has a round trip."""
    for count in range(2, 7):
        table = members(count)
        table.tell(0, CAUSAL)
        assert table.log[0] == ["p1#1"]
        table.tell(0, RELIABLE)
        assert table.log[0] == ["p1#1", "p1#2"]


def test_3_4_the_levels_of_the_stack_are_the_primitives() -> None:
    assert offer("label").levels == ("reliable", "fifo", "causal", "agreed", "safe", "abcast")
    assert offer("label").subsets
    assert offer("label").labels
