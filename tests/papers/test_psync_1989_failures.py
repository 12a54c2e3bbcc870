"""psync-1989, claim by claim: section 3.2, what is lost and who fails. Each test names the claim that it shows."""

import pytest

from antiphon.kernel.codec import unseal
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.kernel.packet_kinds import ASK
from antiphon.stacks.conversation.free.graph_replica import ASK_EVERYBODY, ASK_SENDER
from antiphon.stacks.conversation.free.wire import (
    RESENT,
)
from tests.papers.conversation_table import A, B, C, D, Talk, added, asked, kinds, mid, name, names

LONG_NS = 10_000 * MILLISECOND_NS

# ---- 3.2.1: messages that are lost, doubled or late ----------------------------------------------------------------


def test_3_2_1_a_message_that_comes_twice_counts_once() -> None:
    talk = Talk(2)
    talk.send(A)
    [packet] = talk.take(A, B)
    talk.arrive(B, packet, packet, packet)
    assert talk.replica(B) == ["a1"]
    assert talk.receive(B) == ["a1"]


def lost_before_an_answer() -> Talk:
    """a2 and a3 are lost on the way to c, and b1, which follows them, is not."""
    talk = Talk(3)
    talk.tell(A)
    talk.send(A)
    talk.send(A)
    talk.lose(A, C)
    talk.pass_on(A, B)
    talk.receive(B)
    talk.send(B)
    talk.pass_on(B, C)
    return talk


def test_3_2_1_what_is_missing_is_asked_for_when_a_timer_expires() -> None:
    talk = lost_before_an_answer()
    assert talk.take(C, B) == [], "it may still be on the way"
    talk.wait()
    assert kinds(talk.take(C, B)) == [ASK]


def test_3_2_1_it_is_asked_of_the_host_whose_message_waits() -> None:
    """That host must have it, since it sent a message in its context; whoever sent what is missing is not asked."""
    talk = lost_before_an_answer()
    talk.wait()
    assert talk.take(C, A) == []
    talk.pass_on(C, B)
    talk.pass_on(B, C)
    assert talk.receive(C) == ["a2", "a3", "b1"]


def test_3_2_1_figure_5_a_request_tells_the_leaves_and_the_message_that_waits() -> None:
    talk = lost_before_an_answer()
    talk.wait()
    [packet] = talk.take(C, B)
    assert unseal(packet)[1] == talk.cid
    assert asked(packet, 3) == (mid("b1"), [mid("a1")])


def test_3_2_1_the_answer_is_all_between_the_two_exclusive() -> None:
    """Also the predecessors of the predecessors, though c cannot know of them."""
    talk = lost_before_an_answer()
    talk.wait()
    talk.pass_on(C, B)
    assert [(added(packet, 3).sender, added(packet, 3).number) for packet in talk.take(B, C)] == [mid("a2"), mid("a3")]


def test_3_2_1_without_a_message_all_that_follows_the_leaves_is_sent() -> None:
    talk = Talk(3)
    talk.tell(A)
    for sender in (A, B):
        talk.send(sender)
        talk.pass_on(sender, B if sender == A else A)
        talk.lose(sender, C)
    talk.hosts[C].replica.ask_everybody()
    talk.flush(C)
    [packet] = talk.take(C, A)
    assert asked(packet, 3) == (None, [mid("a1")])
    talk.arrive(A, packet)
    talk.pass_on(A, C)
    assert talk.replica(C) == ["a1", "a2", "b1"]


def test_3_2_1_no_leaves_ask_from_the_root_on() -> None:
    talk = Talk(2)
    talk.send(A)
    talk.send(A)
    talk.lose(A, B)
    talk.hosts[B].replica.ask_everybody()
    talk.flush(B)
    talk.pass_on(B, A)
    talk.pass_on(A, B)
    assert talk.receive(B) == ["a1", "a2"]


# ---- 3.2.2: the last message ---------------------------------------------------------------------------------------


def test_3_2_2_the_last_message_may_be_lost_and_nobody_knows() -> None:
    """Nothing depends on it, so nobody asks for it."""
    talk = Talk(2)
    talk.tell(A)
    talk.send(A)
    talk.lose(A, B)
    talk.wait(LONG_NS)
    talk.settle()
    assert talk.replica(B) == ["a1"]


def test_3_2_2_resend_sends_the_same_message_to_all_and_marks_it() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.send(A, b"again")
    [first] = talk.take(A, B)
    talk.lose(A, C)
    talk.resend(A, "a2")
    [second] = talk.take(A, B)
    assert talk.take(A, C) == [second]
    assert added(first, 3).section == added(second, 3).section
    assert (added(first, 3).resent, added(second, 3).resent) == (False, True)
    assert unseal(second)[4] & RESENT
    talk.arrive(B, second)
    assert talk.receive(B) == ["a2"]


def test_3_2_2_the_first_message_is_resent_as_what_it_was() -> None:
    """With the participants: whoever missed it can still begin."""
    talk = Talk(2)
    talk.send(A)
    [first] = talk.take(A, B)
    talk.resend(A, "a1")
    [second] = talk.take(A, B)
    assert kinds([first]) == kinds([second])
    talk.arrive(B, second)
    assert talk.receive(B) == ["a1"]


def test_3_2_2_who_has_it_already_sends_back_what_follows_it_immediately() -> None:
    """So a lost answer comes again: b1, but not b2, which follows by way of b1."""
    talk = Talk(2)
    talk.tell(A)
    talk.send(B)
    talk.send(B)
    talk.lose(B, A)
    talk.resend(A, "a1")
    talk.pass_on(A, B)
    assert [added(packet, 2).number for packet in talk.take(B, A)] == [1]
    assert talk.replica(B) == ["a1", "b1", "b2"], "and the copy is dropped"


def test_3_2_2_a_copy_that_is_not_marked_brings_nothing_back() -> None:
    """The network has doubled it; nobody thinks that anything was lost."""
    talk = Talk(2)
    talk.tell(A)
    talk.send(B)
    talk.send(A)
    [packet] = talk.take(A, B)
    talk.arrive(B, packet)
    talk.take(B, A)
    talk.arrive(B, packet)
    assert talk.take(B, A) == []


@pytest.mark.parametrize("keep_bodies", [False, True])
def test_3_2_2_a_stable_message_is_not_resent(keep_bodies: bool) -> None:
    """All have it, and all have answered; also where it is still there to be sent."""
    talk = Talk(3, keep_bodies=keep_bodies)
    for sender in (A, B, C):
        talk.tell(sender)
    assert talk.stable(A) == ["a1"]
    talk.resend(A, "a1")
    assert talk.take(A, B) == talk.take(A, C) == []


def test_3_2_2_any_host_can_resend_any_message_that_is_not_stable() -> None:
    """Not only its own: the mark and the message are the same."""
    talk = Talk(3)
    talk.send(A)
    talk.pass_on(A, B)
    talk.lose(A, C)
    talk.resend(B, "a1")
    talk.pass_on(B, C)
    assert talk.receive(C) == ["a1"]


# ---- 3.2.3: hosts that fail ----------------------------------------------------------------------------------------


def test_3_2_3_all_that_run_can_go_on_exchanging_messages() -> None:
    """To send needs the own view alone, to receive the predecessors, which the sender has."""
    talk = Talk(4)
    talk.tell(A)
    talk.crash(C)
    talk.crash(D)
    for _ in range(10):
        talk.tell(A)
        talk.tell(B)
    assert talk.log[A] == [f"b{number}" for number in range(1, 11)]
    assert talk.log[B] == [f"a{number}" for number in range(1, 12)]


def a_fails() -> Talk:
    """b, c and d know a1. Then a sends m' (a2) and m (a3) and fails; both are still on the way."""
    talk = Talk(4)
    talk.tell(A)
    talk.send(A)
    talk.send(A)
    talk.crash(A)
    return talk


def two_packets(talk: Talk, receiver: int) -> tuple[bytes, bytes]:
    before, message = talk.take(A, receiver)
    return before, message


def test_3_2_3_who_gets_no_answer_asks_everybody() -> None:
    talk = a_fails()
    talk.arrive(C, two_packets(talk, C)[1])
    for _ in range(ASK_SENDER):
        talk.wait(200 * MILLISECOND_NS)
        assert (len(talk.take(C, A)), talk.take(C, B)) == (1, [])
    talk.wait(200 * MILLISECOND_NS)
    assert [len(talk.take(C, other)) for other in (A, B, D)] == [1, 1, 1]


def test_3_2_3_if_that_fails_the_message_that_waits_is_discarded() -> None:
    talk = a_fails()
    talk.arrive(C, two_packets(talk, C)[1])
    assert talk.hosts[C].replica.held() == 1
    for _ in range(ASK_SENDER + ASK_EVERYBODY + 1):
        talk.wait(200 * MILLISECOND_NS)
    assert (talk.hosts[C].replica.held(), talk.replica(C)) == (0, ["a1"])


def all_images(talk: Talk) -> list[list[str]]:
    talk.settle()
    return [talk.replica(rank) for rank in (B, C, D)]


def test_3_2_3_case_1_no_other_host_receives_m() -> None:
    """Nor does m' arrive: neither is in any image."""
    talk = a_fails()
    talk.lose(A, B, C, D)
    assert all_images(talk) == [["a1"]] * 3


def test_3_2_3_case_2a_all_receive_m_and_nobody_has_its_predecessor() -> None:
    talk = a_fails()
    for rank in (B, C, D):
        talk.arrive(rank, two_packets(talk, rank)[1])
    assert all_images(talk) == [["a1"]] * 3
    assert [talk.hosts[rank].replica.held() for rank in (B, C, D)] == [0, 0, 0]


def test_3_2_3_case_2b_all_receive_m_and_all_have_its_predecessor() -> None:
    talk = a_fails()
    for rank in (B, C, D):
        talk.arrive(rank, *two_packets(talk, rank))
    assert all_images(talk) == [["a1", "a2", "a3"]] * 3


def test_3_2_3_case_2c_all_receive_m_and_some_have_its_predecessor() -> None:
    """They give it to the others that ask everybody."""
    talk = a_fails()
    talk.arrive(B, *two_packets(talk, B))
    for rank in (C, D):
        talk.arrive(rank, two_packets(talk, rank)[1])
    assert all_images(talk) == [["a1", "a2", "a3"]] * 3


def test_3_2_3_case_3_some_receive_m() -> None:
    """The others hear of it when somebody sends in its context, and get it from there."""
    talk = a_fails()
    talk.arrive(B, *two_packets(talk, B))
    talk.lose(A, C, D)
    assert all_images(talk) == [["a1", "a2", "a3"], ["a1"], ["a1"]]
    talk.receive(B)
    talk.send(B)
    assert all_images(talk) == [["a1", "a2", "a3", "b1"]] * 3


def test_3_2_3_hosts_that_have_different_predecessors_help_each_other() -> None:
    """m follows two messages of failed hosts; b has the one, c the other, and both hold m: asking, each gets both."""
    talk = Talk(5)
    talk.tell(A)
    talk.send(D)
    talk.send(4)
    for sender in (D, 4):
        talk.pass_on(sender, A)
    talk.receive(A)
    talk.send(A)
    talk.pass_on(D, B)
    talk.pass_on(4, C)
    talk.spread(A)
    for rank in (A, D, 4):
        talk.crash(rank)
    talk.settle()
    assert talk.replica(B) == talk.replica(C) == ["a1", "a2", "d1", "e1"]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_3_2_3_a_message_is_n_stable_once_n_minus_1_others_have_sent_in_its_context(n: int) -> None:
    """Then n images at least have it."""
    talk = Talk(4)
    talk.tell(A)
    node = talk.tell(A)
    for sender in range(1, n):
        talk.tell(sender)
    graph = talk.hosts[A].replica.graph
    assert graph.is_n_stable(node, n)
    assert not graph.is_n_stable(node, n + 1)
    assert sum(talk.holds(rank, "a2") for rank in range(4)) >= n


def test_3_2_3_what_is_n_stable_survives_n_minus_1_failures() -> None:
    """a2 is 2-stable: a and b have it. a fails; c and d still get it."""
    talk = Talk(4)
    talk.tell(A)
    talk.send(A)
    talk.pass_on(A, B)
    talk.lose(A, C, D)
    talk.receive(B)
    talk.send(B)
    talk.pass_on(B, A)
    assert talk.hosts[A].replica.graph.is_n_stable(talk.node(A, "a2"), 2)
    talk.crash(A)
    assert all_images(talk) == [["a1", "a2", "b1"]] * 3


def test_3_2_3_a_stable_message_is_in_all_images() -> None:
    talk = Talk(4)
    for sender in range(4):
        talk.tell(sender)
    assert talk.stable(A) == ["a1"]
    assert all(talk.holds(rank, "a1") for rank in range(4))
    assert talk.hosts[A].replica.graph.is_n_stable(talk.node(A, "a1"), 4)


def test_3_2_3_to_take_a_host_for_dead_that_is_not_does_no_harm() -> None:
    """c hears nobody, gives up a3, which waits for a2; the next message that depends on them brings both."""
    talk = Talk(3)
    talk.tell(A)
    talk.send(A)
    talk.send(A)
    talk.pass_on(A, B)
    talk.arrive(C, talk.take(A, C)[1])
    for _ in range(20):
        talk.wait(200 * MILLISECOND_NS)
        for other in (A, B):
            talk.take(C, other)
    assert (talk.hosts[C].replica.held(), talk.replica(C)) == (0, ["a1"])
    talk.receive(B)
    talk.send(B)
    talk.settle()
    assert talk.receive(C) == ["a2", "a3", "b1"]


# ---- 3.2.4: masks --------------------------------------------------------------------------------------------------


def test_3_2_4_without_a_mask_nothing_becomes_stable_when_somebody_fails() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.crash(C)
    for _ in range(5):
        talk.tell(B)
        talk.tell(A)
    assert talk.stable(A) == []


def test_3_2_4_masked_out_a_participant_is_not_waited_for() -> None:
    """All that the others have followed is stable at once, and what comes later becomes so."""
    talk = Talk(3)
    talk.tell(A)
    talk.crash(C)
    talk.tell(B)
    talk.hosts[A].mask_out(C)
    assert talk.stable(A) == ["a1"]
    talk.tell(A)
    talk.tell(B)
    assert talk.stable(A) == ["a1", "a2", "b1"]


def test_3_2_4_a_mask_is_local() -> None:
    """It changes what one participant waits for, and not who takes part."""
    talk = Talk(3)
    talk.tell(A)
    talk.tell(B)
    talk.hosts[A].mask_out(C)
    assert (talk.stable(A), talk.stable(B)) == (["a1"], [])
    assert [process.name for process in talk.hosts[A].participants] == ["a", "b", "c"]
    assert talk.take(A, B) == []


def test_3_2_4_messages_of_who_is_masked_out_are_ignored() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.hosts[A].mask_out(C)
    talk.send(C)
    talk.pass_on(C, A)
    talk.pass_on(C, B)
    assert (talk.replica(A), talk.replica(B)) == (["a1"], ["a1", "c1"])


def test_3_2_4_but_for_those_that_a_message_of_another_depends_on() -> None:
    """b has received c1 and sent in its context; so a takes it after all, and the two images stay alike."""
    talk = Talk(3)
    talk.tell(A)
    talk.hosts[A].mask_out(C)
    talk.send(C)
    talk.pass_on(C, A)
    talk.pass_on(C, B)
    talk.receive(B)
    talk.send(B)
    talk.settle(5)
    assert talk.replica(A) == ["a1", "b1", "c1"]
    assert talk.receive(A) == ["c1", "b1"]


def test_3_2_4_also_those_that_came_before_it() -> None:
    """c sent three; b's message follows the third, so all are needed."""
    talk = Talk(3)
    talk.tell(A)
    talk.hosts[A].mask_out(C)
    for _ in range(3):
        talk.send(C)
    talk.lose(C, A)
    talk.pass_on(C, B)
    talk.receive(B)
    talk.send(B)
    talk.settle(5)
    assert talk.replica(A) == ["a1", "b1", "c1", "c2", "c3"]


def test_3_2_4_masked_in_a_participant_is_heard_and_waited_for_again() -> None:
    talk = Talk(3)
    talk.tell(A)
    host = talk.hosts[A]
    host.mask_out(C)
    host.mask_in(C)
    talk.tell(B)
    assert talk.stable(A) == []
    talk.tell(C)
    assert talk.stable(A) == ["a1"]
    assert names([talk.node(A, "c1")]) == ["c1"]


def test_3_2_4_what_was_ignored_comes_again_after_the_mask() -> None:
    """c was slow, not dead. Its first message after the mask brings those that were thrown away before."""
    talk = Talk(3)
    talk.tell(A)
    talk.hosts[A].mask_out(C)
    talk.send(C)
    talk.pass_on(C, A)
    assert talk.replica(A) == ["a1"]
    talk.hosts[A].mask_in(C)
    talk.send(C)
    talk.settle(5)
    assert talk.receive(A) == ["c1", "c2"]


def test_3_2_4_the_rest_may_go_on_for_any_time() -> None:
    """With the failed masked out everywhere, the window never closes and memory does not grow."""
    talk = Talk(3)
    talk.tell(A)
    talk.crash(C)
    for rank in (A, B):
        talk.hosts[rank].mask_out(C)
    for _ in range(2000):
        talk.tell(A)
        last = talk.tell(B)
    assert talk.hosts[A].replica.graph.bodies <= 3
    assert name(last) == "b2000"
