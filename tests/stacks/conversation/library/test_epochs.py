"""The three graphs of Figure 9, and the order against its definition on random graphs (psync-1989, 4.3)."""

from random import Random

import pytest

from antiphon.parts.message_graph import GraphNode, MessageGraph, Mid
from antiphon.stacks.conversation.library.epochs import Epochs


class Views:
    """One graph, and the order of operations in one view of it."""

    def __init__(self, participants: int) -> None:
        self.graph = MessageGraph(participants)
        self.epochs = Epochs(self.graph)
        self.executed: list[str] = []
        self.names: dict[Mid, str] = {}

    def say(self, name: str, sender: int, *after: GraphNode) -> GraphNode:
        """A message: operation a commutes, operation b does not, and anything else is none."""
        node = self.graph.attach(sender, self.graph.last[sender] + 1, [each.mid() for each in after], b"")
        self.names[node.mid()] = name
        if name.startswith("a"):
            if self.epochs.add_commuting(node):
                self.executed.append(name)
        elif name.startswith("b"):
            self.epochs.add_ordered(node)
        else:
            self.epochs.add_other(node)
        self.executed += [self.names[each.mid()] for each in self.epochs.take()]
        return node


def test_figure_9_a_commuting_operations_do_not_wait_for_the_wave() -> None:
    views = Views(5)
    for sender, name in enumerate(["a0", "b1", "a2", "b3", "a4"]):
        views.say(name, sender)
        assert views.executed == [each for each in ["a0", "a2", "a4"] if int(each[1]) <= sender]


def test_figure_9_b_they_go_on_while_others_have_not_heard_of_the_rest() -> None:
    views = Views(3)
    b = views.say("b", 0)
    first = views.say("a1", 1)
    second = views.say("a2", 1, first)
    views.say("a3", 2, first)
    assert views.executed == ["a1", "a2", "a3"]
    views.say("a4", 1, second, b)  # depends on what was not executed
    assert views.executed == ["a1", "a2", "a3"]


def test_figure_9_c_the_set_ends_when_everybody_has_an_unexecuted_one_in_its_context() -> None:
    views = Views(3)
    b0 = views.say("b0", 0)
    a1 = views.say("a1", 1)
    views.say("b2", 2)  # this participant sends one itself
    assert views.executed == ["a1"]
    views.say("a1'", 1, a1, b0)  # and this one something in the context of another's
    assert views.executed == ["a1", "b0", "b2", "a1'"]


def test_an_acknowledgement_serves_as_well_as_an_operation() -> None:
    views = Views(2)
    b = views.say("b", 1)
    assert views.epochs.owes(0)
    assert not views.epochs.owes(1)
    views.say("-", 0, b)
    assert views.executed == ["b"]
    assert not views.epochs.owes(0)


def test_masked_participants_are_not_waited_for() -> None:
    views = Views(3)
    b = views.say("b", 0)
    views.say("-", 1, b)
    assert views.executed == []
    views.graph.mask_out(2)
    assert [node.mid() for node in views.epochs.take()] == [(0, 1)]


def test_own_operations_are_executed_in_the_order_of_issue() -> None:
    views = Views(2)
    one = views.say("b1", 0)
    two = views.say("a2", 0, one)
    three = views.say("b3", 0, two)
    views.say("a4", 0, three)
    assert views.executed == []
    ack = views.say("-", 1, one)
    assert views.executed == ["b1", "a2"]
    views.say("-", 1, ack, three)
    assert views.executed == ["b1", "a2", "b3", "a4"]


def random_conversation(random: Random) -> tuple[MessageGraph, list[GraphNode], dict[Mid, str]]:
    """Participants that receive each what another has, now and then, and a kind for each message."""
    participants = random.randrange(2, 5)
    graph = MessageGraph(participants)
    views: list[list[int]] = [[0] * participants for _ in range(participants)]
    nodes: list[GraphNode] = []
    kinds: dict[Mid, str] = {}
    for _ in range(random.randrange(1, 40)):
        sender = random.randrange(participants)
        for node in nodes:
            missing = any(node.past[rank] > views[sender][rank] for rank in range(participants))
            if not missing and node.number == views[sender][node.sender] + 1 and random.random() < 0.6:
                views[sender][node.sender] += 1
        leaves = [
            (rank, number)
            for rank, number in enumerate(views[sender])
            if number
            and not any(
                node.past[rank] >= number and node.number <= views[sender][node.sender]
                for node in nodes
            )
        ]  # fmt: skip
        nodes.append(graph.attach(sender, graph.last[sender] + 1, leaves, b""))
        views[sender][sender] += 1
        kinds[nodes[-1].mid()] = random.choice("aaab-")
    return graph, nodes, kinds


def depth_of(node: GraphNode, nodes: list[GraphNode], kinds: dict[Mid, str], depths: dict[Mid, int]) -> int:
    return max(
        [depths[other.mid()] for other in nodes if kinds[other.mid()] == "b" and other.precedes(node)], default=0
    )


def shuffled(nodes: list[GraphNode], random: Random) -> list[GraphNode]:
    """Another order of the context."""
    left, result = list(nodes), []
    while left:
        ready = [node for node in left if not any(other.precedes(node) for other in left)]
        result.append(random.choice(ready))
        left.remove(result[-1])
    return result


@pytest.mark.parametrize("seed", range(200))
def test_the_order_is_the_defined_one_in_whatever_order_the_messages_come(seed: int) -> None:
    random = Random(seed)
    graph, nodes, kinds = random_conversation(random)
    depths: dict[Mid, int] = {}
    for node in nodes:
        depths[node.mid()] = depth_of(node, nodes, kinds, depths) + (kinds[node.mid()] == "b")
    everywhere = [
        max([depths[node.mid()] for node in nodes if node.sender == rank], default=0)
        for rank in range(graph.participants)
    ]
    complete = min(everywhere)
    for _ in range(3):
        epochs = Epochs(graph)
        executed: list[Mid] = []
        for node in shuffled(nodes, random):
            if kinds[node.mid()] == "a":
                if epochs.add_commuting(node):
                    executed.append(node.mid())
            elif kinds[node.mid()] == "b":
                epochs.add_ordered(node)
            else:
                epochs.add_other(node)
            executed += [each.mid() for each in epochs.take()]
        key = {
            mid: (2 * depth + (kinds[mid] == "a"), mid[0] if kinds[mid] == "b" else 0) for mid, depth in depths.items()
        }
        assert [key[mid] for mid in executed] == sorted(key[mid] for mid in executed)
        expected = {mid for mid, depth in depths.items() if kinds[mid] != "-" and depth <= complete}
        assert set(executed) == expected
        assert len(executed) == len(expected)
