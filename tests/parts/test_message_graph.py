"""The context graph by itself: what it refuses, masks, frees and hands out, and that it equals its slow twin."""

import pytest

from antiphon.parts.message_graph import PARTICIPANTS_MAX, GraphError, GraphView, MessageGraph, Mid, Node
from tests.parts.graphs import differences

A, B, C = 0, 1, 2


def chain(graph: MessageGraph, *senders: int) -> list[Node]:
    """Messages, each in the context of all before it."""
    nodes: list[Node] = []
    for sender in senders:
        before = [nodes[-1].mid()] if nodes else []
        nodes.append(graph.attach(sender, graph.last[sender] + 1, before, b"x"))
    return nodes


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_graph_equals_its_twin(first: int) -> None:
    for seed in range(first, first + 50):
        messages, wrong = differences(seed)
        assert wrong == [], f"{messages} messages"


def test_message_waits_for_its_predecessors() -> None:
    graph = MessageGraph(3)
    assert graph.missing([(A, 1), (B, 1)]) == [(A, 1), (B, 1)]
    graph.attach(A, 1, [], b"")
    assert graph.missing([(A, 1), (B, 1)]) == [(B, 1)]


@pytest.mark.parametrize(
    ("sender", "number", "predecessors", "problem"),
    [
        (B, 1, [(C, 1)], "before its predecessor"),
        (A, 2, [(A, 1)], "should"),
        (B, 1, [(A, 1), (A, 2)], "beside one that follows it"),
        (B, 1, [(A, 2), (A, 2)], "two predecessors of"),
        (A, 3, [(A, 1)], "not in the context of the one before"),
        (A, 3, [], "not in the context of the one before"),
    ],
)
def test_contradictions_are_refused(sender: int, number: int, predecessors: list[Mid], problem: str) -> None:
    graph = MessageGraph(3)
    chain(graph, A, A)
    with pytest.raises(GraphError, match=problem):
        graph.attach(sender, number, predecessors, b"")
    assert (graph.nodes, graph.last, [leaf.mid() for leaf in graph.leaves()]) == (2, [2, 0, 0], [(A, 2)])


@pytest.mark.parametrize("participants", [0, PARTICIPANTS_MAX + 1])
def test_number_of_participants_is_limited(participants: int) -> None:
    with pytest.raises(GraphError, match="participants"):
        MessageGraph(participants)


def test_bodies_are_dropped_when_stable() -> None:
    graph = MessageGraph(3)
    first, second, _third = chain(graph, A, B, C)
    assert (first.body, second.body) == (None, b"x")
    assert (graph.bodies, graph.body_bytes) == (2, 2)


def test_bodies_can_be_kept() -> None:
    graph = MessageGraph(3, keep_bodies=True)
    assert [node.body for node in chain(graph, A, B, C)] == [b"x", b"x", b"x"]


def test_masked_participant_is_not_waited_for() -> None:
    graph = MessageGraph(3)
    first, _second = chain(graph, A, B)
    assert not graph.is_stable(first)
    graph.mask_out(C)
    assert graph.is_stable(first)
    assert graph.is_masked(C)


def test_participant_that_is_back_is_waited_for() -> None:
    graph = MessageGraph(3)
    graph.mask_out(C)
    graph.mask_in(C)
    first, _second = chain(graph, A, B)
    assert not graph.is_stable(first)


def test_alone_everything_is_stable_at_once() -> None:
    graph = MessageGraph(1)
    assert all(graph.is_stable(node) for node in chain(graph, A, A, A))


def test_free_forgets_a_message_and_its_past() -> None:
    graph = MessageGraph(2)
    nodes = chain(graph, A, B, A, B, A, B)
    assert graph.free(nodes[3]) == 4
    assert graph.nodes == 2
    assert [graph.node(node.mid()) for node in nodes[:4]] == [None] * 4
    assert nodes[4].predecessors == []
    assert [node.mid() for node in graph.between([], None)] == [(A, 3), (B, 3)]


def test_free_leaves_what_is_not_stable_and_what_may_still_be_named() -> None:
    graph = MessageGraph(3)
    nodes = chain(graph, A, B, C)
    assert graph.free(nodes[2]) == 0, "A 1 is stable, but A may name it in its next message"
    graph.attach(A, 2, [(A, 1)], b"")
    assert graph.free(nodes[2]) == 1


def test_free_waves_forgets_what_is_behind() -> None:
    graph = MessageGraph(2)
    chain(graph, A, B, A, B, A, B)
    assert graph.free_waves(4) == 3
    assert graph.first == [3, 2]


def test_between_tells_what_somebody_lacks() -> None:
    graph = MessageGraph(3)
    chain(graph, A, B, C, A)
    assert [node.mid() for node in graph.between([(A, 1)], (A, 2))] == [(B, 1), (C, 1)]
    assert [node.mid() for node in graph.between([(A, 1)], None)] == [(B, 1), (C, 1), (A, 2)]
    assert [node.mid() for node in graph.between([], (B, 1))] == [(A, 1)]
    assert graph.between([], (C, 9)) == []


def test_view_follows_the_graph() -> None:
    graph = MessageGraph(3)
    view = GraphView(graph)
    first, second, third = chain(graph, A, B, C)
    view.add(first)
    view.add(second)
    assert view.outstanding()
    assert view.leaves() == [second]
    assert view.next(second) == [], "C's answer is not in the view"
    assert not view.precedes(first, third)
    view.add(third)
    assert not view.outstanding()
    assert view.next(second) == [third]
    assert view.precedes(first, third)
    assert view.roots() == [first]
