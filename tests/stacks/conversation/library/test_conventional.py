"""Conventional protocols over the graph (psync-1989, 4.1): circuit, requests, turns, and the two handshakes (3.4)."""

from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.continuity import Continuity
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from antiphon.stacks.conversation.library.handshake import FAILED, TALKING
from antiphon.stacks.conversation.library.requests import ReceivedRequest, RequestClient, RequestServer
from antiphon.stacks.conversation.library.stable import FAILURE, SUCCESS
from tests.stacks.conversation.library.plays import TIMEOUT_NS, session_problem, sessions_of
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage

# ---- circuits --------------------------------------------------------------------------------------------------------


class End:
    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.got: list[bytes] = []

        self.answers = 0
        """How many of the messages to come are answered."""

    def poll(self, now_ns: int) -> None:
        for _, payload in self.circuit.poll(now_ns):
            self.got.append(payload)
            if self.answers:
                self.answers -= 1
                self.circuit.offer(payload)
                self.circuit.poll(now_ns)


def ends_of(stage: Stage, manner: FilterOptions) -> list[End]:
    ends: list[End] = []

    def make(conversation: ConversationCore, rank: int) -> Actor:
        end = End(Circuit(conversation, manner))
        ends.append(end)
        return Actor(end.poll, end.circuit.deadline_ns)

    stage.cast(make)
    return ends


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("seed", range(60))
def test_a_circuit_carries_both_streams_in_order(seed: int) -> None:
    stage = bad_stage(seed, 2)
    ends = ends_of(stage, FilterOptions(window=1 + seed % 7, tries=1000))
    for payload in numbers(40):
        for end in ends:
            end.circuit.offer(payload)
    stage.poll_all()
    stage.rest()
    assert ends[0].got == ends[1].got == numbers(40)
    assert [end.circuit.outstanding() for end in ends] == [0, 0]


@pytest.mark.parametrize("window", [1, 4])
def test_the_window_counts_messages_that_are_not_stable(window: int) -> None:
    stage = Stage(2, Random(1))
    ends = ends_of(stage, FilterOptions(window=window))
    graph = stage.hosts[0].image.graph
    for payload in numbers(30):
        ends[0].circuit.offer(payload)
    stage.poll(0)
    worst = 0
    while not stage.is_quiet():
        worst = max(worst, graph.last[0] - graph.stable_to[0])
        stage.run(MILLISECOND_NS // 4)
    assert worst == window
    assert ends[1].got == numbers(30)


def test_stop_and_wait_makes_a_line() -> None:
    stage = Stage(2, Random(1))
    ends = ends_of(stage, FilterOptions(window=1))
    for payload in numbers(20):
        ends[0].circuit.offer(payload)
    stage.poll(0)
    stage.rest()
    graph = stage.hosts[0].image.graph
    nodes = graph.in_order()
    assert len(nodes) == 40  # each message and its acknowledgement
    assert all(len(node.successors) <= 1 and len(node.predecessors) <= 1 for node in nodes)
    assert [node.wave for node in nodes] == list(range(1, 41))


def test_answers_carry_the_acknowledgements() -> None:
    """Each end speaks when it hears something: no message is an acknowledgement alone, but the last."""
    stage = Stage(2, Random(1))
    ends = ends_of(stage, FilterOptions(window=1, ack_delay_ns=MILLISECOND_NS, ack_every=9))
    for end in ends:
        end.answers = 10
    ends[0].circuit.offer(b"x")
    stage.poll(0)
    stage.rest()
    assert [len(end.got) for end in ends] == [10, 11]
    assert sum(stage.hosts[0].image.graph.last) == 21 + 1


def test_a_queue_that_is_full_takes_no_more() -> None:
    stage = Stage(2, Random(1))
    ends = ends_of(stage, FilterOptions(window=1, queue_max=2))
    ends[0].circuit.offer(b"0")
    ends[0].circuit.offer(b"1")
    assert not ends[0].circuit.may_offer()
    with pytest.raises(UsageError):
        ends[0].circuit.offer(b"2")


def test_a_circuit_to_somebody_who_is_gone_is_broken_after_its_tries() -> None:
    stage = Stage(2, Random(1))
    ends = ends_of(stage, FilterOptions(tries=3))
    stage.dead.add(1)
    ends[0].circuit.offer(b"0")
    stage.poll(0)
    stage.run(25 * MILLISECOND_NS)
    assert not ends[0].circuit.is_broken()
    stage.run(1000 * MILLISECOND_NS)
    assert ends[0].circuit.is_broken()


# ---- requests --------------------------------------------------------------------------------------------------------


class Shop:
    """A client, and servers that answer when they are told to."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.client = RequestClient(stage.hosts[0], tries=200, timeout_ns=TIMEOUT_NS)
        self.servers = [RequestServer(host) for host in stage.hosts]
        self.requests: list[list[ReceivedRequest]] = [[] for _ in stage.hosts]
        self.answers_at_once = True
        stage.cast(self._make)

    def _make(self, conversation: ConversationCore, rank: int) -> Actor:
        def poll(now_ns: int) -> None:
            if rank == 0:
                self.client.poll(now_ns)
                return
            for request in self.servers[rank].poll():
                self.requests[rank].append(request)
                if self.answers_at_once:
                    self.servers[rank].reply(request, request.payload.upper())

        return Actor(poll, self.client.deadline_ns) if rank == 0 else Actor(poll)

    def ask(self, payload: bytes, wanted: int) -> None:
        self.client.ask(payload, self.stage.now_ns, wanted=wanted)
        self.stage.flush(0)


@pytest.mark.parametrize("seed", range(40))
def test_requests_are_answered_on_a_bad_network(seed: int) -> None:
    stage = bad_stage(seed, 2 + seed % 4)
    shop = Shop(stage)
    for number in range(6):
        shop.ask(b"q%d" % number, stage.count - 1)
        stage.rest()
        assert shop.client.outcome == SUCCESS
        assert [payload for _, payload in shop.client.replies] == [b"Q%d" % number] * (stage.count - 1)
    assert all(len(requests) == 6 for requests in shop.requests[1:])


def test_requests_and_replies_are_all_there_is() -> None:
    stage = Stage(2, Random(1))
    shop = Shop(stage)
    for number in range(6):
        shop.ask(b"q%d" % number, 1)
        stage.rest()
    assert stage.hosts[0].image.graph.last == [6, 6]
    assert [node.wave for node in stage.hosts[0].image.graph.in_order()] == list(range(1, 13))


def test_servers_see_each_others_replies() -> None:
    stage = Stage(3, Random(1))
    shop = Shop(stage)
    shop.answers_at_once = False
    shop.ask(b"q", 1)
    stage.run(10 * MILLISECOND_NS)
    assert shop.servers[1].reply(shop.requests[1][0], b"one")
    stage.flush(1)
    stage.rest()
    assert shop.requests[2][0].answered_by == [1]  # it may save itself the work
    assert shop.client.outcome == SUCCESS
    shop.ask(b"r", 1)
    stage.run(10 * MILLISECOND_NS)
    assert not shop.servers[2].reply(shop.requests[2][0], b"late")


def test_too_few_replies_fail() -> None:
    stage = Stage(3, Random(1))
    shop = Shop(stage)
    shop.client = RequestClient(stage.hosts[0], tries=3, timeout_ns=TIMEOUT_NS)
    stage.cast(shop._make)
    stage.dead.add(2)
    shop.ask(b"q", 2)
    stage.rest()
    assert shop.client.outcome == FAILURE
    assert [node.sender for node, _ in shop.client.replies] == [1]


# ---- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_two_speak_by_turns_and_nothing_else_is_sent(seed: int) -> None:
    stage = bad_stage(seed, 2)
    turns = [Continuity(host, tries=200, timeout_ns=TIMEOUT_NS) for host in stage.hosts]
    heard: list[list[bytes]] = [[], []]

    def make(conversation: ConversationCore, rank: int) -> Actor:
        def poll(now_ns: int) -> None:
            said = turns[rank].poll(now_ns)
            if said is None:
                return
            heard[rank].append(said)
            if said == b"bye":
                return
            turns[rank].say(b"bye" if len(heard[rank]) == 5 and rank == 0 else b"%d" % len(heard[rank]), now_ns)
            if len(heard[rank]) == 5 and rank == 0:
                turns[rank].over()

        return Actor(poll, turns[rank].deadline_ns)

    stage.cast(make)
    turns[0].say(b"hello", 0)
    stage.flush(0)
    stage.rest()
    assert heard == [[b"1", b"2", b"3", b"4", b"5"], [b"hello", b"1", b"2", b"3", b"4", b"bye"]]
    assert stage.hosts[0].image.graph.last == [6, 5]
    assert not any(turn.has_failed() for turn in turns)


def test_speaking_out_of_turn_is_refused() -> None:
    turns = [Continuity(host, tries=1, timeout_ns=TIMEOUT_NS) for host in Stage(2, Random(1)).hosts]
    turns[0].say(b"x", 0)
    for turn in turns:
        with pytest.raises(UsageError):
            turn.say(b"y", 0)


# ---- a beginning and an end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_all_begin_talk_and_end(seed: int) -> None:
    assert session_problem(seed) is None


def test_the_beginning_takes_three_ways() -> None:
    stage = Stage(3, Random(1))
    sessions = sessions_of(stage)
    stage.rest()
    assert all(session.phase == TALKING for session in sessions)
    assert stage.hosts[0].image.graph.last == [2, 1, 1]


def test_a_beginning_without_somebody_fails() -> None:
    stage = Stage(3, Random(1))
    stage.dead.add(2)
    sessions = sessions_of(stage, tries=3)
    stage.rest()
    assert [sessions[0].phase, sessions[1].phase] == [FAILED, FAILED]
    with pytest.raises(UsageError):
        sessions[0].send(b"x")


def test_an_end_without_somebody_fails() -> None:
    stage = Stage(3, Random(1))
    sessions = sessions_of(stage, tries=3)
    stage.rest()
    stage.dead.add(2)
    sessions[0].end(stage.now_ns)
    stage.flush(0)
    stage.rest()
    assert [sessions[0].phase, sessions[1].phase] == [FAILED, FAILED]
