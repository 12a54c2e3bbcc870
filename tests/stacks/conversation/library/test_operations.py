"""Replicated objects: whatever the mix and the network, all copies come to be equal, and then there is silence."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.library.talker import Manner
from tests.stacks.conversation.library.plays import copies_of, operations_problem
from tests.stacks.conversation.library.stage import Stage


@pytest.mark.parametrize("seed", range(300))
def test_all_copies_become_equal(seed: int) -> None:
    assert operations_problem(seed) is None


def test_what_commutes_is_executed_at_once_where_it_is_issued() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, Manner(ack_every=32, ack_delay_ns=5 * MILLISECOND_NS))
    copies[1].operations.offer(b"5", True)
    stage.poll(1)
    assert [copy.sum for copy in copies] == [0, 5, 0]
    stage.rest()
    assert [copy.sum for copy in copies] == [5, 5, 5]


def test_what_commutes_is_acknowledged_at_leisure_and_the_rest_at_once() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, Manner(ack_every=32, ack_delay_ns=50 * MILLISECOND_NS, timeout_ns=1000 * MILLISECOND_NS))
    for _ in range(20):
        copies[0].operations.offer(b"1", True)
        stage.poll(0)
        stage.run(MILLISECOND_NS)
    stage.run(5 * MILLISECOND_NS)
    assert sum(copy.operations.acks() for copy in copies) == 0
    copies[0].operations.offer(b"b", False)
    stage.poll(0)
    stage.run(10 * MILLISECOND_NS)
    assert [copy.operations.acks() for copy in copies] == [0, 1, 1]
    assert [copy.seen for copy in copies] == [[(20, b"b")]] * 3


def test_those_who_all_issue_ordered_operations_need_no_acknowledgements_for_the_order() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, Manner(ack_every=32, ack_delay_ns=50 * MILLISECOND_NS))
    for rank, copy in enumerate(copies):
        copy.operations.offer(b"%d" % rank, False)
    stage.poll_all()
    stage.run(5 * MILLISECOND_NS)
    assert [copy.seen for copy in copies] == [[(0, b"0"), (0, b"1"), (0, b"2")]] * 3
    assert sum(copy.operations.acks() for copy in copies) == 0


def test_the_graph_does_not_grow_with_what_is_stable() -> None:
    stage = Stage(2, Random(1))
    copies = copies_of(stage, Manner())
    for _ in range(5000):
        copies[0].operations.offer(b"1", True)
        stage.poll(0)
        stage.run(10 * MILLISECOND_NS)
    stage.rest()
    assert copies[1].sum == 5000
    assert all(host.image.graph.nodes < 2500 for host in stage.hosts)
