"""psync-1989, claim by claim: section 5, participants that come back. Each test names the claim that it shows."""

from random import Random

import pytest

from antiphon.kernel.codec import unseal
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import ADD, ASK, RESTART, START
from antiphon.stacks.conversation.free.conversation import ReplayError
from antiphon.stacks.conversation.free.wire import (
    ANSWER,
)
from tests.papers.conversation_table import A, B, C, D, Talk, added, asked, kinds, mid, names

# ---- 5.1: from a checkpoint ----------------------------------------------------------------------------------------


def history(rounds: int = 3) -> Talk:
    """A conversation in which all is kept: each in turn, all hear all."""
    talk = Talk(3, keep_bodies=True)
    for _ in range(rounds):
        for sender in (A, B, C):
            talk.tell(sender, b"%d" % sender)
    return talk


def come_back(talk: Talk, rank: int, leaves: list[str]) -> None:
    talk.restart(rank, leaves)
    talk.settle(5)
    recovery = talk.hosts[rank].recovery
    assert recovery is not None
    assert recovery.complete


def test_5_1_a_checkpoint_names_the_conversation_the_participants_and_the_leaves_of_the_view() -> None:
    """get_cid, participants, get_mids: plain values, that can be written down and named again."""
    talk = history()
    host = talk.hosts[B]
    assert host.cid == talk.cid
    assert host.participants == [ProcessId(name, 0) for name in "abc"]
    assert host.mids(host.view.leaves()) == [mid("c3")]


def test_5_1_after_sending_the_view_has_one_leaf() -> None:
    """The best moment for a checkpoint: one name to write down."""
    talk = Talk(3)
    talk.tell(A)
    for sender in (B, C):
        talk.send(sender)
    for sender in (B, C):
        talk.spread(sender)
    talk.receive(A)
    assert len(talk.hosts[A].view.leaves()) == 2
    talk.send(A)
    assert talk.hosts[A].mids(talk.hosts[A].view.leaves()) == [mid("a2")]


def test_5_1_figure_10_who_is_back_tells_all() -> None:
    """Which conversation, and who."""
    talk = history()
    talk.crash(B)
    talk.restart(B, [])
    for other in (A, C):
        [packet] = talk.take(B, other)
        kind, cid, _, via, flags, _ = unseal(packet)
        assert (kind, cid, via, flags) == (RESTART, talk.cid, B, 0)


def test_5_1_the_participants_are_notified() -> None:
    """Out of band: it is no message of the conversation. They may mask it in then."""
    talk = history()
    talk.crash(B)
    for rank in (A, C):
        talk.hosts[rank].mask_out(B)
    come_back(talk, B, [])
    assert [talk.hosts[rank].restarted for rank in (A, C)] == [[B], [B]]
    assert talk.receive(A) == []
    talk.hosts[A].mask_in(B)
    talk.tell(A)
    talk.tell(C)
    assert "a4" not in talk.stable(A)


def test_5_1_each_host_answers_with_its_leaves_as_ordinary_messages() -> None:
    talk = history()
    talk.crash(B)
    talk.send(A)
    talk.lose(A, C)
    talk.restart(B, [])
    for rank, leaf in ((A, "a4"), (C, "c3")):
        talk.pass_on(B, rank)
        packets = talk.take(rank, B)
        messages = [packet for packet in packets if unseal(packet)[0] == ADD]
        assert [(added(one, 3).sender, added(one, 3).number) for one in messages] == [mid(leaf)]
        assert [unseal(one)[4] & ANSWER for one in packets if unseal(one)[0] == RESTART] == [ANSWER]


def test_5_1_the_image_is_rebuilt_by_the_protocol_for_lost_messages() -> None:
    """The leaf waits for its predecessors, and they are asked for: all from the root on."""
    talk = history()
    talk.crash(B)
    talk.restart(B, [])
    talk.pass_on(B, A)
    talk.pass_on(A, B)
    assert (talk.replica(B), talk.hosts[B].replica.held()) == ([], 1)
    talk.wait()
    requests = [packet for packet in talk.take(B, A) if unseal(packet)[0] == ASK]
    assert asked(requests[0], 3) == (mid("c3"), [])
    talk.arrive(A, *requests)
    talk.pass_on(A, B)
    assert talk.replica(B) == talk.replica(A)
    assert talk.edges(B) == talk.edges(A)


def test_5_1_parts_that_only_one_host_has_come_from_there() -> None:
    """a and c have each something that the other lacks."""
    talk = history()
    talk.crash(B)
    for sender, other in ((A, C), (C, A)):
        talk.send(sender)
        talk.lose(sender, other)
    come_back(talk, B, [])
    assert {"a4", "c4"} <= set(talk.replica(B))


def test_5_1_the_view_is_restored_as_the_leaves_of_the_checkpoint_tell() -> None:
    """It starts receiving from there: what came between checkpoint and failure comes again, and what is new."""
    talk = history(2)
    leaves = names(talk.hosts[B].view.leaves())
    assert leaves == ["c2"]
    talk.tell(A)
    talk.tell(C)
    talk.crash(B)
    talk.tell(A)
    come_back(talk, B, leaves)
    assert talk.view(B) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert talk.receive(B) == ["a3", "c3", "a4"]


def test_5_1_it_does_not_receive_again_what_it_sent_before_the_checkpoint() -> None:
    talk = history(2)
    come_back(talk, B, ["c2"])
    assert talk.receive(B) == []
    assert names(talk.hosts[B].view.leaves()) == ["c2"]
    assert names(talk.send(B).predecessors) == ["c2"]


def test_5_1_nothing_is_received_before_the_image_is_there() -> None:
    """The view begins when the image is rebuilt, or it would begin with a hole."""
    talk = history()
    talk.crash(B)
    talk.restart(B, [])
    assert talk.hosts[B].is_recovering()
    assert not talk.hosts[B].may_send()
    talk.pass_on(B, A)
    talk.pass_on(A, B)
    assert talk.receive(B) == []
    talk.settle(5)
    assert talk.receive(B)[0] == "a1"


def test_5_1_messages_stay_with_those_who_may_be_asked_for_them() -> None:
    """Where participants can come back, stable messages are not freed."""
    talk = history()
    assert talk.stable(A)
    assert all(node.body is not None for node in talk.hosts[A].replica.graph.in_order())


def test_5_1_a_host_recovers_what_it_can_from_its_own_storage() -> None:
    """…and falls back on the others for the rest. What was written may lag behind: here the last three are lacking."""
    talk = Talk(3, keep_bodies=True, recording=True)
    for _ in range(4):
        for sender in (A, B, C):
            talk.tell(sender)
    records = talk.hosts[B].records
    assert records is not None
    talk.crash(B)
    talk.restart(B, [], sections=records[:-3])
    assert len(talk.replica(B)) == 9
    talk.pass_on(B, A)
    talk.pass_on(A, B)
    talk.wait()
    requests = [packet for packet in talk.take(B, A) if unseal(packet)[0] == ASK]
    assert asked(requests[0], 3) == (mid("c4"), [mid("c3")]), "from what it has on"
    talk.arrive(A, *requests)
    talk.settle(5)
    assert talk.replica(B) == talk.replica(A)


def test_5_1_storage_may_have_holes() -> None:
    """It is written without waiting; whatever does not fit is left to the others."""
    talk = Talk(3, keep_bodies=True, recording=True)
    for _ in range(4):
        for sender in (A, B, C):
            talk.tell(sender)
    records = talk.hosts[B].records
    assert records is not None
    talk.crash(B)
    talk.restart(B, [], sections=[records[0], *records[4:], b"not a message at all"])
    assert talk.replica(B) == ["a1"]
    talk.settle(5)
    assert talk.replica(B) == talk.replica(A)


@pytest.mark.parametrize("seed", range(10))
def test_5_1_what_is_n_stable_is_there_if_n_minus_1_have_failed(seed: int) -> None:
    """b comes back while another of four is down: all that is 3-stable is recovered, and with it what leads to it."""
    random = Random(seed)
    talk = Talk(4, keep_bodies=True)
    talk.tell(A)
    for _ in range(80):
        rank, other = random.sample(range(4), 2)
        talk.pass_on(other, rank)
        talk.receive(rank)
        if random.random() < 0.5:
            talk.send(rank)
    graph = talk.hosts[B].replica.graph
    safe = names(node for node in graph.in_order() if graph.is_n_stable(node, 3))
    for sender in range(4):
        for other in range(4):
            talk.take(sender, other)
    talk.crash(B)
    talk.crash(random.choice([A, C, D]))
    talk.restart(B, [])
    talk.settle(10)
    talk.hosts[B].settle_for_less()
    assert safe
    assert set(safe) <= set(talk.replica(B))


def test_5_1_who_comes_back_counts_among_the_failed() -> None:
    """The paper says n - 1 others. But b4 is 2-stable, in the images of b and c alone, and lost with these two."""
    talk = history()
    talk.send(B)
    talk.pass_on(B, C)
    talk.lose(B, A)
    talk.receive(C)
    talk.send(C)
    talk.pass_on(C, B)
    talk.lose(C, A)
    assert talk.hosts[B].replica.graph.is_n_stable(talk.node(B, "b4"), 2)
    talk.crash(B)
    talk.crash(C)
    talk.restart(B, [])
    talk.settle(10)
    talk.hosts[B].settle_for_less()
    assert "b4" not in talk.replica(B)


def test_5_1_a_part_of_the_history_is_told_to_be_one() -> None:
    """Only c had b's last message, and c is down: the checkpoint's leaf is nowhere."""
    talk = history()
    talk.send(B)
    talk.pass_on(B, C)
    talk.lose(B, A)
    talk.crash(B)
    talk.crash(C)
    talk.restart(B, ["b4"])
    talk.settle(10)
    assert talk.hosts[B].is_recovering()
    talk.hosts[B].settle_for_less()
    recovery = talk.hosts[B].recovery
    assert recovery is not None
    assert (recovery.complete, recovery.silent, recovery.lacking) == (False, [C], [mid("b4")])
    assert talk.replica(B) == talk.replica(A)


def test_5_1_the_conversation_goes_on_with_who_is_back() -> None:
    talk = history()
    talk.crash(B)
    talk.tell(A)
    come_back(talk, B, ["c3"])
    assert talk.receive(B) == ["a4"]
    talk.tell(B)
    assert talk.log[A][-1] == talk.log[C][-1] == "b4"
    assert "a4" in names(talk.node(A, "b4").predecessors)


# ---- 5.2: by running again -----------------------------------------------------------------------------------------


def test_5_2_without_leaves_everything_is_received_again_from_the_root_on() -> None:
    talk = history()
    received = talk.log[B]
    talk.crash(B)
    come_back(talk, B, [])
    assert talk.view(B) == []
    assert talk.receive_one(B) == "a1"
    assert talk.log[B] == received[:1]


class Counter:
    """A deterministic program: it sums what it receives, and says the sum after every message of a's."""

    def __init__(self, talk: Talk, rank: int) -> None:
        self.talk = talk
        self.rank = rank
        self.sum = 0

    def run(self) -> None:
        while (one := self.talk.hosts[self.rank].receive()) is not None:
            self.sum += int(one[1])
            if one[0].sender == A:
                self.talk.send(self.rank, b"%d" % self.sum)


def test_5_2_a_deterministic_program_reaches_the_state_that_it_had() -> None:
    """And its view is what it was; nothing that it had said is sent a second time."""
    talk = Talk(3, keep_bodies=True)
    programs = {rank: Counter(talk, rank) for rank in (B, C)}
    for number in range(1, 6):
        talk.send(A, b"%d" % number)
        for sender, receiver in ((A, B), (B, C), (A, C), (C, B), (B, A), (C, A)):
            talk.pass_on(sender, receiver)
            if receiver == A:
                talk.receive(A)
            else:
                programs[receiver].run()
    state, view, leaves = programs[B].sum, talk.view(B), names(talk.hosts[B].view.leaves())
    said = talk.hosts[B].replica.graph.last[B]
    talk.crash(B)
    come_back(talk, B, [])
    sent = talk.sent
    again = Counter(talk, B)
    again.run()
    assert (again.sum, talk.view(B), names(talk.hosts[B].view.leaves())) == (state, view, leaves)
    assert talk.hosts[B].replica.graph.last[B] == said
    assert talk.sent == sent


def test_5_2_what_was_said_before_is_suppressed_and_keeps_its_name() -> None:
    talk = history()
    talk.crash(B)
    come_back(talk, B, [])
    assert talk.receive_one(B) == "a1"
    sent = talk.sent
    assert talk.send(B, b"1") is talk.node(B, "b1")
    assert talk.sent == sent


def test_5_2_a_program_that_is_not_deterministic_is_found_out() -> None:
    talk = history()
    talk.crash(B)
    come_back(talk, B, [])
    talk.receive_one(B)
    with pytest.raises(ReplayError) as caught:
        talk.send(B, b"something else")
    assert caught.value.mid == mid("b1")


def test_5_2_when_it_has_caught_up_it_speaks_anew() -> None:
    talk = history()
    talk.crash(B)
    come_back(talk, B, [])
    for _ in range(3):
        while talk.receive_one(B) not in (None, "a1", "a2", "a3"):
            pass
        talk.send(B, b"1")
    talk.receive(B)
    node = talk.send(B, b"new")
    assert node.mid() == mid("b4")
    assert kinds(talk.take(B, A))[-1:] == [ADD]


def test_5_2_also_who_opened_the_conversation_can_run_again() -> None:
    """Its first message, which tells who takes part, is not sent again either."""
    talk = history()
    talk.crash(A)
    talk.restart(A, [])
    talk.wait(200 * MILLISECOND_NS)
    talk.settle(5)
    sent = talk.sent
    assert talk.send(A, b"0").mid() == mid("a1")
    assert talk.sent == sent
    assert START not in kinds(talk.take(A, B))
