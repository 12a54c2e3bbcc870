"""From group to group: what a time of another group blocks, and what may leave."""

from random import Random

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.effects import Ended
from antiphon.kernel.errors import UsageError
from antiphon.kernel.inputs import Join
from antiphon.kernel.levels import CAUSAL, FIFO
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.parts.exchange import Exchange
from antiphon.parts.pending import PendingQueue
from antiphon.stacks.vector.agreed import AgreedOrder
from antiphon.stacks.vector.causal import CausalOrder
from antiphon.stacks.vector.group_time import GroupTime
from antiphon.stacks.vector.inter_group_order import TIMES_MAX, InterGroupOrder
from antiphon.stacks.vector.timestamp import ForeignTime
from tests.stacks.vector.doors import at_the_doors
from tests.table import Table

OPTIONS = Options(window_packets=16)
A, B, C = 11, 12, 13
MEMBERS = 3
HOLD_NS = 20 * MILLISECOND_NS


def time_of(view_id: int, delivered: list[int], epoch: int = 0) -> GroupTime:
    """A group in this view, in which this process, of rank 0, has delivered so many packets of each."""
    causal = CausalOrder(MEMBERS, 0)
    causal.delivered = delivered.copy()
    causal.known = delivered.copy()
    exchange = Exchange(1, 1, 2, MEMBERS, 0, 100, PendingQueue(OPTIONS), Random(0), OPTIONS)
    return GroupTime(view_id, epoch, exchange, causal, AgreedOrder(MEMBERS, 0))


def group_order_of(
    domain: CausalityDomain | None = None, **groups: GroupTime
) -> tuple[InterGroupOrder, dict[str, PendingQueue]]:
    group_order = InterGroupOrder(domain or CausalityDomain(), Random(0), OPTIONS, HOLD_NS)
    queues = {name: PendingQueue(OPTIONS, 0, group_order.tickets) for name in groups}
    for name, time in groups.items():
        group_order.enter({"a": A, "b": B, "c": C}[name], time, queues[name])
    return group_order, queues


@pytest.mark.parametrize(
    ("group", "view_id", "entries", "blocked"),
    [
        (A, 3, [(1, 2)], False),
        (A, 3, [(1, 3)], True),
        (A, 3, [(0, 0), (2, 1)], True),
        (A, 3, [], False),
        (A, 2, [(1, 99)], False),
        (A, 4, [], True),
        (C, 9, [(1, 99)], False),
        (A, 3, [(MEMBERS, 99)], False),
    ],
    ids=["delivered", "missing", "missing of another", "nothing", "old view", "later view", "not mine", "no such rank"],
)
def test_what_a_time_of_another_group_blocks(
    group: int, view_id: int, entries: list[tuple[int, int]], blocked: bool
) -> None:
    group_order, _ = group_order_of(a=time_of(3, [0, 2, 0]), b=time_of(1, [0, 0, 0]))
    assert group_order.blocks([ForeignTime(group, view_id, entries)]) == blocked


def test_a_process_waits_at_all_doors_at_once() -> None:
    """A packet names two groups that may have let it in. It waits for both together, for `silence_ns_min`: twice that
    long, and the members of the group that the packet belongs to would suspect it."""
    group_order, queues = group_order_of(a=time_of(1, [0, 0, 0]))
    for group in (B, C):
        group_order.enter(group, None, queues["a"])
    named = [ForeignTime(B, 2, []), ForeignTime(C, 3, [])]
    group_order.now_ns = 5
    assert not group_order.blocks(named)  # it came before this process asked: those views cannot have let it in
    group_order.note_arrival(named)
    assert group_order.blocks(named)
    assert group_order.deadline_ns() == 5 + OPTIONS.silence_ns_min
    group_order.now_ns = 4 + OPTIONS.silence_ns_min
    group_order.note_arrival(named)
    assert group_order.blocks(named)
    group_order.now_ns = 5 + OPTIONS.silence_ns_min
    assert not group_order.blocks(named)
    assert [group_order.may_enter(group, view) for group, view in ((B, 2), (B, 3), (C, 3), (C, 4))] == [
        False, True, False, True,
    ]  # fmt: skip


def test_messages_leave_in_the_order_of_their_tickets() -> None:
    group_order, queues = group_order_of(a=time_of(1, [0, 0, 0]), b=time_of(1, [0, 0, 0]))
    queues["a"].accept([b"first"], FIFO)
    queues["b"].accept([b"second"], FIFO)
    first, second = queues["a"].runs[0].ticket, queues["b"].runs[0].ticket
    assert not group_order.may_send(B, FIFO, second, 0)
    assert group_order.may_send(A, FIFO, first, 0)
    queues["a"].take_message()
    assert group_order.may_send(B, FIFO, second, 0)


def test_a_group_that_stands_still_holds_up_only_what_must_come_after() -> None:
    group_order, queues = group_order_of(a=time_of(1, [0, 0, 0]), b=time_of(1, [0, 0, 0]))
    queues["a"].accept([b"first"], FIFO)
    second = group_order.tickets.last + 1
    group_order.stall(A)
    assert group_order.may_send(B, FIFO, second, 0)
    assert not group_order.may_send(B, CAUSAL, second, 0)
    group_order.leave(A)
    assert group_order.may_send(B, CAUSAL, second, 0)


def test_no_delivery_is_held_back_for_a_group_that_stands_still() -> None:
    busy = time_of(1, [0, 1, 0])
    group_order, _ = group_order_of(a=busy, b=time_of(1, [0, 0, 0]), c=time_of(1, [0, 0, 0]))
    group_order.stall(A)
    assert not group_order.may_send(B, CAUSAL, group_order.tickets.last + 1, 0)
    assert not any(time.hold for time in group_order._times.values())


def test_nothing_leaves_while_a_private_message_or_a_barrier_is_on_its_way() -> None:
    group_order, _ = group_order_of(a=time_of(1, [0, 0, 0]), b=time_of(1, [0, 0, 0]))
    group_order.busy_group = A
    assert not group_order.may_send(B, FIFO, group_order.tickets.last + 1, 0)


def test_what_is_not_stable_elsewhere_holds_causal_messages_up_and_no_others() -> None:
    busy = time_of(1, [0, 1, 0])
    group_order, _ = group_order_of(a=busy, b=time_of(1, [0, 0, 0]))
    assert group_order.may_send(B, FIFO, group_order.tickets.last + 1, 0)
    assert not busy.hold
    assert not group_order.may_send(B, CAUSAL, group_order.tickets.last + 1, 0)
    assert busy.hold
    assert group_order.deadline_ns() == HOLD_NS
    group_order.tick(HOLD_NS)
    assert not busy.hold
    assert HOLD_NS <= group_order.deadline_ns() <= 2 * HOLD_NS
    group_order.tick(2 * HOLD_NS)
    assert busy.hold


def test_who_has_left_a_group_takes_its_past_along() -> None:
    group_order, _ = group_order_of(a=time_of(3, [0, 2, 1]), b=time_of(1, [0, 0, 0]))
    group_order.leave(A)
    assert [(time.group, time.view_id, time.entries) for time in group_order.times(B)] == [(A, 3, [(1, 2), (2, 1)])]
    assert group_order.times(B) == []


def test_what_is_void_when_a_group_is_left_is_the_view_that_was_left() -> None:
    """Not what was heard, before that, of a view that came after it."""
    group_order, _ = group_order_of(a=time_of(3, [0, 2, 1]), b=time_of(1, [0, 0, 0]))
    group_order.leave(A, is_void=True)
    assert group_order.times(B) == []
    group_order, _ = group_order_of(a=time_of(3, [0, 2, 1]), b=time_of(1, [0, 0, 0]))
    group_order.learn(B, [ForeignTime(A, 4, [(0, 2)])], waited=False)
    group_order.leave(A, is_void=True)
    assert [(time.group, time.view_id, time.entries) for time in group_order.times(B)] == [(A, 4, [(0, 2)])]


def test_a_group_in_a_higher_epoch_waits_for_the_others() -> None:
    domain = CausalityDomain(rule="epochs")
    high, low = time_of(2, [0, 0, 0], epoch=1), time_of(1, [0, 0, 0])
    group_order, queues = group_order_of(domain, a=high, b=low)
    assert (high.blocked, low.blocked) == (True, False)
    assert (group_order.epoch_wanted(A, False), group_order.epoch_wanted(B, False)) == (0, 1)
    group_order.enter(B, time_of(2, [0, 0, 0], epoch=1), queues["b"])
    assert not high.blocked


def test_times_that_cannot_be_are_told_from_those_that_can() -> None:
    time = time_of(1, [0, 0, 0])
    assert time.is_plausible([(1, OPTIONS.numbers_max()), (0, 0)])
    assert not time.is_plausible([(1, OPTIONS.numbers_max() + 1)])
    assert not time.is_plausible([(0, 1)])
    assert not time.is_plausible([(MEMBERS, 0)])


def test_times_beyond_the_limit_are_not_accepted() -> None:
    """To forget one instead would break the order between groups without anybody noticing."""
    group_order, _ = group_order_of(a=time_of(1, [0, 0, 0]))
    for group in range(100, 100 + TIMES_MAX):
        group_order.learn(A, [ForeignTime(group, 1, [(0, 1)])], True)
    assert group_order.has_room([ForeignTime(100, 1, [(0, 2)]), ForeignTime(A, 1, [])])
    assert not group_order.has_room([ForeignTime(99, 1, [(0, 1)])])
    group_order.leave(A)
    assert {time.group for time in group_order.all_times(B)} == {A, *range(100, 100 + TIMES_MAX)}


def test_epochs_need_views_that_change() -> None:
    table = Table(2)
    epochs = Join(group="h", view=table.view, policy="static", domain=CausalityDomain(name="e", rule="epochs"))
    with pytest.raises(UsageError, match="under `static` the view never changes"):
        table.engines[0].step(epochs, 0)


# ---- at the door of a group ----------------------------------------------------------------------------------------


def test_what_names_a_group_that_may_have_let_this_process_in_is_held_back() -> None:
    table = at_the_doors("a")
    assert table.log[2] == []
    table.mend()
    table.play(500)
    assert table.log[2] == ["a:p1#1", "b:p2#1"]


@pytest.mark.parametrize("doors", ["a", "ac", "acd"])
def test_it_is_held_back_no_longer_than_a_member_may_be_silent(doors: str) -> None:
    """However many groups it names. And from then on it is too late to enter the view that it named."""
    table = at_the_doors(doors)
    table.play(OPTIONS.silence_ns_min // MILLISECOND_NS - 20)
    assert table.log[2] == []
    table.play(30)
    assert table.log[2] == ["b:p2#1"]
    assert [len(view.members) for view in (table.views[1]["b"], table.views[2]["b"])] == [2, 2]
    table.mend()
    table.play(100)
    assert table.log[2] == ["b:p2#1"]
    assert any(isinstance(event, Ended) and event.excluded for event in table.events[2])
