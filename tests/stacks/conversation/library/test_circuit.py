"""Virtual circuits over the graph (psync-1989, 4.1): order, window, acknowledgements, a peer that is gone."""

from random import Random

import pytest

from antiphon.kernel.errors import UsageError
from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.library.circuit import Circuit
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from tests.stacks.conversation.library.stage import Actor, Stage, bad_stage


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


def ends_of(stage: Stage, options: FilterOptions) -> list[End]:
    ends: list[End] = []

    def make(conversation: ConversationCore, rank: int) -> Actor:
        end = End(Circuit(conversation, options))
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
    graph = stage.hosts[0].replica.graph
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
    graph = stage.hosts[0].replica.graph
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
    assert sum(stage.hosts[0].replica.graph.last) == 21 + 1


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
