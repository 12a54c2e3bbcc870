"""psync-1989, claim by claim: sections 2 (the abstraction) and 3.1 (the basic protocol).

Figures are drawn from what the text says of them. Each test names the claim that it shows.
"""

from itertools import permutations
from random import Random

import pytest

from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import Options
from antiphon.kernel.packet_kinds import ADD, START
from antiphon.stacks.conversation.free.conversation import ConversationCore, conversation_id
from antiphon.stacks.conversation.free.wire import (
    decode_start,
)
from tests.papers.conversation_table import NAMES, A, B, C, D, E, F, Talk, added, mid, name, names

# ---- 2: the abstraction --------------------------------------------------------------------------------------------


def test_2_only_participants_take_part() -> None:
    """Who was not named when the conversation began can neither open it nor send to it."""
    with pytest.raises(UsageError, match="not among the participants"):
        ConversationCore(7, [ProcessId("a", 0)], ["a"], ProcessId("x", 0), Options())
    talk = Talk(3)
    talk.send(A)
    [packet] = talk.take(A, B)
    kind, _, _, _, flags, _ = unseal(packet)
    with pytest.raises(MalformedError):
        talk.hosts[B].take(kind, 3, flags, packet, 0)
    assert talk.replica(B) == []


def test_2_active_open_makes_an_empty_conversation() -> None:
    """It holds no messages, and nothing is outstanding."""
    talk = Talk(3)
    assert talk.replica(A) == []
    assert talk.hosts[A].view.roots() == talk.hosts[A].view.leaves() == []
    assert not talk.hosts[A].view.outstanding()


def test_2_each_receives_all_messages_of_the_others_and_none_of_its_own() -> None:
    talk = Talk(3)
    for sender in (A, B, C, A):
        talk.tell(sender)
    assert talk.log == [["b1", "c1"], ["a1", "c1", "a2"], ["a1", "b1", "a2"]]


def figure_1() -> Talk:
    """m1 is a1; m2 (b1) and m3 (c1) follow it alone; m4 (d1) follows m1 and m3; m5 (e1) follows all."""
    talk = Talk(6)
    talk.send(A)
    for rank in (B, C, D, E):
        talk.pass_on(A, rank)
        talk.receive(rank)
    talk.send(B)
    talk.send(C)
    talk.pass_on(C, D)
    talk.receive(D)
    talk.send(D)
    for sender in (B, C, D):
        talk.pass_on(sender, E)
    talk.receive(E)
    talk.send(E)
    return talk


CALLED = {"m1": "a1", "m2": "b1", "m3": "c1", "m4": "d1", "m5": "e1"}


def test_2_figure_1_the_graph_has_no_redundant_edges() -> None:
    """m1 also precedes m4 and m5, and m3 m5; but longer paths tell that."""
    talk = figure_1()
    assert talk.edges(E) == {"a1-b1", "a1-c1", "c1-d1", "b1-e1", "d1-e1"}


def test_2_figure_1_immediate_predecessors() -> None:
    """Those of m5 are m2 and m4."""
    talk = figure_1()
    assert names(talk.hosts[E].view.prev(talk.node(E, "e1"))) == ["b1", "d1"]


def test_2_figure_1_same_logical_time() -> None:
    """Neither of m2 and m3 is in the context of the other; nor of m2 and m4."""
    talk = figure_1()
    for one, other in (("b1", "c1"), ("b1", "d1")):
        assert not talk.node(E, one).precedes(talk.node(E, other))
        assert not talk.node(E, other).precedes(talk.node(E, one))
    assert talk.node(E, "a1").precedes(talk.node(E, "e1")), "not by an edge, but by a path"


def test_2_figure_1_a_view_is_what_was_sent_or_received() -> None:
    """When m4 was sent its sender's view was m1 and m3; m2 was outstanding."""
    talk = figure_1()
    assert talk.view(D) == ["a1", "c1", "d1"]
    talk.pass_on(B, D)
    assert talk.hosts[D].view.outstanding()
    assert names(talk.hosts[D].view.leaves()) == ["d1"]


def test_2_figure_1_the_valid_orders_of_receipt() -> None:
    """Three of the 120 orders respect the context. A message that arrives before its context waits for it."""
    valid = {("m1", "m2", "m3", "m4", "m5"), ("m1", "m3", "m2", "m4", "m5"), ("m1", "m3", "m4", "m2", "m5")}
    seen = set()
    for order in permutations(CALLED):
        talk = figure_1()
        for message in order:
            talk.pass_on(mid(CALLED[message])[0], F)
            talk.receive(F)
        received = tuple(message for one in talk.log[F] for message, called in CALLED.items() if called == one)
        assert order not in valid or received == order
        seen.add(received)
    assert seen == valid


def test_2_receive_has_nothing_while_nothing_is_outstanding() -> None:
    talk = Talk(2)
    assert talk.receive_one(B) is None
    talk.send(A)
    assert talk.receive_one(B) is None, "it is not in the image yet"
    talk.pass_on(A, B)
    assert talk.receive_one(B) == "a1"
    assert talk.receive_one(B) is None


def test_2_a_message_is_attached_to_the_leaves_of_its_senders_view() -> None:
    """What has arrived and was not received is not in its context."""
    talk = Talk(3)
    talk.tell(A)
    talk.send(B)
    talk.pass_on(B, C)
    assert names(talk.send(C).predecessors) == ["a1"]
    talk.receive(C)
    assert names(talk.send(C).predecessors) == ["b1", "c1"]


def test_2_sending_makes_the_message_the_only_leaf_of_the_view() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.send(B)
    talk.send(C)
    talk.pass_on(B, A)
    talk.pass_on(C, A)
    talk.receive(A)
    assert names(talk.hosts[A].view.leaves()) == ["b1", "c1"]
    talk.send(A)
    assert names(talk.hosts[A].view.leaves()) == ["a2"]


def wandering(seed: int, participants: int = 5, steps: int = 300) -> Talk:
    """A conversation at random; packets overtake each other, but none is lost."""
    random = Random(seed)
    talk = Talk(participants)
    talk.tell(A)
    for _ in range(steps):
        rank, other = random.sample(range(participants), 2)
        match random.randrange(3):
            case 0:
                talk.send(rank)
            case 1:
                packets = talk.take(rank, other)
                random.shuffle(packets)
                talk.arrive(other, *packets)
            case _:
                talk.receive(rank)
    return talk


@pytest.mark.parametrize("seed", range(5))
def test_2_a_path_leads_to_a_message_from_just_those_in_its_context(seed: int) -> None:
    """The two conditions for the graph being the reduction: paths are the relation, and no edge doubles a path."""
    talk = wandering(seed)
    for rank in range(talk.count):
        nodes = talk.hosts[rank].replica.graph.in_order()
        behind: dict[str, set[str]] = {}
        for node in nodes:
            paths = [behind[name(before)] for before in node.predecessors]
            behind[name(node)] = set().union(*paths) | {name(before) for before in node.predecessors}
            assert all(name(before) not in path for before in node.predecessors for path in paths)
        for node in nodes:
            assert {name(other) for other in nodes if other.precedes(node)} == behind[name(node)]


@pytest.mark.parametrize("seed", range(5))
def test_2_degrees_are_bounded_by_the_participants(seed: int) -> None:
    """No message has two immediate predecessors, or two immediate successors, of one sender."""
    talk = wandering(seed)
    for node in talk.hosts[A].replica.graph.in_order():
        for edges in (node.predecessors, node.successors):
            assert len({other.sender for other in edges}) == len(edges) <= talk.count


@pytest.mark.parametrize("seed", range(5))
def test_2_a_participants_messages_follow_each_other(seed: int) -> None:
    """What a process sends is in the context of what it sent before."""
    graph = wandering(seed).hosts[A].replica.graph
    for node in graph.in_order():
        if node.number > 1:
            before = graph.node((node.sender, node.number - 1))
            assert before is not None
            assert before.precedes(node)


def figure_2() -> Talk:
    """Three participants; a1, b1 and c1 are stable, and a has sent two messages that are not."""
    talk = Talk(3)
    for sender in (A, B, C):
        talk.tell(sender)
    talk.send(A)
    talk.send(B)
    talk.pass_on(B, A)
    talk.receive(A)
    talk.send(A)
    return talk


def test_2_figure_2_a_message_is_stable_once_all_others_have_sent_in_its_context() -> None:
    talk = figure_2()
    assert talk.replica(A) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert talk.stable(A) == ["a1", "b1", "c1"]
    view = talk.hosts[A].view
    assert names(node for node in talk.hosts[A].replica.graph.in_order() if view.is_stable(node)) == ["a1", "b1", "c1"]


def test_2_figure_2_one_more_answer_of_each_makes_the_others_stable() -> None:
    talk = figure_2()
    for rank in (B, C):
        talk.settle(2)
        talk.receive(rank)
        talk.send(rank)
    talk.settle(2)
    assert {"a2", "a3", "b2"} <= set(talk.stable(A))


@pytest.mark.parametrize("seed", range(5))
def test_2_what_is_stable_is_in_every_view(seed: int) -> None:
    """All others have received it, or else they could not have sent in its context."""
    talk = wandering(seed)
    for rank in range(talk.count):
        for other in range(talk.count):
            assert set(talk.stable(rank)) <= set(talk.view(other))


@pytest.mark.parametrize("seed", range(5))
def test_2_all_future_messages_follow_what_is_stable(seed: int) -> None:
    """They can neither precede it nor be of the same logical time."""
    talk = wandering(seed)
    stable = talk.stable(A)
    assert stable
    for rank in range(talk.count):
        node = talk.send(rank)
        assert all(talk.node(rank, one).precedes(node) for one in stable)


def test_2_the_graph_can_be_asked() -> None:
    """root, leaves, sender, participants, next, prev, outstanding, precedes, stable: all relative to the view."""
    talk = Talk(3)
    for sender in (A, B):
        talk.tell(sender)
    talk.send(C)
    talk.pass_on(C, A)
    host = talk.hosts[A]
    first, answer, late = (talk.node(A, one) for one in ("a1", "b1", "c1"))
    assert [process.name for process in host.participants] == list(NAMES[:3])
    assert host.participants[answer.sender].name == "b"
    assert (host.view.roots(), host.view.leaves()) == ([first], [answer])
    assert (host.view.next(first), host.view.next(answer), host.view.prev(answer)) == ([answer], [], [first])
    assert host.view.outstanding()
    assert host.view.precedes(first, answer)
    assert not host.view.precedes(first, late)
    assert not host.view.is_stable(first)
    talk.receive(A)
    assert host.view.next(answer) == [late]
    assert host.view.precedes(first, late)
    assert host.view.is_stable(first)


# ---- 3.1: the basic protocol ---------------------------------------------------------------------------------------


def test_3_1_identifiers_are_unique() -> None:
    """cids in the network, mids in the conversation."""
    processes = [ProcessId(process, 0) for process in "abcdefghij"]
    cids = {conversation_id(process, number) for process in processes for number in range(100)}
    assert len(cids) == 1000
    nodes = wandering(1).hosts[A].replica.graph.in_order()
    assert len({node.mid() for node in nodes}) == len(nodes)


@pytest.mark.parametrize("seed", range(5))
def test_3_1_1_the_images_together_are_the_graph(seed: int) -> None:
    """They differ while messages are in transit, but where two have a message they have the same edges to it."""
    talk = wandering(seed)
    attached: dict[str, list[str]] = {}
    images = [talk.hosts[rank].replica.graph.in_order() for rank in range(talk.count)]
    for node in (node for replica in images for node in replica):
        assert attached.setdefault(name(node), names(node.predecessors)) == names(node.predecessors)
    assert any(len(replica) < len(attached) for replica in images)
    for message in attached:
        assert talk.holds(mid(message)[0], message), "its sender has it"


def test_3_1_1_view_image_and_graph() -> None:
    """On the way: in neither. Arrived: in the image. Received: in the view, too."""
    talk = Talk(2)
    talk.send(A)
    assert (talk.replica(B), talk.view(B)) == ([], [])
    talk.pass_on(A, B)
    assert (talk.replica(B), talk.view(B)) == (["a1"], [])
    talk.receive(B)
    assert (talk.replica(B), talk.view(B)) == (["a1"], ["a1"])


def test_3_1_2_opening_sends_nothing() -> None:
    talk = Talk(3)
    talk.flush(A)
    talk.wait()
    assert talk.take(A, B) == talk.take(A, C) == []


def test_3_1_2_figure_3_the_first_message_tells_who_takes_part() -> None:
    """Its kind, the conversation, the participants, of whom its sender is the first, and the message itself."""
    talk = Talk(3)
    talk.send(A, b"hello")
    [packet] = talk.take(A, C)
    kind, cid, _, _, flags, _ = unseal(packet)
    processes, addresses, message = decode_start(packet, flags)
    assert (kind, cid) == (START, talk.cid)
    assert [process.name for process in processes] == addresses == ["a", "b", "c"]
    assert (message.sender, message.number, message.predecessors) == (0, 1, [])
    assert message.section.endswith(b"hello")


def test_3_1_2_only_the_first_message_does() -> None:
    """So a conversation costs nothing to begin beyond its first message."""
    talk = Talk(2)
    talk.send(A)
    talk.send(A)
    first, second = talk.take(A, B)
    assert (unseal(first)[0], unseal(second)[0]) == (START, ADD)
    assert len(second) < len(first)


def test_3_1_3_figure_4_a_message_tells_its_sender_number_and_predecessors() -> None:
    talk = Talk(3)
    for sender in (A, B):
        talk.tell(sender)
    talk.send(C)
    talk.send(A)
    talk.pass_on(C, A)
    talk.receive(A)
    talk.send(A, b"said")
    packet = talk.take(A, B)[-1]
    message = added(packet, 3)
    assert unseal(packet)[:2] == (ADD, talk.cid)
    assert (message.sender, message.number, sorted(message.predecessors)) == (A, 3, [(A, 2), (C, 1)])
    assert message.section.endswith(b"said")


@pytest.mark.parametrize("seed", range(5))
def test_3_1_3_no_more_predecessors_than_participants(seed: int) -> None:
    talk = Talk(4)
    random = Random(seed)
    for _ in range(80):
        rank, other = random.sample(range(4), 2)
        talk.pass_on(other, rank)
        talk.receive(rank)
        if talk.replica(rank) or rank == A:
            talk.send(rank)
        for packet in talk.take(rank, other):
            if unseal(packet)[0] == ADD:
                named = added(packet, 4).predecessors
                assert len({sender for sender, _ in named}) == len(named) <= 4
            talk.arrive(other, packet)


def test_3_1_3_the_same_bytes_go_to_every_host() -> None:
    """So a message can be broadcast as well as sent to each."""
    talk = Talk(4)
    talk.send(A, b"same")
    assert talk.take(A, B) == talk.take(A, C) == talk.take(A, D) != []


def test_3_1_3_a_message_is_inserted_at_once_if_its_predecessors_are_there() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.send(B)
    talk.pass_on(B, C)
    assert talk.replica(C) == ["a1", "b1"]
    assert talk.hosts[C].replica.held() == 0


def test_3_1_3_else_it_is_held_and_cannot_be_received() -> None:
    talk = Talk(3)
    talk.tell(A)
    talk.send(A)
    late = talk.take(A, C)
    talk.pass_on(A, B)
    talk.receive(B)
    talk.send(B)
    talk.pass_on(B, C)
    assert (talk.replica(C), talk.hosts[C].replica.held()) == (["a1"], 1)
    assert talk.receive(C) == []
    talk.arrive(C, *late)
    assert talk.hosts[C].replica.held() == 0
    assert talk.receive(C) == ["a2", "b1"]


def test_3_1_3_a_chain_comes_out_of_the_holding_queue_in_order() -> None:
    talk = Talk(2)
    for _ in range(6):
        talk.send(A)
    first, *later = talk.take(A, B)
    talk.arrive(B, *reversed(later))
    assert (talk.replica(B), talk.hosts[B].replica.held()) == ([], 5)
    talk.arrive(B, first)
    assert talk.receive(B) == ["a1", "a2", "a3", "a4", "a5", "a6"]


@pytest.mark.parametrize("seed", range(5))
def test_3_1_3_stability_seen_by_one_is_true_in_the_graph(seed: int) -> None:
    """Each asks its own image and view; what is stable there is stable in the graph of all messages sent."""
    talk = wandering(seed)
    told = [(talk.stable(rank), rank) for rank in range(talk.count)]
    seen = [
        [name(node) for node in host.replica.graph.in_order() if host.view.holds(node) and host.view.is_stable(node)]
        for host in talk.hosts
    ]
    talk.settle()
    for stable, rank in told:
        assert set(seen[rank]) <= set(stable) <= set(talk.stable(A)), "the view knows no more than the image"
