"""psync-1989, claim by claim: sections 3.3 (memory and flow control), 6.2 (implementation), 8 (what is exchanged)."""

import gc
import sys
from types import FrameType
from typing import Any

import pytest

from antiphon import _build
from antiphon.kernel.codec import unseal
from antiphon.kernel.effects import Transmit
from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.options import MILLISECOND_NS, Options
from antiphon.kernel.packet_kinds import ADD, START
from antiphon.parts.message_graph import GraphView, MessageGraph
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.host import ConversationHost
from antiphon.stacks.conversation.free.limits import Limits
from tests.papers.conversation_table import A, B, C, Talk, kinds, mid, names
from tests.stacks.conversation.packets import refusal

needs_lines = pytest.mark.skipif(
    _build.describe().startswith("compiled"), reason="no lines can be counted in the compiled core"
)

# ---- 3.3: memory ---------------------------------------------------------------------------------------------------


def test_3_3_the_body_of_a_message_is_freed_as_soon_as_it_is_stable() -> None:
    talk = Talk(3)
    talk.tell(A, b"x" * 1000)
    talk.tell(B)
    assert talk.node(A, "a1").body is not None
    talk.tell(C)
    for rank in range(3):
        assert talk.node(rank, "a1").body is None
        assert talk.hosts[rank].replica.graph.bodies == 2
        assert talk.hosts[rank].replica.graph.body_bytes < 1000


def test_3_3_nobody_can_ask_for_what_is_stable() -> None:
    """All images have it; a request that starts at the leaves of any of them does not reach back to it."""
    talk = Talk(3)
    for sender in (A, B, C, A, B):
        talk.tell(sender)
    for rank in range(3):
        graph = talk.hosts[rank].replica.graph
        for asker in range(3):
            leaves = [leaf.mid() for leaf in talk.hosts[asker].replica.graph.leaves()]
            assert not set(talk.stable(rank)) & set(names(graph.between(leaves, None, 99, asker)))


def test_3_3_the_node_stays_and_can_be_asked() -> None:
    talk = Talk(3)
    for sender in (A, B, C):
        talk.tell(sender)
    host = talk.hosts[B]
    first = talk.node(B, "a1")
    assert first.body is None
    assert host.participants[first.sender].name == "a"
    assert names(host.view.next(first)) == ["b1"]
    assert host.view.precedes(first, talk.node(B, "c1"))


def test_3_3_free_forgets_a_node_and_all_its_predecessors() -> None:
    talk = Talk(3)
    for sender in (A, B, C, A, B, C, A):
        talk.tell(sender)
    host = talk.hosts[A]
    assert talk.stable(A) == ["a1", "a2", "b1", "b2", "c1"]
    assert host.free(talk.node(A, "b1")) == 2
    assert talk.replica(A) == ["a2", "a3", "b2", "c1", "c2"]


def test_3_3_what_is_not_stable_is_not_freed() -> None:
    talk = Talk(3)
    for sender in (A, B, C, A):
        talk.tell(sender)
    host = talk.hosts[A]
    host.free(talk.node(A, "a2"))
    assert set(talk.replica(A)) >= {"a2", "c1"}
    assert talk.receive(B) == []
    talk.tell(B)
    assert talk.replica(B) == talk.replica(C), "the conversation goes on as before"


def test_3_3_a_threshold_keeps_the_last_messages_alone() -> None:
    """The application may ask about so many; in proportion to the participants."""
    talk = Talk(3, limits=Limits(nodes_max=12))
    for _ in range(100):
        for sender in (A, B, C):
            talk.tell(sender)
    for rank in range(3):
        assert 9 <= talk.hosts[rank].replica.graph.nodes <= 12
    assert talk.log[A] == [f"{sender}{number}" for number in range(1, 101) for sender in "bc"]
    assert talk.node(A, "c100").precedes(talk.send(A))


def test_3_3_flow_control_a_sender_waits_while_too_much_of_its_own_is_not_stable() -> None:
    talk = Talk(2, limits=Limits(unstable_max=4))
    for _ in range(4):
        assert talk.hosts[A].may_send()
        talk.send(A)
    assert not talk.hosts[A].may_send()
    with pytest.raises(UsageError, match="not stable"):
        talk.send(A)
    talk.pass_on(A, B)
    talk.receive(B)
    talk.send(B)
    talk.pass_on(B, A)
    assert talk.hosts[A].may_send(), "one answer makes all four stable"


def test_3_3_flow_control_the_same_in_bytes() -> None:
    talk = Talk(2, limits=Limits(buffer_bytes_max=8000))
    talk.send(A, bytes(3000))
    assert talk.hosts[A].may_send()
    talk.send(A, bytes(3000))
    assert not talk.hosts[A].may_send()
    assert talk.hosts[B].may_send(), "each has its share"


def test_3_3_flow_control_what_comes_beyond_the_buffer_is_dropped_and_recovered() -> None:
    """b's buffer is smaller than what a may send; dropping is as good as losing."""
    talk = Talk(2)
    small = ConversationCore(
        talk.cid, talk.processes, ["a", "b"], talk.processes[B], talk.options, limits=Limits(unstable_max=4), life=1
    )
    talk.hosts[B] = small
    for _ in range(20):
        talk.send(A)
    talk.pass_on(A, B)
    assert len(talk.replica(B)) < 20
    assert small.replica.counts["overflow"] > 0
    for _ in range(20):
        talk.receive(B)
        if small.may_send():
            talk.send(B)
        talk.settle(3)
    assert talk.log[B] == [f"a{number}" for number in range(1, 21)]


def test_3_3_flow_control_the_holding_queue_is_limited_and_what_does_not_fit_is_recovered() -> None:
    talk = Talk(2, limits=Limits(held_max=3))
    for _ in range(10):
        talk.send(A)
    first, *later = talk.take(A, B)
    talk.arrive(B, *later)
    assert talk.hosts[B].replica.held() == 3
    assert talk.hosts[B].replica.counts["overflow"] == 6
    talk.arrive(B, first)
    assert talk.receive(B) == ["a1", "a2", "a3", "a4"]
    talk.send(A)
    talk.settle(10)
    assert talk.receive(B) == [f"a{number}" for number in range(5, 12)]


class Hosts:
    """Processes by name, each at the address of its name, over a network that loses nothing."""

    def __init__(self, *names: str, **settings: Any) -> None:
        settings.setdefault("probing", False)
        self.hosts = {name: ConversationHost(name, Options(), **settings) for name in names}
        self.packets: list[tuple[str, bytes]] = []
        """Destination and packet."""
        self.outgoing: list[Transmit] = []
        self.refused: list[str] = []
        """Why packets were dropped."""
        self.now_ns = 0

    def flush(self, name: str, conversation: ConversationCore) -> None:
        outgoing = self.hosts[name].flush(conversation, self.now_ns)
        self.outgoing += outgoing
        for one in outgoing:
            self.packets += [(address, packet) for address in one.route.addresses for packet in one.packets]

    def carry(self) -> None:
        """Until nothing is on the way."""
        while self.packets:
            address, packet = self.packets.pop(0)
            kind, cid, tag, via, flags, _ = unseal(packet)
            try:
                conversation = self.hosts[address].take(kind, cid, tag, via, flags, packet, self.now_ns)
            except MalformedError as error:
                self.refused.append(error.reason)
                continue
            if conversation is not None:
                self.flush(address, conversation)

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        for name, host in self.hosts.items():
            for conversation in host.tick(self.now_ns):
                self.flush(name, conversation)

    def open(self, name: str, *others: str) -> ConversationCore:
        return self.hosts[name].active_open({other: other for other in others}, name)

    def say(self, name: str, conversation: ConversationCore, payload: bytes) -> None:
        conversation.send(payload)
        self.flush(name, conversation)


def drain(conversation: ConversationCore) -> list[bytes]:
    got = []
    while (one := conversation.receive()) is not None:
        got.append(one[1])
    return got


def test_3_3_flow_control_pending_conversations_are_limited() -> None:
    hosts = Hosts("a", "b", limits=Limits(pending_max=2))
    talks = [hosts.open("a", "b") for _ in range(4)]
    for number, talk in enumerate(talks):
        hosts.say("a", talk, b"%d" % number)
    hosts.carry()
    assert hosts.hosts["b"].pending() == 2
    accepted = [hosts.hosts["b"].passive_open() for _ in range(3)]
    assert [None if one is None else one.cid for one in accepted] == [talks[0].cid, talks[1].cid, None]
    talks[3].resend(talks[3].view.leaves()[0])
    hosts.flush("a", talks[3])
    hosts.carry()
    late = hosts.hosts["b"].passive_open()
    assert late is not None
    assert drain(late) == [b"3"]


def test_3_3_flow_control_of_a_pending_conversation_one_message_is_stored() -> None:
    """The others are dropped, and recovered when they are missed."""
    hosts = Hosts("a", "b")
    talk = hosts.open("a", "b")
    for number in range(4):
        hosts.say("a", talk, b"%d" % number)
    hosts.carry()
    assert hosts.refused == ["pending"] * 3
    accepted = hosts.hosts["b"].passive_open()
    assert accepted is not None
    assert drain(accepted) == [b"0"]
    hosts.say("a", talk, b"4")
    for _ in range(5):
        hosts.carry()
        hosts.wait(50 * MILLISECOND_NS)
    assert drain(accepted) == [b"1", b"2", b"3", b"4"]


# ---- 3.1.2 again, with hosts ---------------------------------------------------------------------------------------


def test_3_1_2_the_first_message_completes_a_passive_open() -> None:
    """Before it arrives there is nothing to accept; it brings image, participants and itself."""
    hosts = Hosts("a", "b", "c")
    talk = hosts.open("a", "b", "c")
    hosts.carry()
    assert hosts.hosts["b"].passive_open() is None
    hosts.say("a", talk, b"first")
    hosts.carry()
    accepted = hosts.hosts["b"].passive_open()
    assert accepted is not None
    assert (accepted.cid, [process.name for process in accepted.participants]) == (talk.cid, ["a", "b", "c"])
    assert drain(accepted) == [b"first"]


def test_3_1_2_who_is_not_named_is_not_drawn_in() -> None:
    hosts = Hosts("a", "b", "c")
    talk = hosts.open("a", "b")
    hosts.say("a", talk, b"first")
    [(_, packet)] = hosts.packets
    assert refusal(hosts.hosts["c"], packet) == "participants"
    assert hosts.hosts["c"].pending() == 0


def test_3_1_2_pending_conversations_queue_up() -> None:
    hosts = Hosts("a", "b", "c")
    for name in ("a", "c"):
        hosts.say(name, hosts.open(name, "b"), name.encode())
    hosts.carry()
    accepted = [hosts.hosts["b"].passive_open(), hosts.hosts["b"].passive_open()]
    assert [drain(one) for one in accepted if one is not None] == [[b"a"], [b"c"]]


def test_3_1_2_closing_sends_nothing_and_looks_like_a_failure() -> None:
    """What still comes is dropped; from the others' side nothing more becomes stable."""
    hosts = Hosts("a", "b")
    talk = hosts.open("a", "b")
    hosts.say("a", talk, b"first")
    hosts.carry()
    accepted = hosts.hosts["b"].passive_open()
    assert accepted is not None
    hosts.hosts["b"].close(talk.cid)
    assert hosts.packets == []
    hosts.say("a", talk, b"second")
    hosts.carry()
    assert hosts.refused == ["closed"]
    assert not any(talk.replica.graph.is_stable(node) for node in talk.replica.graph.in_order())


# ---- 6.2: implementation -------------------------------------------------------------------------------------------


class Lines:
    """Counts the lines of Python executed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> "Lines":
        self.count += event == "line"
        return self

    def of(self, graph: MessageGraph, view: GraphView, sender: int) -> int:
        """Of attaching and receiving one message. The collector rests: its callbacks and finalizers would count too."""
        before = [leaf.mid() for leaf in view.leaves()]
        self.count = 0
        gc.disable()
        sys.settrace(self)
        try:
            view.add(graph.attach(sender, graph.last[sender] + 1, before, b""))
        finally:
            sys.settrace(None)
            gc.enable()
        return self.count


@needs_lines
def test_6_2_the_cost_of_a_message_does_not_depend_on_the_size_of_the_graph() -> None:
    """Operations of the messages 100 to 140, and of the messages 20,000 to 20,040, are the same ones."""
    lines, graph = Lines(), MessageGraph(4)
    view = GraphView(graph)
    costs: dict[int, list[int]] = {100: [], 20_000: []}
    for number in range(20_040):
        begin = 20_000 if number >= 20_000 else 100
        sender = number % 4
        if begin <= number < begin + 40:
            costs[begin].append(lines.of(graph, view, sender))
        else:
            view.add(graph.attach(sender, graph.last[sender] + 1, [leaf.mid() for leaf in view.leaves()], b""))
    assert costs[100] == costs[20_000]


@needs_lines
@pytest.mark.parametrize("participants", [8, 16, 32])
def test_6_2_it_grows_with_the_participants_no_faster_than_they_do(participants: int) -> None:
    """Twice the participants, at most twice the steps, where one message follows the other."""

    def cost(count: int) -> float:
        lines, graph = Lines(), MessageGraph(count)
        view = GraphView(graph)
        costs = [lines.of(graph, view, number % count) for number in range(6 * count)]
        return sum(costs[3 * count :]) / (3 * count)

    assert cost(2 * participants) < 2.02 * cost(participants)


@needs_lines
def test_6_2_not_even_after_a_long_silence() -> None:
    """A participant that is masked in after thousands of messages makes no step per message that it has missed."""

    def cost(silence: int) -> int:
        lines, graph = Lines(), MessageGraph(3)
        view = GraphView(graph)
        graph.mask_out(2)
        for number in range(silence):
            view.add(graph.attach(number % 2, graph.last[number % 2] + 1, [n.mid() for n in view.leaves()], b""))
        graph.mask_in(2)
        return lines.of(graph, view, 2)

    assert cost(10) == cost(5_000)


def test_6_2_beginning_and_ending_cost_no_messages() -> None:
    """A conversation of so many messages takes so many packets to each other participant, and no others."""
    talk = Talk(4)
    for number in range(40):
        talk.tell(number % 4)
        talk.wait()
    assert talk.sent == 40 * 3


def test_8_without_failures_no_other_packets_are_exchanged() -> None:
    """No acknowledgements, no requests, however the messages overtake each other within the delay of a timer."""
    talk = Talk(3)
    talk.tell(A)
    for _ in range(10):
        for sender in (A, B, C):
            talk.send(sender)
        packets = {(sender, other): talk.take(sender, other) for sender in range(3) for other in range(3)}
        for (_, other), late in reversed(packets.items()):
            assert set(kinds(late)) <= {ADD, START}
            talk.arrive(other, *late)
        for rank in range(3):
            talk.receive(rank)
    assert talk.sent == (1 + 30) * 2


def test_6_2_addresses_of_hosts_or_one_for_all() -> None:
    """A message leaves once for all hosts; whatever carries it sends it to each address, or to one for all of them."""
    hosts = Hosts("a", "b", "c")
    talk = hosts.open("a", "b", "c")
    hosts.say("a", talk, b"first")
    assert [(one.route.addresses, len(one.packets)) for one in hosts.outgoing] == [(("b", "c"), 1)]
    hosts.carry()
    assert [hosts.hosts[name].pending() for name in ("b", "c")] == [1, 1]


def test_6_2_a_large_message_is_one_message() -> None:
    """Below the conversation it goes in parts, and comes as a whole; those that follow it wait for it."""
    talk = Talk(2)
    large = bytes(range(256)) * 400
    talk.tell(A)
    talk.send(A, large)
    packets = talk.take(A, B)
    assert len(packets) > 60
    assert ADD not in kinds(packets)
    talk.send(A, b"small")
    [small] = talk.take(A, B)
    talk.arrive(B, small)
    assert talk.receive(B) == []
    talk.arrive(B, *packets[1:])
    assert talk.receive(B) == []
    talk.arrive(B, packets[0])
    [first, second] = [talk.hosts[B].receive(), talk.hosts[B].receive()]
    assert first is not None
    assert first[1] == large
    assert second is not None
    assert (second[0].mid(), second[1]) == (mid("a3"), b"small")
    assert names(second[0].predecessors) == ["a2"]
