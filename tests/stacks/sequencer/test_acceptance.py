"""Requests that name messages without a number: the deadlock of the literal rule, and the queue that has none, over all
orders of arrival."""

from itertools import permutations

import pytest

from antiphon.stacks.sequencer.acceptance import REQUESTS_MAX, AcceptanceQueue, MessageName, NamedRequest
from antiphon.stacks.sequencer.context import Context, merge
from antiphon.stacks.sequencer.delivery_rule import is_deliverable

G, H = 1, 2
Accepted = tuple[MessageName, int, Context, list[MessageName]]
"""Message, group, context, and what stands there by name."""


class Sequencer:
    """One sequencer of two groups, after rule 3: an accept carries its own context and the sender's."""

    def __init__(self, literal: bool) -> None:
        self.literal = literal
        self.context = {G: 0, H: 0}
        self.queue = AcceptanceQueue()
        self.accepted: list[Accepted] = []

    def receive(self, request: NamedRequest) -> None:
        if self.literal:
            self._accept(request)
            return
        assert self.queue.offer(request)
        ready = self.queue.next_ready()
        while ready is not None:
            self._accept(ready)
            ready = self.queue.next_ready()

    def _accept(self, request: NamedRequest) -> None:
        self.context[request.group] += 1
        self.queue.hear(request.name, self.context[request.group])
        self.accepted.append((request.name, request.group, merge(self.context, request.context), list(request.named)))


def deliver(accepted: list[Accepted], numbers: dict[MessageName, tuple[int, int]]) -> list[MessageName]:
    """What a member of both groups delivers in the end: it replaces names by numbers as soon as it knows them."""
    delivered = {G: 0, H: 0}
    done: list[MessageName] = []
    progress = True
    while progress:
        progress = False
        for name, group, context, named in accepted:
            full = dict(context)
            for other in named:
                where, number = numbers[other]
                full[where] = max(full.get(where, 0), number)
            if name not in done and is_deliverable(full, group, delivered):
                delivered[group] = full[group]
                done.append(name)
                progress = True
    return done


def requests() -> list[NamedRequest]:
    """p sends m1 to G, m2 to H and m3 to G at once; each names the one before it. q sends one to H."""
    return [
        NamedRequest(("p", 1), 1, G, {}, {}),
        NamedRequest(("p", 2), 2, H, {}, {("p", 1): G}),
        NamedRequest(("p", 3), 3, G, {}, {("p", 2): H}),
        NamedRequest(("q", 1), 1, H, {}, {}),
    ]


def numbers_of(sequencer: Sequencer) -> dict[MessageName, tuple[int, int]]:
    return {name: (group, context[group]) for name, group, context, _ in sequencer.accepted}


def test_hole_e_the_literal_rule_deadlocks_when_a_message_is_accepted_before_one_that_it_names() -> None:
    sequencer = Sequencer(literal=True)
    m1, m2, _, _ = requests()
    sequencer.receive(m2)
    sequencer.receive(m1)
    assert deliver(sequencer.accepted, numbers_of(sequencer)) == []


@pytest.mark.parametrize("arriving", list(permutations(range(4))))
def test_in_no_order_of_arrival_do_accepts_wait_for_each_other(arriving: tuple[int, ...]) -> None:
    sequencer = Sequencer(literal=False)
    sent = requests()
    for place in arriving:
        sequencer.receive(sent[place])
    assert all(named == [] for *_, named in sequencer.accepted)
    done = deliver(sequencer.accepted, {})
    assert len(done) == 4
    assert [name for name in done if name[0] == "p"] == [("p", 1), ("p", 2), ("p", 3)]


def test_numbers_that_another_sequencer_gave_are_waited_for() -> None:
    queue = AcceptanceQueue()
    queue.offer(NamedRequest(("p", 2), 1, H, {G: 4}, {("p", 1): G}))
    assert queue.next_ready() is None
    queue.hear(("p", 1), 7)
    ready = queue.next_ready()
    assert ready is not None
    assert (ready.context, ready.named) == ({G: 7}, {})


def test_of_a_number_and_a_name_in_one_entry_the_larger_is_kept() -> None:
    queue = AcceptanceQueue()
    queue.hear(("p", 1), 3)
    queue.offer(NamedRequest(("p", 2), 1, H, {G: 9}, {("p", 1): G}))
    ready = queue.next_ready()
    assert ready is not None
    assert ready.context == {G: 9}


def test_names_of_a_client_that_has_failed_are_buried() -> None:
    queue = AcceptanceQueue()
    queue.offer(NamedRequest(("q", 1), 1, H, {}, {("p", 1): G}))
    queue.offer(NamedRequest(("p", 5), 1, H, {}, {("p", 1): G}))
    assert queue.next_ready() is None
    queue.bury("p")
    ready = queue.next_ready()
    assert ready is not None
    assert ready.name == ("q", 1)
    assert queue.next_ready() is None


def test_repeats_are_ignored_and_a_client_has_so_many_requests_at_most() -> None:
    queue = AcceptanceQueue()
    assert queue.offer(NamedRequest(("p", 1), 1, G, {}, {}))
    assert queue.next_ready() is not None
    assert queue.offer(NamedRequest(("p", 1), 1, G, {}, {}))
    assert queue.next_ready() is None
    for ordinal in range(3, 3 + REQUESTS_MAX):
        assert queue.offer(NamedRequest(("p", ordinal), ordinal, G, {}, {}))
    assert not queue.offer(NamedRequest(("p", 9999), 9999, G, {}, {}))


def test_numbers_are_forgotten_when_nobody_names_them_any_more() -> None:
    queue = AcceptanceQueue()
    queue.hear(("p", 1), 3)
    queue.hear(("p", 2), 4)
    queue.forget("p", 1)
    queue.offer(NamedRequest(("q", 1), 1, H, {}, {("p", 2): G}))
    queue.offer(NamedRequest(("r", 1), 1, H, {}, {("p", 1): G}))
    ready = queue.next_ready()
    assert ready is not None
    assert ready.name == ("q", 1)
    assert queue.next_ready() is None
