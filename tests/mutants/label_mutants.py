"""The stack `label` broken on purpose: each mutant must be caught by scenes with crashes.

ANTIPHON_PURE=1 python -m tests.mutants.hunt label
"""

from collections.abc import Sequence
from typing import Any

from antiphon.kernel.labels import precedes
from antiphon.kernel.levels import SAFE
from antiphon.stacks.label.handover import LabelHandover
from antiphon.stacks.label.item import NOWHERE, Item, LabelFrame, Mid, Priority
from antiphon.stacks.label.link import LabelLink
from antiphon.stacks.label.ordering import TotalOrder
from antiphon.stacks.label.pool import MessagePool
from antiphon.stacks.label.queues import LabelQueues
from antiphon.stacks.label.session import LabelSession
from antiphon.stacks.label.traffic import LabelTraffic
from antiphon.stacks.label.view_end import LabelViewEnd
from tests.mutants.mutants import Mutant
from tests.papers.test_isis_1987 import (
    test_3_2_the_exercise_with_a_further_phase_it_cannot,
    test_3_3_a_lesser_label_travels_by_way_of_others_too,
    test_3_3_b_precedes_b_if_it_was_delivered_at_the_sender,
    test_3_3_causal_messages_wait_for_what_a_labelled_one_came_ahead_of,
    test_3_4_causal_messages_come_after_agreed_ones_that_their_sender_had_delivered,
    test_3_5_atomicity_reaches_over_chains_whatever_the_labels,
)
from tests.papers.test_isis_1987_holes import (
    test_3_4_hole_d_does_not_arise_on_the_stack,
    test_4_4_hole_b_does_not_arise_on_the_stack,
)
from tests.papers.test_isis_1987_protocols import (
    test_4_1_a_gap_is_told_after_a_moment_and_again,
    test_4_3_1_a_recipient_assigns_a_priority_above_all_it_has_seen,
    test_4_3_2_a_message_travels_by_way_of_processes_it_is_not_for,
)
from tests.papers.test_isis_1987_queues import (
    test_3_2_causal_messages_come_after_abcasts_that_happened_before_them,
    test_3_4_causal_messages_tell_the_place_of_agreed_ones_behind_open_ones,
    test_4_3_1_one_successor_at_a_time_completes_what_others_began,
    test_4_3_1_survivors_agree_on_what_nobody_had_a_final_priority_of,
    test_4_3_1_what_a_survivor_has_delivered_comes_first_at_all,
)
from tests.stacks.label.sweep import random_scene, run_scene

SCENES = "scenes"
CLAIMS = (
    test_3_2_the_exercise_with_a_further_phase_it_cannot,
    test_3_3_causal_messages_wait_for_what_a_labelled_one_came_ahead_of,
    test_3_3_b_precedes_b_if_it_was_delivered_at_the_sender,
    test_3_3_a_lesser_label_travels_by_way_of_others_too,
    test_3_4_causal_messages_come_after_agreed_ones_that_their_sender_had_delivered,
    test_3_4_causal_messages_tell_the_place_of_agreed_ones_behind_open_ones,
    test_4_1_a_gap_is_told_after_a_moment_and_again,
    test_4_3_1_a_recipient_assigns_a_priority_above_all_it_has_seen,
    test_3_4_hole_d_does_not_arise_on_the_stack,
    test_3_5_atomicity_reaches_over_chains_whatever_the_labels,
    test_4_3_2_a_message_travels_by_way_of_processes_it_is_not_for,
    test_4_4_hole_b_does_not_arise_on_the_stack,
    test_3_2_causal_messages_come_after_abcasts_that_happened_before_them,
    test_4_3_1_one_successor_at_a_time_completes_what_others_began,
    test_4_3_1_survivors_agree_on_what_nobody_had_a_final_priority_of,
    test_4_3_1_what_a_survivor_has_delivered_comes_first_at_all,
)
"""What random scenes seldom come across, staged."""


def label_symptoms(seed: int, breaks: Sequence[str]) -> str | None:
    """What does not hold in this seed's scene, or what it raises; -1 is the first of the claims, -2 the second."""
    try:
        if seed < 0:
            CLAIMS[-1 - seed]()
            return None
        found = run_scene(seed, *random_scene(seed))[0]
    except (AssertionError, LookupError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return found[0] if found else None


_take_for = MessagePool.take_for
_add = TotalOrder.add
_answer = TotalOrder.answer
_advance = TotalOrder.advance
_take = LabelLink.take
_take_in = LabelSession._take_in
_reach = MessagePool.reach


def _carry_nothing(self: MessagePool, rank: int, last: Item) -> list[Item]:
    """What must come first does not travel along."""
    return [item for item in _take_for(self, rank, last) if item.sender == self._me]


def _carry_for_destinations_only(self: MessagePool, item: Item, bit: int) -> bool:
    """Nothing travels by way of members that it is not for."""
    return not item.is_done and not item.sent_to & bit and bool(item.remaining & bit)


def _carry_in_any_order(self: MessagePool, rank: int, last: Item) -> list[Item]:
    return list(reversed(_take_for(self, rank, last)))


def _no_duplicates_known(self: MessagePool, mid: Mid) -> bool:
    return mid[1] <= self.collected[mid[0]]


def _collect_what_was_sent(self: LabelSession, item: Item) -> bool:
    """What has left is taken to be delivered."""
    return item.number not in self.pool.undelivered[self._me]


def _collect_what_was_received(self: LabelSession, item: Item) -> bool:
    """What was received is taken to be delivered."""
    return not item.remaining and item.number not in self.pool.undelivered[self._me]


def _forget_ids(self: MessagePool, rank: int, number: int) -> None:
    """Collected ids are forgotten, so that a late copy is taken for news."""
    for each in range(1, number + 1):
        item = self.copies.pop((rank, each), None)
        if item is not None:
            item.is_done = True
            self._above[rank].discard(each)


def _own_priority_is_final(self: TotalOrder, number: int, rank: int, priority: int) -> None:
    """The sender does not wait for the others' priorities."""
    ballot = self.ballots.get(number)
    if ballot is not None and not ballot.answered:
        ballot.answered = 1
        self.commits.append((number, (priority, rank)))


def _first_priority_is_final(self: TotalOrder, number: int, rank: int, priority: int) -> None:
    """The final priority is the lowest, not the highest."""
    ballot = self.ballots.get(number)
    if ballot is None or ballot.answered >> rank & 1:
        return
    ballot.answered |= 1 << rank
    ballot.highest = min(ballot.highest, (priority, rank)) if ballot.highest != NOWHERE else (priority, rank)
    if ballot.answered == self._everybody:
        self.commits.append((number, ballot.highest))


def _priority_without_a_clock(self: TotalOrder, clock: int) -> None:
    """Clocks of others are not followed."""


def _deliver_what_is_final(self: TotalOrder) -> None:
    """Final broadcasts pass those that are not."""
    for ordered in self._final_up_to((1 << 61, 0)):
        self._pass(ordered, (ordered.item.sender, ordered.item.number))


def _no_third_phase(self: TotalOrder) -> None:
    """Safe broadcasts are delivered like agreed ones."""
    for ordered in self._waiting.values():
        ordered.is_released = True
    _advance(self)


def _vouch_at_once(self: TotalOrder, item: Item) -> int:
    """A safe broadcast is vouched for before its place is known."""
    priority = _add(self, item)
    if item.level() == SAFE:
        self.vouches.append((item.sender, item.number))
    return priority


def _do_not_follow(self: TotalOrder, passed: Priority) -> None:
    """How far the sender of a broadcast had come is ignored."""


def _close_by_clock(self: TotalOrder, reached: Priority) -> None:
    """At the end of a view final priorities do not count."""
    late = sorted(self._waiting.values(), key=lambda each: (each.item.clock, each.item.sender, each.item.number))
    for ordered in late:
        self._pass(ordered, (ordered.item.sender, ordered.item.number))


def _close_by_priority(self: TotalOrder, reached: Priority) -> None:
    """At the end of a view each goes by the priorities that it knows."""
    for ordered in sorted(self._waiting.values(), key=lambda each: each.priority):
        self._pass(ordered, (ordered.item.sender, ordered.item.number))


def _close_by_own_mark(self: LabelViewEnd, annex: bytes) -> None:
    """Each member goes by how far it has come itself."""
    self.reached = self._order.reached()


def _reached_without_vouching(self: TotalOrder) -> Priority:
    return self.passed


def _ordered_for_destinations_only(self: MessagePool, item: Item) -> int:
    """Only destinations get what is to be ordered."""
    return item.destinations


def _links_without_order(self: LabelLink, number: int, frames: list[LabelFrame], now_ns: int) -> list[LabelFrame]:
    """Datagrams are taken as they come."""
    self.owe_ack(now_ns)
    self._early[number] = []
    while self.received + 1 in self._early:
        self.received += 1
        del self._early[self.received]
    self.heard_of(number, now_ns)
    return frames


def _never_missing(self: LabelLink) -> list[tuple[int, int]]:
    """Nobody says what is missing."""
    return []


def _all_waits_over(self: LabelSession) -> bool:
    """What labelled broadcasts came ahead of is not waited for."""
    self._ahead = {}
    return True


def _everything_may_stay(self: MessagePool, item: Item, last: Item) -> bool:
    """A labelled broadcast takes none of its sender's own with it."""
    return item.sender == self._me and item.batch is not None and item is not last


def _others_may_stay(self: MessagePool, item: Item, last: Item) -> bool:
    """A labelled broadcast takes nothing with it that others have sent."""
    return item is not last and not precedes(item.label, last.label)


def _cut_is_complete(self: LabelViewEnd) -> bool:
    """Missing broadcasts of the cut are not waited for."""
    return self._cut is not None


def _own_copies_only(self: LabelViewEnd, mid: Mid) -> bool:
    """Nothing that was collected is told as held."""
    return False


def _ballots_do_not_hold(self: LabelSession, effects: Any, now_ns: int) -> bool:
    """What is not ordered does not wait for own ordered broadcasts."""
    ballots = self._order.ballots
    self._order.ballots = {}
    try:
        result = _take_pending(self, effects, now_ns)
    finally:
        self._order.ballots = {**ballots, **self._order.ballots}
    return result


_take_pending = LabelSession._take_pending


def _head_without_acks(self: LabelTraffic, sender: int, ack: int, consumed: int, now_ns: int) -> None:
    """Acks free the link, but nobody is struck off from those that lack a broadcast."""
    self.links[sender].take_ack(ack, now_ns)


def _queue_without_order(self: LabelQueues, label: bytes) -> None:
    """A final ABCAST passes open ones of its label."""
    line = self._lines.pop(label)
    self.ready += [self._waiting.pop(mid).item for _, mid in line if self._waiting[mid].is_final]
    rest = [entry for entry in line if entry[1] in self._waiting]
    if rest:
        self._lines[label] = rest


def _own_priority_in_queue(self: LabelQueues, number: int, rank: int, priority: int) -> None:
    """The first priority that comes is the final one of an ABCAST."""
    ballot = self._ballots.pop(number, None)
    if ballot is not None:
        self.commits.append((ballot.item, (priority, rank)))


def _close_queues_by_arrival(self: LabelQueues) -> None:
    """At the end of a view each delivers ABCASTs as they came."""
    self.ready += [queued.item for queued in self._waiting.values()]
    self._waiting, self._lines, self._ballots = {}, {}, {}


def _close_queues_by_clock(self: LabelQueues) -> None:
    """At the end of a view final priorities of ABCASTs do not count."""
    rest = [queued.item for queued in self._waiting.values()]
    self.ready += sorted(rest, key=lambda item: (item.clock, item.sender, item.number))
    self._waiting, self._lines, self._ballots = {}, {}, {}


def _never_held_back(self: LabelQueues, arrival: int) -> bool:
    """Causal messages do not wait for ABCASTs."""
    return True


def _one_assembly(self: LabelHandover, item: Item) -> bool:
    """A sender has one message that is half here."""
    assert item.batch is not None
    halves = self._halves[item.sender]
    for key in [key for key in halves if key[1] != item.batch.first_message]:
        del halves[key]
    return _take_part(self, item)


_take_part = LabelHandover.take_part

LABEL_MUTANTS = (
    Mutant("what must come first is not carried", (SCENES,), ((MessagePool, "take_for", _carry_nothing),)),
    Mutant("copies for others are not carried", (SCENES,), ((MessagePool, "_is_owed", _carry_for_destinations_only),)),
    Mutant("transfer packets in reverse", (SCENES,), ((MessagePool, "take_for", _carry_in_any_order),)),
    Mutant("ids are not remembered", (SCENES,), ((MessagePool, "has", _no_duplicates_known),)),
    Mutant("collected when sent", (SCENES,), ((LabelSession, "_is_over", _collect_what_was_sent),)),
    Mutant("collected ids are forgotten", (SCENES,), ((MessagePool, "collect", _forget_ids),)),
    Mutant("own priority is final", (SCENES,), ((TotalOrder, "answer", _own_priority_is_final),)),
    Mutant("lowest priority is final", (SCENES,), ((TotalOrder, "answer", _first_priority_is_final),)),
    Mutant("clocks of others do not count", (SCENES,), ((TotalOrder, "see", _priority_without_a_clock),)),
    Mutant("final ones pass open ones", (SCENES,), ((TotalOrder, "advance", _deliver_what_is_final),)),
    Mutant("no third phase", (SCENES,), ((TotalOrder, "advance", _no_third_phase),)),
    Mutant("places told by others are ignored", (SCENES,), ((TotalOrder, "follow", _do_not_follow),)),
    Mutant("the end of a view goes by clocks alone", (SCENES,), ((TotalOrder, "close", _close_by_clock),)),
    Mutant("the end of a view goes by open priorities", (SCENES,), ((TotalOrder, "close", _close_by_priority),)),
    Mutant("each goes by its own mark", (SCENES,), ((LabelViewEnd, "take_annex", _close_by_own_mark),)),
    Mutant("only destinations order", (SCENES,), ((MessagePool, "reach", _ordered_for_destinations_only),)),
    Mutant("links without order", (SCENES,), ((LabelLink, "take", _links_without_order),)),
    Mutant("nobody says what is missing", (SCENES,), ((LabelLink, "missing", _never_missing),)),
    Mutant("nobody catches up", (SCENES,), ((LabelSession, "_has_caught_up", _all_waits_over),)),
    Mutant("labels take nothing along", (SCENES,), ((MessagePool, "_may_stay", _everything_may_stay),)),
    Mutant("labels take nothing of others along", (SCENES,), ((MessagePool, "_may_stay", _others_may_stay),)),
    Mutant("the cut is not waited for", (SCENES,), ((LabelViewEnd, "is_complete", _cut_is_complete),)),
    Mutant("own ordered ones hold up nothing", (SCENES,), ((LabelSession, "_take_pending", _ballots_do_not_hold),)),
    Mutant("a final abcast passes open ones", (SCENES,), ((LabelQueues, "_advance", _queue_without_order),)),
    Mutant("an abcast's first priority is final", (SCENES,), ((LabelQueues, "answer", _own_priority_in_queue),)),
    Mutant("abcasts end as they came", (SCENES,), ((LabelQueues, "close", _close_queues_by_arrival),)),
    Mutant("abcasts end by clocks alone", (SCENES,), ((LabelQueues, "close", _close_queues_by_clock),)),
    Mutant("nothing waits for abcasts", (SCENES,), ((LabelQueues, "has_passed", _never_held_back),)),
    Mutant("one half message a sender", (SCENES,), ((LabelHandover, "take_part", _one_assembly),)),
    Mutant("acks strike nobody off", (SCENES,), ((LabelTraffic, "take_head", _head_without_acks),)),
)
