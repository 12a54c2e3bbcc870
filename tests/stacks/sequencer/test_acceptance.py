"""Requests that name messages without a number: the deadlock of the literal rule, and the queue that has none, over all
orders of arrival at two sequencers."""

from itertools import permutations

import pytest

from antiphon.kernel.errors import MalformedError
from antiphon.kernel.identity import ProcessId
from antiphon.stacks.sequencer.acceptance import NO_PLACE, AcceptanceQueue, NamedRequest
from antiphon.stacks.sequencer.context import Context, merge
from antiphon.stacks.sequencer.delivery_rule import is_deliverable
from antiphon.stacks.sequencer.sequenced_group import SequencedGroup

G, H = 1, 2
P, Q = ProcessId("p"), ProcessId("q")
Sent = tuple[ProcessId, int, int, dict[int, int]]
"""Client, group, number among its messages to the group, and what it names."""
SENT: list[Sent] = [(P, G, 1, {}), (P, H, 1, {G: 1}), (P, G, 2, {H: 1}), (Q, H, 1, {})]
"""p sends m1 to G, m2 to H and m3 to G at once; each names the one before it. q sends one to H."""


class Sequencer:
    """Some groups, after rule 3: an accept carries the sequencer's own context and the sender's."""

    def __init__(self, *groups: int, literal: bool = False) -> None:
        self.literal = literal
        self.groups = {group: SequencedGroup(f"g{group}", group, 0, 64) for group in groups}
        self.queues = {P: AcceptanceQueue(), Q: AcceptanceQueue()}
        self.accepted: list[tuple[Sent, Context]] = []

    def receive(self, sent: Sent) -> None:
        client, group, number, named = sent
        request = NamedRequest(self.groups[group], dict(named), is_leave=False)
        request.first, request.count = number, 1
        queue = self.queues[client]
        if self.literal:
            self._accept(sent, request, {})
            return
        queue.offer(request)
        self.retry(client)

    def retry(self, client: ProcessId) -> None:
        queue = self.queues[client]
        head = queue.head()
        while head is not None and not queue.is_named(head, self.groups, client):
            queue.take()
            sent = next(one for one in SENT if one[:3] == (client, head.group.id, head.first))
            self._accept(sent, head, queue.context)
            head = queue.head()

    def _accept(self, sent: Sent, request: NamedRequest, context: Context) -> None:
        client, group, number, _ = sent
        self.groups[group].accept(client, number, b"", 0, {group: 0}, 0)
        own = {id: one.number for id, one in self.groups.items()}
        self.accepted.append((sent, merge(own, context)))


def deliver(accepted: list[tuple[Sent, Context]]) -> list[Sent]:
    """What a member of both groups delivers in the end; names that are left it replaces by numbers, as it knows all."""
    numbers = {sent[:3]: context[sent[1]] for sent, context in accepted}
    delivered = {G: 0, H: 0}
    done: list[Sent] = []
    progress = True
    while progress:
        progress = False
        for sent, context in accepted:
            client, group, _, named = sent
            full = dict(context)
            for other, number in named.items():
                full[other] = max(full.get(other, 0), numbers[client, other, number])
            if sent not in done and is_deliverable(full, group, delivered):
                delivered[group] = full[group]
                done.append(sent)
                progress = True
    return done


def test_hole_e_the_literal_rule_deadlocks_when_a_message_is_accepted_before_one_that_it_names() -> None:
    sequencer = Sequencer(G, H, literal=True)
    sequencer.receive(SENT[1])
    sequencer.receive(SENT[0])
    assert deliver(sequencer.accepted) == []


@pytest.mark.parametrize("arriving", list(permutations(range(4))))
def test_in_no_order_of_arrival_do_accepts_wait_for_each_other(arriving: tuple[int, ...]) -> None:
    """G and H at two sequencers. What p sends to each arrives there in its order; what becomes of it p hears late: a
    quarter of all orders of the two links, of q's, and of what is told, each in every place."""
    for told_at in permutations(range(4)):
        one, other = Sequencer(G), Sequencer(H)
        at = {G: one, H: other}
        waiting = {P: [sent for sent in SENT if sent[0] == P], Q: [sent for sent in SENT if sent[0] == Q]}
        for place in (*arriving, *told_at):
            if place < 3 and waiting[P]:
                group = (G, H)[place % 2]
                sent = next((one for one in waiting[P] if one[1] == group), waiting[P][0])
                waiting[P].remove(sent)
                at[sent[1]].receive(sent)
            elif waiting[Q]:
                at[H].receive(waiting[Q].pop())
            tell(one, other)
        for _ in range(4):
            tell(one, other)
        accepted = one.accepted + other.accepted
        assert len(accepted) == 4
        done = deliver(accepted)
        assert [sent for sent in done if sent[0] == P] == SENT[:3]
        assert len(done) == 4


def tell(one: Sequencer, other: Sequencer) -> None:
    """p has heard of places, and tells the other sequencer."""
    for here, there in ((one, other), (other, one)):
        for group in here.groups.values():
            if P in group.last_numbers:
                there.queues[P].hear(group.id, group.last_numbers[P], group.last_places[P])
        there.retry(P)


def test_numbers_that_another_sequencer_gave_are_waited_for() -> None:
    queue = AcceptanceQueue()
    queue.tell({G: 4})
    queue.offer(NamedRequest(SequencedGroup("h", H, 0, 64), {G: 1}, is_leave=False))
    head = queue.head()
    assert head is not None
    assert queue.is_named(head, {}, P)
    queue.hear(G, 1, 7)
    assert not queue.is_named(head, {}, P)
    queue.take()
    assert queue.context == {G: 7}


def test_what_was_refused_is_waited_for_no_more_even_if_its_group_was_joined_since() -> None:
    queue, joined = AcceptanceQueue(), SequencedGroup("g", G, 0, 64)
    joined.last_numbers[P] = 1  # as the join has told; no message has a place
    queue.offer(NamedRequest(SequencedGroup("h", H, 0, 64), {G: 1}, is_leave=False))
    head = queue.head()
    assert head is not None
    assert queue.is_named(head, {G: joined}, P)
    queue.hear(G, 1, NO_PLACE)
    assert not queue.is_named(head, {G: joined}, P)
    queue.take()
    assert queue.context == {}


def test_of_a_number_and_a_name_in_one_entry_the_larger_is_kept() -> None:
    queue = AcceptanceQueue()
    queue.hear(G, 1, 3)
    queue.tell({G: 9})
    queue.offer(NamedRequest(SequencedGroup("h", H, 0, 64), {G: 1}, is_leave=False))
    head = queue.head()
    assert head is not None
    assert not queue.is_named(head, {}, P)
    queue.take()
    assert queue.context == {G: 9}


def test_a_number_is_forgotten_when_the_next_message_of_the_client_has_one() -> None:
    queue = AcceptanceQueue()
    queue.hear(G, 1, 3)
    queue.hear(G, 2, 5)
    queue.hear(G, 1, 3)
    assert queue._numbers == {G: (2, 5)}


def test_what_a_client_told_is_the_context_of_what_it_sends_next_and_not_of_what_it_sent_before() -> None:
    queue = AcceptanceQueue()
    group = SequencedGroup("h", H, 0, 64)
    queue.offer(NamedRequest(group, {G: 1}, is_leave=False))
    queue.tell({3: 8})
    queue.offer(NamedRequest(group, {}, is_leave=False))
    head = queue.head()
    assert head is not None
    assert queue.is_named(head, {}, P), "nothing overtakes it"
    queue.hear(G, 1, 2)
    assert not queue.is_named(head, {}, P)
    queue.take()
    assert queue.context == {G: 2}
    queue.take()
    assert queue.context == {G: 2, 3: 8}


def test_what_is_dropped_with_its_group_leaves_its_context() -> None:
    queue = AcceptanceQueue()
    gone, here = SequencedGroup("g", G, 0, 64), SequencedGroup("h", H, 0, 64)
    queue.tell({3: 8})
    queue.offer(NamedRequest(gone, {}, is_leave=False))
    queue.offer(NamedRequest(here, {G: 1}, is_leave=False))
    queue.drop_group(G)
    head = queue.head()
    assert head is not None
    assert (head.group, queue.context) == (here, {3: 8})
    assert queue.is_named(head, {H: here}, P), "what was dropped is accepted elsewhere, first"


def test_a_client_has_so_many_requests_at_most() -> None:
    queue = AcceptanceQueue(requests_max=3)
    group = SequencedGroup("h", H, 0, 64)
    for _ in range(3):
        queue.offer(NamedRequest(group, {}, is_leave=False))
    with pytest.raises(MalformedError, match="requests"):
        queue.offer(NamedRequest(group, {}, is_leave=False))
