"""isis-1991, claim by claim: ABCAST by a token (5.2, end of 5.5, footnote 4), and the level `safe` on top of it."""

from random import Random

import pytest

from antiphon.kernel.effects import Sent
from antiphon.kernel.levels import AGREED, CAUSAL, FIFO, SAFE
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.vector.agreed import AFTER_PACKETS
from antiphon.stacks.vector.timestamp import KEEP
from tests.papers.wire import holder_in, places_in, section_of
from tests.table import Table

ACK_NS = 6 * MILLISECOND_NS
HOLDER = 0
"""The oldest holds the token at first."""


def test_5_2_the_holder_of_the_token_sends_in_the_normal_manner() -> None:
    """Its own ABCAST is delivered at once everywhere, and costs one multicast and no word about order."""
    table = Table(3)
    table.send(HOLDER, b"m", level=AGREED)
    assert table.log[HOLDER] == ["p1#1"]
    packets = table.take_data(HOLDER, 1)
    assert [section_of(packet, 3) for packet in packets] == [None]
    table.arrive(1, *packets)
    table.pass_on(HOLDER, 2)
    assert table.log[1] == table.log[2] == ["p1#1"]
    assert table.take_data(1, 0) == table.take_data(2, 0) == []


def test_5_2_step_1_everybody_else_waits_for_the_order_the_sender_too() -> None:
    table = Table(3)
    table.send(1, b"m", level=AGREED)
    table.pass_on(1, 2)
    assert table.log[1] == table.log[2] == []
    table.pass_on(1, HOLDER)
    assert table.log[HOLDER] == ["p2#1"]
    table.pass_on(HOLDER, 1)
    table.pass_on(HOLDER, 2)
    assert table.log[1] == table.log[2] == ["p2#1"]


def test_5_2_step_1_later_causal_messages_of_the_sender_wait_behind_it() -> None:
    """The vector time is not updated before delivery: what follows an undeliverable ABCAST is delayed."""
    table = Table(3)
    table.send(1, b"abcast", level=AGREED)
    table.send(1, b"cbcast")
    table.pass_on(1, 2)
    assert table.log[1] == table.log[2] == []
    table.pass_on(1, HOLDER)
    table.pass_on(HOLDER, 2)
    assert table.log[2] == ["p2#1", "p2#2"]


def test_5_2_step_1_causal_messages_before_it_or_beside_it_do_not_wait() -> None:
    table = Table(4)
    table.send(1, b"before")
    table.send(1, b"abcast", level=AGREED)
    table.send(3, b"beside")
    table.pass_on(1, 2)
    table.pass_on(3, 2)
    assert table.log[2] == ["p2#1", "p4#1"]


def test_5_2_steps_2_and_4_everybody_takes_the_order_in_which_the_holder_got_them() -> None:
    """Two concurrent ABCASTs reach p4 in the other order than the holder: the holder's counts."""
    table = Table(4)
    table.send(1, b"m", level=AGREED)
    table.send(2, b"m", level=AGREED)
    table.pass_on(1, 3)
    table.pass_on(2, 3)
    table.pass_on(2, HOLDER)
    table.pass_on(1, HOLDER)
    table.pass_on(HOLDER, 3)
    assert table.log[3] == table.log[HOLDER] == ["p3#1", "p2#1"]


def test_5_2_step_3_orders_are_batched() -> None:
    """Five ABCASTs that come together are put in order by one packet."""
    table = Table(3)
    for sender in (1, 2, 1, 1, 2):
        table.send(sender, b"m", level=AGREED)
    table.arrive(HOLDER, *table.take_data(1, HOLDER), *table.take_data(2, HOLDER))
    packets = table.take_data(HOLDER, 1)
    assert [places_in(packet, 3) for packet in packets] == [[(1, 1, 3), (2, 1, 2)]]


def test_5_2_step_3_the_order_rides_on_what_the_holder_sends_next() -> None:
    """A message of the holder waits for its past, which comes together with an ABCAST: one packet does for both."""
    table = Table(4)
    table.send(3, b"past")
    past = table.take_data(3, HOLDER)
    table.pass_on(3, 2)
    table.send(2, b"weak", level=FIFO)
    table.pass_on(2, HOLDER)
    table.send(HOLDER, b"waits")
    assert table.take_data(HOLDER, 1) == []
    table.send(1, b"abcast", level=AGREED)
    table.arrive(HOLDER, *past, *table.take_data(1, HOLDER))
    packets = table.take_data(HOLDER, 1)
    assert [places_in(packet, 4) for packet in packets] == [[(1, 1, 1)]]
    assert sorted(table.log[HOLDER]) == ["p1#1", "p2#1", "p3#1", "p4#1"]


@pytest.mark.parametrize("seed", range(10))
def test_5_2_an_abcast_before_a_cbcast_before_an_abcast_keeps_its_place(seed: int) -> None:
    """p2 ABCASTs m and CBCASTs m'; p3, having m', ABCASTs m'': all deliver m before m'', however packets arrive."""
    table = Table(4)
    table.send(1, b"m", level=AGREED)
    table.send(1, b"m'")
    late = table.take(1, 3)
    table.pass_on(1, HOLDER)
    table.pass_on(1, 2)
    late += table.take(HOLDER, 3)
    table.pass_on(HOLDER, 2)
    assert table.log[2] == ["p2#1", "p2#2"]
    table.send(2, b"m''", level=AGREED)
    late += table.take(2, 3)
    table.pass_on(2, HOLDER)
    late += table.take(HOLDER, 3)
    Random(seed).shuffle(late)
    for packet in late:
        table.arrive(3, packet)
    assert table.log[3] == table.log[HOLDER] == ["p2#1", "p2#2", "p3#1"]


def test_5_2_step_3_the_token_moves_to_the_busy_sender() -> None:
    table = Table(3)
    passed: list[int | None] = []
    for _ in range(AFTER_PACKETS):
        table.send(1, b"m", level=AGREED)
        table.pass_on(1, HOLDER)
        passed += [holder_in(packet, 3) for packet in table.take_data(HOLDER, 1)]
    assert passed == [KEEP] * (AFTER_PACKETS - 1) + [1]


def move_token(table: Table, to: int) -> None:
    for _ in range(AFTER_PACKETS):
        table.send(to, b"m", level=AGREED)
        table.settle()
    table.drop_all()


def test_5_2_once_the_token_is_at_its_sender_an_abcast_costs_one_multicast() -> None:
    table = Table(3)
    move_token(table, 1)
    for number in range(5):
        table.send(1, b"m", level=AGREED)
        assert len(table.log[1]) == AFTER_PACKETS + number + 1
        for other in (0, 2):
            packets = table.take_data(1, other)
            assert len(packets) == 1
            table.arrive(other, *packets)
        assert table.take_data(0, 2) == table.take_data(2, 0) == []
    assert table.log[0] == table.log[1] == table.log[2]


def test_5_2_a_message_of_the_old_holder_waits_for_the_new_one() -> None:
    table = Table(3)
    move_token(table, 1)
    table.send(HOLDER, b"m", level=AGREED)
    assert len(table.log[HOLDER]) == AFTER_PACKETS
    table.pass_on(HOLDER, 1)
    table.pass_on(1, HOLDER)
    assert table.log[HOLDER] == table.log[1]
    assert table.log[1][-1] == "p1#1"


def test_5_2_orders_of_the_new_holder_are_read_after_those_of_the_old() -> None:
    """p3 gets the new holder's own ABCASTs before the packet that passed the token on."""
    table = Table(3)
    for _ in range(AFTER_PACKETS):
        table.send(1, b"m", level=AGREED)
        table.pass_on(1, HOLDER)
        table.pass_on(HOLDER, 1)
    late = table.take_data(HOLDER, 2)
    table.send(1, b"in the next term", level=AGREED)
    table.pass_on(1, 2)
    assert table.log[2] == []
    for packet in reversed(late):
        table.arrive(2, packet)
    assert table.log[2] == table.log[1] == [f"p2#{number}" for number in range(1, AFTER_PACKETS + 2)]


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_5_2_without_moving_the_token_an_abcast_costs_one_and_a_kth_multicasts(batch: int) -> None:
    table = Table(4)
    multicasts = 0
    for first in range(0, 12, batch):
        for number in range(first, first + batch):
            table.send(1 + number % 3, b"m", level=AGREED)
        lot = [packet for sender in (1, 2, 3) for packet in table.take_data(sender, HOLDER)]
        multicasts += len(lot)
        table.arrive(HOLDER, *lot)
        multicasts += len(table.take_data(HOLDER, 1))
    assert multicasts == 12 + 12 // batch


@pytest.mark.parametrize("seed", range(20))
def test_5_2_the_order_is_total_and_respects_causality_wherever_the_token_goes(seed: int) -> None:
    """A dialogue of ABCASTs and CBCASTs: each message names those its sender had delivered before."""
    random = Random(seed)
    table = Table(4)
    past: dict[str, set[str]] = {}
    sent = [0] * 4
    busy = random.randrange(4)
    for _ in range(60):
        sender = busy if random.random() < 0.7 else random.randrange(4)
        sent[sender] += 1
        name = f"p{sender + 1}#{sent[sender]}"
        past[name] = set(table.log[sender]) | {f"p{sender + 1}#{number}" for number in range(1, sent[sender])}
        table.send(sender, b"", level=random.choice((AGREED, AGREED, CAUSAL)))
        for source, destination in list(table.links):
            if random.random() < 0.6:
                table.pass_on(source, destination)
    table.settle(rounds=200)
    for log in table.log:
        assert len(log) == 60
        for place, name in enumerate(log):
            assert past[name] <= set(log[:place])
    ordered = [[name for name in log if is_agreed(table, name)] for log in table.log]
    assert all(order == ordered[0] for order in ordered)


def is_agreed(table: Table, name: str) -> bool:
    sender, number = name.removeprefix("p").split("#")
    for event in table.events[int(sender) - 1]:
        if isinstance(event, Sent) and event.number <= int(number) < event.number + event.count:
            return event.level == AGREED
    raise AssertionError(f"{name} was never sent")


# ---- the holder of the token fails (5.5) ---------------------------------------------------------------------------


def test_5_5_abcasts_without_a_place_get_one_by_a_rule_when_the_holder_fails() -> None:
    """Sent in three places, seen in three orders, ordered by nobody: all deliver them alike, before the next view."""
    table = Table(4, policy="primary")
    for sender in (3, 1, 2):
        table.send(sender, b"m", level=AGREED)
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == ["1: p1 p2 p3 p4", "p2#1", "p3#1", "p4#1", "2: p2 p3 p4"]
    assert table.story[1] == table.story[2] == table.story[3]


def test_5_5_the_rule_respects_causality() -> None:
    """p4's ABCASTs with a CBCAST between them: the second is not put before the first, whatever the rule prefers."""
    table = Table(4, policy="primary")
    table.send(3, b"first", level=AGREED)
    table.send(3, b"between")
    table.send(3, b"second", level=AGREED)
    table.send(2, b"beside", level=AGREED)
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == table.story[2] == table.story[3]
    assert [event for event in table.log[1] if event.startswith("p4")] == ["p4#1", "p4#2", "p4#3"]
    assert "p3#1" in table.log[1]


def test_5_5_orders_that_left_before_the_failure_count_everywhere() -> None:
    """The holder's order reached p3 alone, which delivered p4's ABCAST and answered it. By rank the answer would be
    first; but the order that p3 has seen is fetched by all."""
    table = Table(4, policy="primary")
    table.send(3, b"question", level=AGREED)
    table.pass_on(3, HOLDER)
    table.pass_on(3, 2)
    table.pass_on(HOLDER, 2)
    table.drop_all()
    assert table.log[2] == ["p4#1"]
    table.crash(HOLDER)
    table.send(2, b"answer", level=AGREED)
    table.play(6_000)
    assert table.story[1] == ["1: p1 p2 p3 p4", "p4#1", "p3#1", "2: p2 p3 p4"]
    assert table.story[1] == table.story[2] == table.story[3]


def test_5_5_such_orders_come_before_the_rule() -> None:
    """The holder put p4's ABCAST before p2's, and told p3 alone. By rank p2's would be first."""
    table = Table(4, policy="primary")
    table.send(3, b"m", level=AGREED)
    table.send(1, b"m", level=AGREED)
    for sender in (3, 1):
        table.pass_on(sender, 2)
        table.pass_on(sender, HOLDER)
    table.pass_on(HOLDER, 2)
    assert table.log[2] == ["p4#1", "p2#1"]
    table.drop_all()
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == ["1: p1 p2 p3 p4", "p4#1", "p2#1", "2: p2 p3 p4"]
    assert table.story[1] == table.story[2] == table.story[3]


def test_footnote_4_agreed_order_is_not_uniform() -> None:
    """The holder delivers its own ABCAST at once; if it fails before anybody has it, nobody else delivers it."""
    table = Table(3, policy="primary")
    table.send(HOLDER, b"m", level=AGREED)
    assert table.log[HOLDER] == ["p1#1"]
    table.drop_all()
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == table.story[2] == ["1: p1 p2 p3", "2: p2 p3"]


# ---- safe ----------------------------------------------------------------------------------------------------------


def test_safe_is_delivered_when_every_member_holds_it() -> None:
    """A member that has not acknowledged it holds it up everywhere."""
    table = Table(3)
    table.send(HOLDER, b"m", level=SAFE)
    table.pass_on(HOLDER, 1)
    table.wait(ACK_NS)
    table.pass_on(1, HOLDER)
    assert table.log == [[], [], []]
    table.pass_on(HOLDER, 2)
    table.wait(ACK_NS)
    table.pass_on(2, HOLDER)
    assert table.log == [["p1#1"], [], []]
    table.play(20)
    assert table.log == [["p1#1"]] * 3


def test_safe_waits_until_every_member_holds_the_packet_that_told_its_place() -> None:
    table = Table(3)
    table.send(1, b"m", level=SAFE)
    table.pass_on(1, HOLDER)
    table.pass_on(1, 2)
    told = table.take_data(HOLDER, 2)
    assert told
    for _ in range(3):
        table.wait(ACK_NS)
        table.take(HOLDER, 2)
        table.take(1, 2)
        for source, destination in ((HOLDER, 1), (1, HOLDER), (2, HOLDER), (2, 1)):
            table.pass_on(source, destination)
    assert table.log == [[], [], []]
    table.arrive(2, *told)
    table.play(300)
    assert table.log == [["p2#1"]] * 3


def test_safe_waits_for_a_member_that_knows_its_place_and_lacks_the_message() -> None:
    table = Table(3)
    table.cut(1, 2)
    table.send(1, b"m", level=SAFE)
    table.pass_on(1, HOLDER)
    table.pass_on(HOLDER, 2)
    table.cut(HOLDER, 2)
    table.play(300)
    assert table.log == [[], [], []]
    table.mend()
    table.play(600)
    assert table.log == [["p2#1"]] * 3


def test_agreed_messages_after_a_safe_one_wait_for_it_and_causal_ones_beside_it_do_not() -> None:
    table = Table(3)
    table.send(HOLDER, b"safe", level=SAFE)
    table.send(HOLDER, b"agreed", level=AGREED)
    table.send(1, b"beside")
    table.pass_on(HOLDER, 2)
    table.pass_on(1, 2)
    assert table.log[2] == ["p2#1"]
    table.settle()
    assert [event for event in table.log[2] if event.startswith("p1")] == ["p1#1", "p1#2"]


def test_safe_is_uniform_what_one_delivered_before_it_failed_all_deliver() -> None:
    table = Table(3, policy="primary")
    table.send(HOLDER, b"m", level=SAFE)
    for other in (1, 2):
        table.pass_on(HOLDER, other)
    table.wait(ACK_NS)
    for other in (1, 2):
        table.pass_on(other, HOLDER)
    assert table.log == [["p1#1"], [], []]
    table.drop_all()
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == table.story[2] == ["1: p1 p2 p3", "p1#1", "2: p2 p3"]


def test_safe_is_uniform_in_its_order_too() -> None:
    """p1 has delivered p4's message and then p2's; the others, who have both, had not heard that all have. By rank p2's
    would be first."""
    table = Table(4, policy="primary")
    table.send(3, b"m", level=SAFE)
    table.send(1, b"m", level=SAFE)
    for sender in (3, 1):
        for receiver in (2, 1, 3, HOLDER):
            table.pass_on(sender, receiver)
    for receiver in (1, 2, 3):
        table.pass_on(HOLDER, receiver)
    table.wait(ACK_NS)
    for receiver in (1, 2, 3):
        table.pass_on(receiver, HOLDER)
    assert table.log == [["p4#1", "p2#1"], [], [], []]
    table.drop_all()
    table.crash(HOLDER)
    table.play(6_000)
    assert table.story[1] == ["1: p1 p2 p3 p4", "p4#1", "p2#1", "2: p2 p3 p4"]
    assert table.story[1] == table.story[2] == table.story[3]


def test_safe_messages_that_a_failed_member_held_up_are_delivered_where_the_view_ends() -> None:
    table = Table(3, policy="primary")
    table.crash(2)
    table.send(1, b"m", level=SAFE)
    table.play(500)
    assert table.log[0] == table.log[1] == []
    table.play(6_000)
    assert table.story[0] == table.story[1] == ["1: p1 p2 p3", "p2#1", "2: p1 p2"]
