"""psync-1989, claim by claim: Figure 6, sections 3.4 (library routines) and 4 (orders). Each test names its claim.

Figures 7 and 9 are drawn from what the text says of them; Figure 8 is run as it is printed, over views of the graph.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.parts.message_graph import GraphNode, GraphView, MessageGraph
from antiphon.stacks.conversation.library.broadcast import OrderedBroadcast
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.continuity import Continuity
from antiphon.stacks.conversation.library.datagrams import Acknowledger, receive_datagrams, send_datagram
from antiphon.stacks.conversation.library.epochs import Epochs
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.handshake import ENDED, TALKING, HandshakeSession
from antiphon.stacks.conversation.library.requests import RequestClient, RequestServer
from antiphon.stacks.conversation.library.stable import FAILURE, SUCCESS, WAITING, StableSend, is_quorum_stable
from antiphon.stacks.conversation.waves import Waves
from tests.papers.conversation_table import A, B, C, D, E, Talk, mid, name, names

TRY_NS = 10 * MILLISECOND_NS


def nothing(_: int) -> None:
    """What a participant does that does nothing."""


# ---- 3.2.2, Figure 6: send and wait until it is stable -------------------------------------------------------------


def answering(talk: Talk, *ranks: int) -> None:
    for rank in ranks:
        talk.receive(rank)
        talk.send(rank)
        talk.spread(rank)


def test_3_2_2_figure_6_it_returns_when_the_message_is_stable() -> None:
    talk = Talk(3)
    sending = StableSend(talk.hosts[A], b"x", talk.now_ns, tries=3, timeout_ns=TRY_NS)
    talk.flush(A)
    talk.spread(A)
    answering(talk, B)
    assert sending.poll(talk.now_ns) == WAITING
    answering(talk, C)
    assert sending.poll(talk.now_ns) == SUCCESS
    assert [name(node) for node, _ in sending.received] == ["b1", "c1"]


def test_3_2_2_figure_6_it_sends_again_what_was_lost() -> None:
    talk = Talk(2)
    sending = StableSend(talk.hosts[A], b"x", talk.now_ns, tries=3, timeout_ns=TRY_NS)
    talk.flush(A)
    talk.lose(A, B)
    talk.wait(TRY_NS)
    assert sending.poll(talk.now_ns) == WAITING
    talk.flush(A)
    talk.pass_on(A, B)
    answering(talk, B)
    assert sending.poll(talk.now_ns) == SUCCESS


def test_3_2_2_figure_6_also_if_the_reply_was_lost() -> None:
    """Who has the message already sends back what depends on it."""
    talk = Talk(2)
    sending = StableSend(talk.hosts[A], b"x", talk.now_ns, tries=3, timeout_ns=TRY_NS)
    talk.flush(A)
    talk.pass_on(A, B)
    talk.receive(B)
    talk.send(B)
    talk.lose(B, A)
    talk.wait(TRY_NS)
    sending.poll(talk.now_ns)
    talk.flush(A)
    talk.pass_on(A, B)
    talk.pass_on(B, A)
    assert sending.poll(talk.now_ns) == SUCCESS


def test_3_2_2_figure_6_after_so_many_tries_it_fails() -> None:
    """Somebody has most likely failed. It may be masked out, and then the message is stable."""
    talk = Talk(3)
    sending = StableSend(talk.hosts[A], b"x", talk.now_ns, tries=3, timeout_ns=TRY_NS)
    talk.flush(A)
    talk.crash(C)
    talk.pass_on(A, B)
    answering(talk, B)
    for _ in range(20):
        talk.wait(1000 * MILLISECOND_NS)
        sending.poll(talk.now_ns)
    assert sending.outcome == FAILURE
    assert not talk.hosts[A].replica.graph.is_stable(sending.node)
    talk.hosts[A].mask_out(C)
    assert talk.hosts[A].replica.graph.is_stable(sending.node)


# ---- 3.4: routines over the graph ----------------------------------------------------------------------------------


def test_3_4_quorum_stable_a_majority_has_received_and_responded() -> None:
    talk = Talk(5)
    talk.tell(A)
    graph, node = talk.hosts[A].replica.graph, talk.node(A, "a1")
    talk.tell(B)
    assert not is_quorum_stable(graph, node)
    talk.tell(C)
    assert is_quorum_stable(graph, node)
    assert not graph.is_stable(node)


def sessions(talk: Talk) -> list[HandshakeSession]:
    return [HandshakeSession(host, talk.now_ns, tries=5, timeout_ns=50 * MILLISECOND_NS) for host in talk.hosts]


def test_3_4_initialize_takes_three_ways() -> None:
    """When it is over everybody knows that all take part; and the same message is before all that follows."""
    talk = Talk(3)
    made = sessions(talk)
    talk.play([one.poll for one in made])
    assert [one.phase for one in made] == [TALKING] * 3
    assert talk.replica(A) == talk.replica(B) == talk.replica(C) == ["a1", "a2", "b1", "c1"]
    assert talk.edges(B) == {"a1-b1", "a1-c1", "b1-a2", "c1-a2"}


def test_3_4_terminate_leaves_nobody_waiting() -> None:
    """Nobody closes before all that was said has been received by all."""
    talk = Talk(3)
    made = sessions(talk)
    talk.play([one.poll for one in made])
    made[B].send(b"one more thing")
    made[A].end(talk.now_ns)
    talk.play([one.poll for one in made], rounds=4000)
    assert [one.phase for one in made] == [ENDED] * 3
    assert [[payload for _, payload in one.received] for one in made] == [[b"one more thing"], [], [b"one more thing"]]


# ---- 4.1: conventional protocols -----------------------------------------------------------------------------------


def test_4_1_a_datagram_is_a_graph_of_one_message() -> None:
    talk = Talk(2)
    send_datagram(talk.hosts[A], b"x")
    talk.play([nothing, lambda _: receive_datagrams(talk.hosts[B])])
    assert (talk.replica(A), talk.view(B), talk.sent) == (["a1"], ["a1"], 1)


def test_4_1_a_reliable_datagram_is_answered_in_its_context() -> None:
    talk = Talk(2)
    sending = StableSend(talk.hosts[A], b"\x00x", talk.now_ns, tries=3, timeout_ns=TRY_NS)
    acknowledger = Acknowledger(talk.hosts[B])
    talk.play([sending.poll, lambda _: acknowledger.poll()])
    assert sending.outcome == SUCCESS
    assert talk.edges(A) == {"a1-b1"}


def test_4_1_requests_and_replies_make_a_line() -> None:
    """The result is in the context of its request, the next request in that of the reply; there is nothing else."""
    talk = Talk(2)
    client, server = RequestClient(talk.hosts[A], tries=3, timeout_ns=TRY_NS), RequestServer(talk.hosts[B])

    def serve(_: int) -> None:
        for request in server.poll():
            server.reply(request, request.payload.upper())

    for word in (b"one", b"two", b"three"):
        client.ask(word, talk.now_ns)
        talk.play([client.poll, serve], rounds=4)
        assert [payload for _, payload in client.replies] == [word.upper()]
    assert talk.edges(A) == {"a1-b1", "b1-a2", "a2-b2", "b2-a3", "a3-b3"}
    assert talk.sent == 6


def test_4_1_servers_receive_each_others_replies() -> None:
    """So one that sees that another has answered can save itself the work."""
    talk = Talk(3)
    client = RequestClient(talk.hosts[A], tries=3, timeout_ns=50 * MILLISECOND_NS)
    servers = [RequestServer(talk.hosts[rank]) for rank in (B, C)]
    client.ask(b"who?", talk.now_ns)
    talk.flush(A)
    talk.spread(A)
    [request] = servers[0].poll()
    servers[0].reply(request, b"me")
    [same] = servers[1].poll()
    assert same.answered_by == []
    talk.flush(B)
    talk.spread(B)
    servers[1].poll()
    assert same.answered_by == [B]
    assert client.poll(talk.now_ns) == SUCCESS


def test_4_1_a_circuit_stops_sending_at_its_window() -> None:
    """Messages of one's own that are not stable count; the graph is as broad as that."""
    talk = Talk(2)
    circuit = Circuit(talk.hosts[A], FilterOptions(window=3))
    for _ in range(10):
        circuit.offer(b"x")
    circuit.poll(0)
    assert talk.hosts[A].replica.graph.last[A] == 3
    talk.flush(A)
    talk.pass_on(A, B)
    answering(talk, B)
    circuit.poll(0)
    assert talk.hosts[A].replica.graph.last[A] == 6


def test_4_1_stop_and_wait_makes_a_line() -> None:
    talk = Talk(2)
    ends = [Circuit(host, FilterOptions(window=1)) for host in talk.hosts]
    for _ in range(5):
        ends[A].offer(b"x")
    talk.play([end.poll for end in ends])
    nodes = talk.hosts[A].replica.graph.in_order()
    assert len(nodes) == 10
    assert all(len(node.predecessors) <= 1 and len(node.successors) <= 1 for node in nodes)


def test_4_1_while_both_ends_speak_their_messages_are_the_acknowledgements() -> None:
    """Piggyback comes of itself."""
    talk = Talk(2)
    ends = [
        Circuit(host, FilterOptions(window=1, ack_delay_ns=50 * MILLISECOND_NS, ack_every=100)) for host in talk.hosts
    ]
    for end in ends:
        for _ in range(20):
            end.offer(b"x")
    ends[A].poll(0)
    talk.flush(A)
    talk.play([end.poll for end in ends], rounds=100)
    assert talk.sent <= 2 * 20 + 1


def test_4_1_conversational_continuity_needs_no_messages_but_the_applications() -> None:
    """None to open, none to acknowledge, none to close."""
    talk = Talk(2)
    ends = [Continuity(host, tries=3, timeout_ns=50 * MILLISECOND_NS) for host in talk.hosts]
    said = []
    for number in range(8):
        ends[number % 2].say(b"%d" % number, talk.now_ns)
        talk.flush(number % 2)
        talk.pass_on(number % 2, 1 - number % 2)
        said.append(ends[1 - number % 2].poll(talk.now_ns))
    assert said == [b"%d" % number for number in range(8)]
    assert talk.sent == 8


# ---- 4.2: ordered broadcast ----------------------------------------------------------------------------------------


def figure_7() -> Talk:
    """a1 first; then b1 and c1, at the same logical time; d1 and a2 follow both; e is the one that looks."""
    talk = Talk(5)
    talk.tell(A)
    talk.send(B)
    talk.send(C)
    for rank in (A, B, C, D, E):
        for sender in (B, C):
            if rank != sender:
                talk.pass_on(sender, rank)
        talk.receive(rank)
    for rank in (D, A):
        talk.send(rank)
    for sender, other in ((D, E), (A, E)):
        talk.pass_on(sender, other)
    talk.receive(E)
    return talk


def test_4_2_figure_7_a_wave_is_what_was_sent_at_the_same_logical_time() -> None:
    """The roots of what is not committed; taken away one after the other they go through the view breadth first."""
    talk = figure_7()
    nodes = talk.hosts[E].replica.graph.in_order()
    waves = {wave: names(node for node in nodes if node.wave == wave) for wave in {node.wave for node in nodes}}
    assert waves == {1: ["a1"], 2: ["b1", "c1"], 3: ["a2", "d1"]}
    for one in nodes:
        assert not any(one.precedes(other) for other in nodes if other.wave == one.wave)


def test_4_2_figure_7_the_view_is_parted_where_the_last_complete_wave_ends() -> None:
    """a1 becomes stable with e's message: its wave is committed, and no more."""
    talk = figure_7()
    waves = Waves(talk.hosts[E].replica.graph)
    for node in talk.hosts[E].replica.graph.in_order():
        waves.add(node)
    assert [name(node) for node in waves.take()] == []
    waves.add(talk.send(E))
    assert [name(node) for node in waves.take()] == ["a1"]
    assert waves.count == 5


def figure_8(view: GraphView, last_wave: list[GraphNode], *, roots_only: bool = True) -> list[list[GraphNode]]:
    """The loop of the figure, as far as the view lets it go: waves in order, each sorted by sender."""
    committed: list[list[GraphNode]] = []
    done = {node.mid() for node in last_wave}
    while True:
        current = {node.mid(): node for last in last_wave for node in view.next(last)}
        if roots_only:
            current = {mid: node for mid, node in current.items() if all(one.mid() in done for one in view.prev(node))}
        if not any(view.is_stable(node) for node in current.values()):
            return committed
        last_wave = sorted(current.values(), key=lambda node: node.sender)
        done |= current.keys()
        committed.append(last_wave)


def wandering(seed: int, participants: int = 4, steps: int = 400) -> Talk:
    """A conversation at random; the first message has reached all."""
    random = Random(seed)
    talk = Talk(participants)
    talk.tell(A)
    for _ in range(steps):
        rank, other = random.sample(range(participants), 2)
        talk.pass_on(other, rank)
        if random.random() < 0.6:
            talk.receive_one(rank)
        if random.random() < 0.25:
            talk.send(rank)
    return talk


@pytest.mark.parametrize("seed", range(10))
def test_4_2_figure_8_all_participants_commit_the_same_waves(seed: int) -> None:
    """Each goes by its own view, which differs from the others': one order is always the beginning of another."""
    talk = wandering(seed)
    orders = []
    for rank in range(talk.count):
        first = talk.node(rank, "a1")
        waves = figure_8(talk.hosts[rank].view, [first])
        orders.append([name(node) for wave in waves for node in wave])
        for wave in waves:
            assert not any(one.precedes(other) for one in wave for other in wave)
    longest = max(orders, key=len)
    assert len(longest) > 10
    assert all(order == longest[: len(order)] for order in orders)


@pytest.mark.parametrize("seed", range(10))
def test_4_2_figure_8_ours_commits_the_same(seed: int) -> None:
    """Waves by the longest path to a message, and the stability of the image, give the same order, further on."""
    talk = wandering(seed)
    for rank in range(talk.count):
        host = talk.hosts[rank]
        by_figure = [name(node) for wave in figure_8(host.view, [talk.node(rank, "a1")]) for node in wave]
        waves = Waves(host.replica.graph)
        for node in host.replica.graph.in_order():
            waves.add(node)
        ours = [name(node) for node in waves.take()]
        assert ours[:1] in ([], ["a1"])
        assert ours[1 : 1 + len(by_figure)] == by_figure


def test_4_2_figure_8_the_next_of_the_last_wave_may_not_all_be_roots() -> None:
    """As printed, the current wave is all that follows the last one. c2 follows a2 of it, and b2 of the current one."""
    graph = MessageGraph(3)
    view = GraphView(graph)
    for sender, number, before in (
        (A, 1, []),
        (A, 2, [(A, 1)]),
        (B, 1, [(A, 1)]),
        (B, 2, [(B, 1)]),
        (C, 1, [(A, 2), (B, 2)]),
        (A, 3, [(C, 1)]),
        (B, 3, [(C, 1)]),
        (C, 2, [(A, 3), (B, 3)]),
    ):
        view.add(graph.attach(sender, number, before, b""))
    first = [node for node in graph.in_order() if node.mid() == (A, 1)]
    printed = [names(wave) for wave in figure_8(view, first, roots_only=False)]
    assert printed[1] == ["b2", "c1"], "though c1 follows b2"
    assert [names(wave) for wave in figure_8(view, first)][1:3] == [["b2"], ["c1"]]


def test_4_2_one_stable_message_completes_a_wave() -> None:
    """b1 and c1 are one wave. a and d have followed c1 alone: c1 is stable, b1 is not, and both have a place."""
    graph = MessageGraph(4)
    for sender, number, before in (
        (A, 1, []),
        (B, 1, [(A, 1)]),
        (C, 1, [(A, 1)]),
        (A, 2, [(C, 1)]),
        (D, 1, [(C, 1)]),
        (B, 2, [(B, 1), (C, 1)]),
    ):
        graph.attach(sender, number, before, b"")
    b1, c1 = graph.node((B, 1)), graph.node((C, 1))
    assert b1 is not None
    assert c1 is not None
    assert (graph.is_stable(b1), graph.is_stable(c1)) == (False, True)
    waves = Waves(graph)
    for node in graph.in_order():
        waves.add(node)
    assert [name(node) for node in waves.take()] == ["a1", "b1", "c1"]


def test_4_2_the_order_in_which_messages_become_stable_differs() -> None:
    """So it would be wrong to commit each message when it is stable: b1 is first for one view, c1 for the other."""
    messages: dict[str, list[str]] = {
        "a1": [],
        "b1": ["a1"],
        "c1": ["a1"],
        "a2": ["b1"],
        "c2": ["b1", "c1"],
        "a3": ["a2", "c1"],
        "b2": ["b1", "c1"],
    }
    firsts = []
    for last in (["a2", "c2", "a3", "b2"], ["a2", "a3", "b2", "c2"]):
        graph = MessageGraph(3)
        for message in ["a1", "b1", "c1", *last]:
            graph.attach(*mid(message), [mid(one) for one in messages[message]], b"")
            stable = {message for message in ("b1", "c1") if _is_stable(graph, message)}
            if stable:
                firsts.append(stable)
                break
    assert firsts == [{"b1"}, {"c1"}]


def _is_stable(graph: MessageGraph, message: str) -> bool:
    node = graph.node(mid(message))
    return node is not None and graph.is_stable(node)


def broadcasts(talk: Talk) -> tuple[list[OrderedBroadcast], list[list[bytes]]]:
    return [OrderedBroadcast(host, FilterOptions()) for host in talk.hosts], [[] for _ in talk.hosts]


def polls(made: list[OrderedBroadcast], orders: list[list[bytes]]) -> list[Callable[[int], None]]:
    def poll(rank: int, now_ns: int) -> None:
        orders[rank] += [payload for _, payload in made[rank].poll(now_ns)]

    return [partial(poll, rank) for rank in range(len(made))]


def test_4_2_figure_8_everybody_gets_all_messages_its_own_too_in_one_order() -> None:
    talk = Talk(4)
    made, orders = broadcasts(talk)
    made[A].offer(b"first")
    talk.play(polls(made, orders), rounds=5)
    for rank in range(4):
        for number in range(3):
            made[rank].offer(b"%d of %d" % (number, rank))
    talk.play(polls(made, orders))
    assert len(orders[A]) == 13
    assert orders == [orders[A]] * 4


def test_4_2_figure_8_who_received_and_has_nothing_to_send_acknowledges() -> None:
    """Once for all that it received; who has something to send does not."""
    talk = Talk(3)
    made, orders = broadcasts(talk)
    made[A].offer(b"x")
    talk.play(polls(made, orders))
    assert [one.acks() for one in made] == [0, 1, 1]
    assert talk.sent == 3 * 2
    assert orders == [[b"x"]] * 3, "and acknowledgements are weeded out"


# ---- 4.3: operations that commute ----------------------------------------------------------------------------------


class Figure9:
    """One view of operations: a1… commute, b1… do not, whoever sends them. Each says what it follows."""

    def __init__(self, participants: int) -> None:
        self.graph = MessageGraph(participants)
        self.epochs = Epochs(self.graph)
        self.nodes: dict[str, GraphNode] = {}
        self.executed: list[str] = []

    def see(self, sender: int, operation: str, *follows: str) -> None:
        before = [self.nodes[one].mid() for one in follows]
        node = self.graph.attach(sender, self.graph.last[sender] + 1, before, b"")
        self.nodes[operation] = node
        if operation.startswith("alpha"):
            if self.epochs.add_commuting(node):
                self.executed.append(operation)
        else:
            self.epochs.add_ordered(node)
        named = {id(node): operation for operation, node in self.nodes.items()}
        self.executed += [named[id(node)] for node in self.epochs.take()]


def test_4_3_figure_9_a_commuting_operations_are_executed_before_the_wave_is_complete() -> None:
    """Five operations of one wave: the alphas at once, in any order; the betas wait."""
    view = Figure9(5)
    for sender, operation in enumerate(["alpha1", "beta1", "alpha2", "beta2", "alpha3"]):
        view.see(sender, operation)
    assert view.executed == ["alpha1", "alpha2", "alpha3"]
    assert view.graph.stable_wave == 0


def test_4_3_figure_9_b_they_go_on_where_they_do_not_depend_on_a_beta_that_waits() -> None:
    """Others have not received the betas yet, and go on invoking alphas."""
    view = Figure9(3)
    view.see(A, "beta1")
    view.see(B, "alpha1")
    view.see(B, "alpha2", "alpha1")
    view.see(C, "alpha3", "alpha1")
    assert view.executed == ["alpha1", "alpha2", "alpha3"]
    view.see(C, "alpha4", "beta1", "alpha3")
    assert "alpha4" not in view.executed, "it depends on beta1"


def test_4_3_figure_9_c_the_betas_are_executed_when_everybody_has_one_in_its_view() -> None:
    """One participant sends a beta itself, another an alpha that follows somebody's beta: either will do."""
    view = Figure9(3)
    view.see(A, "beta1")
    view.see(B, "alpha1")
    view.see(B, "beta2", "alpha1")
    assert view.executed == ["alpha1"]
    view.see(C, "alpha2", "beta1")
    assert view.executed == ["alpha1", "beta1", "beta2", "alpha2"]


@pytest.mark.parametrize("seed", range(20))
def test_4_3_all_copies_become_equal(seed: int) -> None:
    """alpha inserts into a set, beta computes something of it and clears it: states are equal, orders are not."""
    random = Random(seed)
    operations: list[tuple[int, str, list[str]]] = []
    seen: list[list[str]] = [[] for _ in range(3)]
    graph = MessageGraph(3)
    views = [GraphView(graph) for _ in range(3)]
    called: dict[tuple[int, int], str] = {}
    for number in range(30):
        rank = random.randrange(3)
        for node in graph.in_order():
            can = views[rank].received[node.sender] + 1 == node.number
            if can and all(views[rank].holds(one) for one in node.predecessors) and random.random() < 0.5:
                views[rank].add(node)
        kind = "beta" if random.random() < 0.3 else "alpha"
        leaves = views[rank].leaves()
        node = graph.attach(rank, graph.last[rank] + 1, [leaf.mid() for leaf in leaves], b"")
        views[rank].add(node)
        called[node.mid()] = f"{kind}{number}"
        operations.append((rank, called[node.mid()], [called[leaf.mid()] for leaf in leaves]))
    states = []
    for place in range(3):
        view = Figure9(3)
        left = list(operations)
        while left:
            ready = [one for one in left if all(before in view.nodes for before in one[2])]
            mine = [one for one in ready if view.graph.last[one[0]] == _number(operations, one) - 1]
            chosen = Random(f"{seed}/{place}/{len(left)}").choice(mine)
            view.see(chosen[0], chosen[1], *chosen[2])
            left.remove(chosen)
        states.append(_replay(view.executed))
        seen[place] = view.executed
    assert len(seen[0]) == len(seen[1]) == len(seen[2]) > 0
    assert states[0] == states[1] == states[2]


def _number(operations: list[tuple[int, str, list[str]]], one: tuple[int, str, list[str]]) -> int:
    return [other for other in operations if other[0] == one[0]].index(one) + 1


def _replay(executed: list[str]) -> list[object]:
    """What the betas computed, one after the other, and what is in the set at the end."""
    elements: set[str] = set()
    computed: list[object] = []
    for operation in executed:
        if operation.startswith("alpha"):
            elements.add(operation)
        else:
            computed.append((operation, frozenset(elements)))
            elements.clear()
    return [*computed, frozenset(elements)]
