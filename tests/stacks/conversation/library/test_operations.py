"""Replicated objects: whatever the mix and the network, all copies come to be equal, and then there is silence."""

from random import Random

import pytest

from antiphon.kernel.options import MILLISECOND_NS
from antiphon.stacks.conversation.library.filter_base import FilterOptions
from tests.stacks.conversation.library.plays import copies_of, operations_problem, removal_problem
from tests.stacks.conversation.library.stage import Stage


@pytest.mark.parametrize("seed", range(300))
def test_all_copies_become_equal(seed: int) -> None:
    assert operations_problem(seed) is None


@pytest.mark.parametrize("seed", range(60))
def test_the_others_stay_equal_when_one_fails_and_is_removed(seed: int) -> None:
    assert removal_problem(seed) is None


def test_what_commutes_is_executed_at_once_where_it_is_issued() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, FilterOptions(ack_every=32, ack_delay_ns=5 * MILLISECOND_NS))
    copies[1].issue(b"5", True)
    assert [copy.sum for copy in copies] == [0, 5, 0]
    stage.poll(1)
    stage.rest()
    assert [copy.sum for copy in copies] == [5, 5, 5]


def test_what_commutes_is_acknowledged_at_leisure_and_the_rest_at_once() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(
        stage, FilterOptions(ack_every=32, ack_delay_ns=50 * MILLISECOND_NS, timeout_ns=1000 * MILLISECOND_NS)
    )
    for _ in range(20):
        copies[0].issue(b"1", True)
        stage.poll(0)
        stage.run(MILLISECOND_NS)
    stage.run(5 * MILLISECOND_NS)
    assert sum(copy.operations.acks() for copy in copies) == 0
    copies[0].issue(b"b", False)
    stage.poll(0)
    stage.run(10 * MILLISECOND_NS)
    assert [copy.operations.acks() for copy in copies] == [0, 1, 1]
    assert [copy.seen for copy in copies] == [[(20, b"b")]] * 3


def test_those_who_all_issue_ordered_operations_need_no_acknowledgements_for_the_order() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, FilterOptions(ack_every=32, ack_delay_ns=50 * MILLISECOND_NS))
    for rank, copy in enumerate(copies):
        copy.issue(b"%d" % rank, False)
    stage.poll_all()
    stage.run(5 * MILLISECOND_NS)
    assert [copy.seen for copy in copies] == [[(0, b"0"), (0, b"1"), (0, b"2")]] * 3
    assert sum(copy.operations.acks() for copy in copies) == 0


def test_the_graph_does_not_grow_with_what_is_stable() -> None:
    stage = Stage(2, Random(1))
    copies = copies_of(stage, FilterOptions())
    for _ in range(5000):
        copies[0].issue(b"1", True)
        stage.poll(0)
        stage.run(10 * MILLISECOND_NS)
    stage.rest()
    assert copies[1].sum == 5000
    assert all(host.replica.graph.nodes < 2500 for host in stage.hosts)


def test_what_is_issued_together_travels_in_one_message() -> None:
    stage = Stage(2, Random(1))
    copies = copies_of(stage, FilterOptions(ack_every=100, ack_delay_ns=50 * MILLISECOND_NS))
    for number in range(30):
        copies[0].issue(b"%d" % number, True)
    copies[0].issue(b"b", False)
    stage.poll(0)
    assert stage.hosts[0].replica.graph.last == [2, 0]
    stage.rest()
    assert copies[1].sum == copies[0].sum
    assert copies[1].seen == copies[0].seen == [(sum(range(30)), b"b")]


def test_a_full_pack_goes_out_by_itself() -> None:
    stage = Stage(2, Random(1))
    copies = copies_of(stage, FilterOptions())
    for number in range(500):
        copies[0].issue(b"%d" % number, True)
    assert stage.hosts[0].replica.graph.last[0] == 4
    stage.poll(0)
    stage.rest()
    assert [copy.sum for copy in copies] == [sum(range(500))] * 2


def test_what_commutes_waits_while_an_ordered_one_waits_in_the_view() -> None:
    stage = Stage(3, Random(1))
    copies = copies_of(stage, FilterOptions(timeout_ns=10_000 * MILLISECOND_NS))
    stage.dead.add(2)
    copies[0].issue(b"b", False)
    stage.poll(0)
    copies[0].issue(b"7", True)
    stage.poll(0)
    stage.run(20 * MILLISECOND_NS)
    assert [copy.sum for copy in copies] == [0, 0, 0]
    stage.dead.clear()
    stage.rest()
    assert [copy.sum for copy in copies] == [7, 7, 7]


def test_garbage_in_a_message_is_no_operation() -> None:
    stage = Stage(2, Random(1))
    copies = copies_of(stage, FilterOptions())
    for payload in (b"", b"\x00\x05", b"\x09\xff\xff\xff\xffx", b"\xee"):
        stage.send(0, payload)
    stage.rest()
    assert copies[1].executed == []
