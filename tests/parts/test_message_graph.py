"""The context graph by itself: what it refuses, masks, frees and hands out, and that it equals its slow twin."""

import pytest

from antiphon.parts.message_graph import PARTICIPANTS_MAX, GraphError, GraphNode, GraphView, MessageGraph, Mid
from tests.parts.graphs import converse, differences

A, B, C = 0, 1, 2


def chain(graph: MessageGraph, *senders: int) -> list[GraphNode]:
    """Messages, each in the context of all before it."""
    nodes: list[GraphNode] = []
    for sender in senders:
        before = [nodes[-1].mid()] if nodes else []
        nodes.append(graph.attach(sender, graph.last[sender] + 1, before, b"x"))
    return nodes


def mids(nodes: list[GraphNode]) -> list[Mid]:
    return [node.mid() for node in nodes]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_graph_equals_its_twin(first: int) -> None:
    for seed in range(first, first + 50):
        assert differences(converse(seed)) == [], f"seed {seed}"


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
    assert [node.mid() for node in graph.in_order()] == [(A, 3), (B, 3)]


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


def test_trim_forgets_the_earliest_down_to_a_threshold() -> None:
    graph = MessageGraph(2)
    chain(graph, A, B, A, B, A, B)
    assert graph.trim(4) == 2
    assert mids(graph.in_order()) == [(A, 2), (B, 2), (A, 3), (B, 3)]
    assert graph.trim(4) == 0
    assert graph.trim(0) == 2, "the last of each stays: it may still be named"


def test_trim_passes_by_a_participant_that_fell_silent() -> None:
    """Its last message stays, and does not hold up the others'."""
    graph = MessageGraph(3)
    graph.mask_out(C)
    chain(graph, C, A, B, A, B, A, B)
    graph.trim(3)
    assert mids(graph.in_order()) == [(C, 1), (A, 3), (B, 3)]


def test_what_was_freed_cannot_be_named_by_who_was_masked_out() -> None:
    graph = MessageGraph(3)
    graph.mask_out(C)
    nodes = chain(graph, A, B, A, B)
    graph.free(nodes[1])
    with pytest.raises(GraphError, match="freed"):
        graph.attach(C, 1, [(A, 1)], b"")


def test_attaching_does_not_look_at_what_lies_behind() -> None:
    """Somebody is back after a long silence: nothing is walked through, nothing is counted twice."""
    graph = MessageGraph(3)
    graph.mask_out(C)
    chain(graph, *[A, B] * 50)
    graph.mask_in(C)
    assert graph.stable_to == [50, 49, 0]
    graph.attach(C, 1, [(B, 50)], b"")
    assert graph.stable_to == [50, 49, 0], "A has not followed the last of B"
    assert graph.followers(graph.leaves()[0]) == []
    graph.attach(A, 51, [(C, 1)], b"")
    assert graph.stable_to == [50, 50, 0]
    graph.attach(B, 51, [(A, 51)], b"")
    assert graph.stable_to == [50, 50, 1]


def test_the_view_may_know_less_than_the_graph() -> None:
    """A's message is stable here; what makes it so has not been received. Its wave is not complete in the view."""
    graph = MessageGraph(3)
    view = GraphView(graph)
    first = graph.attach(A, 1, [], b"")
    view.add(first)
    answer = graph.attach(B, 1, [(A, 1)], b"")
    graph.attach(C, 1, [], b"same wave")
    last = graph.attach(C, 2, [(C, 1), (A, 1)], b"")
    assert graph.is_stable(first)
    view.add(answer)
    assert not view.is_stable(first)
    assert [view.holds(node) for node in graph.in_order()] == [True, False, True, False]
    view.add(graph.in_order()[1])
    view.add(last)
    assert view.is_stable(first)


def test_between_tells_what_somebody_lacks() -> None:
    graph = MessageGraph(3, keep_bodies=True)
    chain(graph, A, B, C, A)
    assert mids(graph.between([(A, 1)], (A, 2), 9, C)) == [(B, 1), (C, 1)]
    assert mids(graph.between([(A, 1)], None, 9, C)) == [(B, 1), (C, 1), (A, 2)]
    assert mids(graph.between([], (B, 1), 9, C)) == [(A, 1)]
    assert mids(graph.between([], None, 2, C)) == [(A, 1), (B, 1)]


def test_between_gives_all_it_has_to_who_waits_for_what_is_not_here() -> None:
    """C waits for a message that follows A 2 and B 1. The host that has A 2 alone helps with that."""
    graph = MessageGraph(3)
    chain(graph, A, A)
    assert mids(graph.between([(A, 1)], (C, 9), 9, C)) == [(A, 2)]


def test_between_passes_over_what_has_no_body() -> None:
    """Else a limited answer would be used up by what cannot be sent."""
    graph = MessageGraph(2)
    chain(graph, A, B, A, B, A)
    assert mids(graph.between([], None, 1, C)) == [(A, 3)]


def test_between_knows_what_a_leaf_stands_for() -> None:
    """Also where the leaf is not here: its sender's messages up to it are no news."""
    graph = MessageGraph(3, keep_bodies=True)
    chain(graph, A, B)
    graph.attach(C, 1, [], b"")
    assert mids(graph.between([(B, 1)], None, 9, C)) == [(C, 1)]
    assert mids(graph.between([(A, 7)], None, 9, C)) == [(B, 1), (C, 1)]


def test_between_gives_last_what_the_asker_has_followed() -> None:
    """B follows A 1 to A 5, and then something that is not here, which is its leaf; it lacks A 6 alone."""
    graph = MessageGraph(3)
    chain(graph, A, A, A, A, A, B)
    graph.attach(A, 6, [(A, 5)], b"")
    assert mids(graph.between([(C, 3)], None, 1, B)) == [(A, 6)]
    assert mids(graph.between([(C, 3)], None, 3, B)) == [(A, 6), (A, 1), (A, 2)]
    assert mids(graph.between([(A, 5)], None, 3, B)) == [(A, 6), (B, 1)], "if all leaves are here, they tell"


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


def test_what_is_told_to_be_received_is_stable_and_its_last_one_is_not_freed() -> None:
    """Two participants tell what they have received and send nothing; later one attaches to the last that it had."""
    graph = MessageGraph(3)
    for number in (1, 2):
        graph.attach(0, number, [(0, number - 1)] if number > 1 else [], b"")
    graph.acknowledge(1, [2, 0, 0])
    assert graph.stable_to == [0, 0, 0]
    graph.acknowledge(2, [2, 0, 0])
    assert graph.stable_to == [2, 0, 0]
    assert graph.stable_wave == 2
    graph.attach(0, 3, [(0, 2)], b"")
    assert graph.free_waves(9) == 1
    graph.attach(2, 1, [(0, 2)], b"it had not received the third")
    graph.acknowledge(1, [3, 0, 1])
    assert graph.stable_to == [2, 0, 0]
    graph.acknowledge(2, [3, 0, 1])
    graph.acknowledge(0, [3, 0, 1])
    assert graph.stable_to == [3, 0, 1]


def test_what_is_told_may_be_ahead_of_what_is_here() -> None:
    graph = MessageGraph(2)
    graph.attach(0, 1, [], b"")
    graph.acknowledge(1, [3, 0])
    assert graph.stable_to == [1, 0]
    graph.attach(0, 2, [(0, 1)], b"")
    assert graph.stable_to == [2, 0]
