"""send_stable as in Figure 6: it succeeds where all can answer, tries again as often as it is told, and fails."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.datagrams import (
    Acknowledger,
    receive_datagrams,
    send_datagram,
    send_reliably,
)
from antiphon.stacks.conversation.library.stable import (
    FAILURE,
    SUCCESS,
    WAITING,
    StableSend,
    is_quorum_stable,
    majority,
)
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage

TIMEOUT_NS = 10 * MILLISECOND_NS


def ready(stage: Stage) -> list[list[bytes]]:
    """Everybody but the first acknowledges datagrams; what each got."""
    got: list[list[bytes]] = [[] for _ in range(stage.count)]

    def make(conversation: ConversationCore, rank: int) -> Actor:
        acknowledger = Acknowledger(conversation)

        def poll(now_ns: int) -> None:
            if rank:
                got[rank] += [payload for _, payload in acknowledger.poll()]

        return Actor(poll)

    stage.cast(make)
    return got


def sending(stage: Stage, sender: StableSend) -> None:
    stage.actors[0] = Actor(lambda now_ns: void(sender.poll(now_ns)), sender.deadline_ns)
    stage.flush(0)


def void(_: object) -> None:
    """For what is called for its effect."""


def test_it_succeeds_when_everybody_has_answered() -> None:
    stage = Stage(3, Random(1))
    got = ready(stage)
    sender = send_reliably(stage.hosts[0], b"x", 0, tries=3, timeout_ns=TIMEOUT_NS)
    assert sender.outcome == WAITING
    sending(stage, sender)
    stage.rest()
    assert sender.outcome == SUCCESS
    assert got[1:] == [[b"x"], [b"x"]]
    assert stage.hosts[0].replica.graph.last == [1, 1, 1]


@pytest.mark.parametrize("seed", range(60))
def test_it_succeeds_on_a_bad_network_too(seed: int) -> None:
    stage = bad_stage(seed, 2 + seed % 4)
    got = ready(stage)
    for number in range(5):
        sender = send_reliably(stage.hosts[0], b"%d" % number, stage.now_ns, tries=200, timeout_ns=TIMEOUT_NS)
        sending(stage, sender)
        stage.rest()
        assert sender.outcome == SUCCESS
        assert all(each == [b"%d" % before for before in range(number + 1)] for each in got[1:])


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_it_fails_after_so_many_tries(tries: int) -> None:
    stage = Stage(3, Random(1))
    ready(stage)
    stage.dead.add(2)
    sender = send_reliably(stage.hosts[0], b"x", 0, tries=tries, timeout_ns=TIMEOUT_NS)
    sending(stage, sender)
    stage.rest()
    assert sender.outcome == FAILURE
    assert stage.hosts[0].replica.counts.get("resent", 0) == tries - 1


def test_what_others_say_meanwhile_is_kept_for_the_caller_and_ends_no_try() -> None:
    stage = Stage(3, Random(1))
    ready(stage)
    stage.dead.add(2)
    sender = StableSend(stage.hosts[0], b"x", 0, tries=1, timeout_ns=TIMEOUT_NS)
    sending(stage, sender)
    stage.run(TIMEOUT_NS // 2)
    for number in range(5):
        stage.hosts[1].receive()
        stage.hosts[1].send(b"%d" % number)
        stage.flush(1)
    stage.run(TIMEOUT_NS // 2 - 1)
    assert sender.outcome == WAITING
    assert [payload for _, payload in sender.received] == [b"0", b"1", b"2", b"3", b"4"]
    stage.rest()
    assert sender.outcome == FAILURE


def test_a_lost_answer_is_made_good_although_it_follows_by_way_of_another() -> None:
    """b answers a; c hears both and answers; both answers are lost on the way to a."""
    stage = Stage(3, Random(1))
    ready(stage)
    a, b, c = stage.hosts
    sender = send_reliably(a, b"x", 0, tries=10, timeout_ns=TIMEOUT_NS)
    stage.actors[0] = Actor(lambda now_ns: void(sender.poll(now_ns)), sender.deadline_ns)
    first = a.replica.out.pop()[1]
    for host in (b, c):
        host.take(7, 0, 0, first, 0)
    Acknowledger(b).poll()
    answer = b.replica.out.pop()[1]
    c.take(8, 1, 0, answer, 0)
    assert len(Acknowledger(c).poll()) == 1
    c.replica.out.clear()
    stage.rest()
    assert sender.outcome == SUCCESS


def test_quorum_stable_wants_more_than_half() -> None:
    assert [majority(participants) for participants in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    stage = Stage(5, Random(1))
    ready(stage)
    stage.dead |= {3, 4}
    graph = stage.hosts[0].replica.graph
    sender = StableSend(stage.hosts[0], b"\x00x", 0, tries=5, timeout_ns=TIMEOUT_NS, participants=3)
    assert not is_quorum_stable(graph, sender.node)
    sending(stage, sender)
    stage.rest()
    assert sender.outcome == SUCCESS
    assert is_quorum_stable(graph, sender.node)
    assert not graph.is_stable(sender.node)


def test_a_quorum_that_cannot_be_had_fails() -> None:
    stage = Stage(5, Random(1))
    ready(stage)
    stage.dead |= {2, 3, 4}
    sender = StableSend(stage.hosts[0], b"\x00x", 0, tries=5, timeout_ns=TIMEOUT_NS, participants=3)
    sending(stage, sender)
    stage.rest()
    assert sender.outcome == FAILURE


def test_a_datagram_is_a_graph_of_one_message() -> None:
    stage = Stage(2, Random(1))
    stage.cast(lambda conversation, rank: Actor(lambda now_ns: None))
    send_datagram(stage.hosts[0], b"x")
    stage.flush(0)
    stage.rest()
    assert [payload for _, payload in receive_datagrams(stage.hosts[1])] == [b"x"]
    assert all(host.replica.graph.last == [1, 0] for host in stage.hosts)


def test_a_lost_datagram_stays_lost() -> None:
    stage = Stage(2, Random(1), loss=1.0)
    stage.cast(lambda conversation, rank: Actor(lambda now_ns: None))
    send_datagram(stage.hosts[0], b"x")
    stage.flush(0)
    assert stage.is_quiet()
    assert receive_datagrams(stage.hosts[1]) == []
