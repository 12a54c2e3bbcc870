"""The part of a graph that a checkpoint holds: it comes out as it went in, and damaged bytes are refused."""

from random import Random

import pytest

from antiphon.kernel.errors import MalformedError, UsageError
from antiphon.kernel.options import Options
from antiphon.parts.message_graph import GraphView, MessageGraph
from antiphon.stacks.conversation.free.host import ConversationHost
from antiphon.stacks.conversation.free.view_base import begin_at, decode_base
from tests.stacks.conversation.table import Table


def test_a_graph_begins_where_another_was() -> None:
    table = Table(3)
    talk = table.talk(0)
    base = decode_base(talk.checkpoint_base(), 3)
    graph = MessageGraph(3, True)
    view = GraphView(graph)
    begin_at(graph, view, base, talk.checkpoint_leaves())
    former = talk.replica.graph
    assert (graph.last, graph.stable_to, graph.stable_wave) == (former.last, former.stable_to, former.stable_wave)
    assert view.received == talk.view.received
    assert sorted(leaf.mid() for leaf in view.leaves()) == sorted(leaf.mid() for leaf in talk.view.leaves())
    assert sorted(leaf.mid() for leaf in graph.leaves()) == sorted(leaf.mid() for leaf in former.leaves())


def test_damaged_bytes_are_refused() -> None:
    table = Table(3)
    talk = table.talk(1)
    data, leaves = talk.checkpoint_base(), talk.checkpoint_leaves()
    for size in range(1, len(data)):
        with pytest.raises(MalformedError):
            decode_base(data[:size], 3)
    random = Random(1)
    participants = {"a": "a", "b": "b", "c": "c"}
    for _ in range(100):
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        host = ConversationHost("b", Options(), life=2)
        with pytest.raises(UsageError):
            host.restart(talk.cid, participants, leaves, base=bytes(damaged))
        assert host.open_ids() == []
