"""Ordered broadcast: one order everywhere on a bad network, then silence; and how many acknowledgements that takes."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from tests.stacks.conversation.library.plays import broadcast_problem, play_broadcast, speakers_of
from tests.stacks.conversation.library.stage import Stage


@pytest.mark.parametrize("seed", range(150))
def test_one_order_everywhere_and_then_silence(seed: int) -> None:
    assert broadcast_problem(seed) is None


@pytest.mark.parametrize("seed", range(30))
def test_the_order_is_one_of_the_context(seed: int) -> None:
    stage, speakers, _ = play_broadcast(seed, 2 + seed % 4)
    graph = stage.hosts[0].replica.graph
    nodes = [graph.node(mid) for mid, _ in speakers[0].order]
    for place, node in enumerate(nodes):
        assert node is not None
        assert not any(later is not None and later.precedes(node) for later in nodes[place + 1 :])


@pytest.mark.parametrize("participants", [2, 3, 6])
def test_the_quiet_rule_needs_one_acknowledgement_of_each_who_has_nothing_to_say(participants: int) -> None:
    stage = Stage(participants, Random(1))
    speakers = speakers_of(stage, FilterOptions())
    for number in range(10):
        speakers[0].broadcast.offer(b"%d" % number)
        stage.poll(0)
        stage.rest()
    assert [speaker.broadcast.acks() for speaker in speakers] == [0] + [10] * (participants - 1)
    assert all(len(speaker.order) == 10 for speaker in speakers)


@pytest.mark.parametrize("seed", range(40))
def test_acknowledgements_are_at_most_one_per_message_and_participant(seed: int) -> None:
    stage, speakers, offered = play_broadcast(seed, 2 + seed % 4)
    assert all(speaker.broadcast.acks() <= offered for speaker in speakers)
    assert sum(speaker.broadcast.acks() for speaker in speakers) <= offered * (stage.count - 1)


def test_who_speaks_needs_no_acknowledgements() -> None:
    """Both always have something to say: each message acknowledges those that it was sent in the context of."""
    stage = Stage(2, Random(3))
    speakers = speakers_of(stage, FilterOptions(ack_delay_ns=10 * MILLISECOND_NS, ack_every=100))
    for number in range(50):
        for speaker in speakers:
            speaker.broadcast.offer(b"%d" % number)
        stage.poll_all()
        stage.run(5 * MILLISECOND_NS)
    stage.rest()
    assert all(len(speaker.order) == 100 for speaker in speakers)
    assert sum(speaker.broadcast.acks() for speaker in speakers) <= 2


def test_full_windows_on_both_sides_do_not_block_each_other() -> None:
    stage = Stage(3, Random(4))
    speakers = speakers_of(stage, FilterOptions(window=3, ack_every=1))
    for number in range(40):
        for speaker in speakers:
            speaker.broadcast.offer(b"%d" % number)
    stage.poll_all()
    stage.rest()
    assert all(len(speaker.order) == 120 for speaker in speakers)


@pytest.mark.parametrize("seed", range(10))
def test_unstable_acknowledgements_stay_within_their_bound(seed: int) -> None:
    """2 w (n - 1), as the file of the rule proves."""
    random = Random(seed)
    window, participants = random.choice([1, 2, 5]), random.choice([2, 3, 5])
    stage = Stage(participants, random)
    speakers = speakers_of(stage, FilterOptions(window=window))
    for number in range(60):
        speakers[0].broadcast.offer(b"%d" % number)
        speakers[-1].broadcast.offer(b"%d" % number)
    stage.poll_all()
    worst = 0
    while not stage.is_quiet():
        stage.run(MILLISECOND_NS)
        for rank, host in enumerate(stage.hosts):
            graph = host.replica.graph
            worst = max(worst, graph.last[rank] - graph.stable_to[rank])
    assert all(len(speaker.order) == 120 for speaker in speakers)
    assert worst <= window + 2 * window * (participants - 1)


def test_who_is_silent_becomes_known_and_can_be_masked_out() -> None:
    stage = Stage(3, Random(5))
    speakers = speakers_of(stage, FilterOptions(tries=3))
    stage.dead.add(2)
    speakers[0].broadcast.offer(b"x")
    stage.poll(0)
    stage.run(2000 * MILLISECOND_NS)
    assert speakers[0].broadcast.laggards() == speakers[1].broadcast.laggards() == [2]
    assert speakers[0].order == []
    for rank in range(2):
        stage.hosts[rank].replica.mask_out(2)
        stage.poll(rank)
    stage.rest()
    assert speakers[0].order == speakers[1].order == [((0, 1), b"x")]
    assert speakers[0].broadcast.laggards() == []
