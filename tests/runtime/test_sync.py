"""The facade for plain threads."""

import inspect
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import ClosedError, UsageError
from antiphon.runtime import Barrier, Message, ReaderError, ViewChange
from antiphon.runtime import node as asynchronous_node
from antiphon.runtime.settings import NodeSettings
from antiphon.runtime.sync import Group, Node

LIMIT_S = 20.0


def test_threads_talk() -> None:
    with (
        Node("a", address="127.0.0.1:0", incarnation=1) as alice,
        Node("b", address="127.0.0.1:0", incarnation=1) as bob,
    ):
        members = {"a": alice.address, "b": bob.address}
        groups = [alice.join("g", members=members, policy="static"), bob.join("g", members=members, policy="static")]

        def talk(group: Group) -> list[bytes]:
            assert isinstance(group.recv(timeout_s=LIMIT_S), ViewChange)
            group.send(b"one", timeout_s=LIMIT_S)
            group.send_many([b"two", b"three"], order="fifo")
            events = [group.recv(timeout_s=LIMIT_S) for _ in range(6)]
            return [event.payload for event in events if isinstance(event, Message)]

        with ThreadPoolExecutor() as threads:
            for payloads in threads.map(talk, groups):
                assert sorted(payloads) == sorted([b"one", b"two", b"three"] * 2)
        assert groups[0].close()
        assert alice.statistics()["messages_accepted"] == 3


def test_threads_join_and_leave() -> None:
    with (
        Node("a", address="127.0.0.1:0", incarnation=1) as alice,
        Node("b", address="127.0.0.1:0", incarnation=1) as bob,
    ):
        first = alice.join("g", members={"a": alice.address}, policy="primary")
        second = bob.join("g", contacts=[alice.address], timeout_s=LIMIT_S)
        events = [first.recv(timeout_s=LIMIT_S) for _ in range(2)]
        assert [len(event.view.members) for event in events if isinstance(event, ViewChange)] == [1, 2]
        assert second.leave(timeout_s=LIMIT_S)
        event = first.recv(timeout_s=LIMIT_S)
        assert isinstance(event, ViewChange)
        assert [member.name for member in event.left] == ["b"]
        assert [type(event) for event in second] == [ViewChange]  # what it has not read yet, and then the end


def test_threads_send_to_one_flush_and_set_barriers() -> None:
    with (
        Node("a", address="127.0.0.1:0", incarnation=1) as alice,
        Node("b", address="127.0.0.1:0", incarnation=1) as bob,
    ):
        first = alice.join("g", members={"a": alice.address}, policy="primary", domain=CausalityDomain(name="d"))
        second = bob.join("g", contacts=[alice.address], domain=CausalityDomain(name="d"), timeout_s=LIMIT_S)
        while not isinstance(event := first.recv(timeout_s=LIMIT_S), ViewChange) or len(event.view.members) < 2:
            pass
        first.send(b"for you", to=event.view.members[1], timeout_s=LIMIT_S)
        first.flush(timeout_s=LIMIT_S)
        first.barrier(b"now", timeout_s=LIMIT_S)
        alice.flush("d", timeout_s=LIMIT_S)
        events = [second.recv(timeout_s=LIMIT_S) for _ in range(4)]
        assert [type(event) for event in events] == [ViewChange, Message, Barrier, ViewChange]
        assert isinstance(events[1], Message)
        assert (events[1].payload, events[1].private) == (b"for you", True)


def test_a_timeout_takes_nothing() -> None:
    with Node("a", address="127.0.0.1:0", incarnation=1) as node:
        group = node.join("g", members={"a": node.address}, policy="static")
        group.recv(timeout_s=LIMIT_S)
        with pytest.raises(TimeoutError):
            group.recv(timeout_s=0.001)
        group.send(b"x")
        event = group.recv(timeout_s=LIMIT_S)
        assert isinstance(event, Message)
        assert event.payload == b"x"


def test_iteration_ends_with_the_node() -> None:
    with ThreadPoolExecutor() as threads, Node("a", address="127.0.0.1:0", incarnation=1) as node:
        group = node.join("g", members={"a": node.address}, policy="static")
        group.send(b"x")
        reading = threads.submit(list, group)
        while node.statistics()["messages_accepted"] == 0 or node.statistics()["messages_unread"] > 0:
            time.sleep(0.001)
        node.close()
        events = reading.result(LIMIT_S)
        assert [type(event) for event in events] == [ViewChange, Message]
        with pytest.raises(ClosedError):
            group.recv()
        with pytest.raises(ClosedError):
            group.send(b"y")
        assert node.close()


def test_errors_come_through() -> None:
    with Node("a", address="127.0.0.1:0", incarnation=1) as node:
        with pytest.raises(UsageError, match="do not include"):
            node.join("g", members={"b": "127.0.0.1:1"}, policy="static")
        with pytest.raises(UsageError, match="another program"), Node("b", address=node.address, incarnation=1):
            pass


def test_to_close_beside_other_threads_ends_them_all() -> None:
    for turn in range(20):
        node = Node("a", address="127.0.0.1:0", incarnation=1, linger_s=0.1)
        node.start()
        group = node.join("g", members={"a": node.address}, policy="static")

        def talk(reads: bool, group: Group = group) -> str:
            try:
                while True:
                    group.send(b"x")
                    if reads:
                        group.recv()
            except ClosedError as error:
                return str(error)

        with ThreadPoolExecutor(8) as threads:
            talking = [threads.submit(talk, reads) for reads in (True, False, False)]
            time.sleep(0.001 * (turn % 5))
            closing = [threads.submit(node.close) for _ in range(3)]
            results = {future.result(LIMIT_S) for future in closing}
            assert len(results) == 1
            assert all(future.result(LIMIT_S) for future in talking)


def test_all_groups_are_read_as_one() -> None:
    with Node("a", address="127.0.0.1:0", incarnation=1) as node:
        groups = [node.join(name, members={"a": node.address}, policy="static") for name in "gh"]
        for number in range(6):
            groups[number % 2].send(b"%d" % number)
        events = [node.recv(timeout_s=LIMIT_S) for _ in range(8)]
        assert [event.group for event in events[:2]] == ["g", "h"]
        assert [event.payload for event in events if isinstance(event, Message)] == [b"%d" % n for n in range(6)]
        with pytest.raises(ReaderError):
            groups[0].recv(timeout_s=LIMIT_S)


def test_a_call_from_the_nodes_own_thread_is_refused() -> None:
    with Node("a", address="127.0.0.1:0", incarnation=1) as node:
        group = node.join("g", members={"a": node.address}, policy="static")

        async def call() -> None:
            group.send(b"x")

        with pytest.raises(UsageError, match="own thread"):
            node.call(call())


def test_a_node_for_threads_takes_what_a_node_takes() -> None:
    taken = set(inspect.signature(asynchronous_node.Node).parameters) - {"name"}
    assert NodeSettings.__annotations__.keys() == taken
